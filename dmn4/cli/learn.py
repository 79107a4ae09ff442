"""dmn4 pretrain | train | average."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from dmn4.memory import keep_freed_memory
from dmn4.recipes import PRETRAINING, TRAINING, Pretraining, Recipe, Training, adjusted

Data = Annotated[Path, typer.Argument(help="data set with train, val and test classes, or the word `drawn`")]
Out = Annotated[Path, typer.Option("--out", "-o", help="run folder")]
Resume = Annotated[bool, typer.Option("--resume", help="continue the run in the folder")]
Devices = Annotated[int, typer.Option(help="processes, or GPUs, on each host")]
Nodes = Annotated[int, typer.Option(help="hosts")]
Accelerator = Annotated[str, typer.Option(help="cpu, cuda, mps or auto")]
Precision = Annotated[str, typer.Option(help="32-true, bf16-mixed, 16-mixed")]
SaveEvery = Annotated[float, typer.Option(help="seconds between two saved states")]
ValSplit = Annotated[str, typer.Option(help="classes that select the weights (empty: none)")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.command("pretrain")(pretrain)
    app.command("train")(train)
    app.command("average")(average)


def with_settings(kind: type[Recipe]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag for every field of a recipe; it receives those that were set as `settings`."""
    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            settings = {field.name: values.pop(field.name) for field in fields(kind)}
            command(**values, settings=settings)

        parameters = [parameter for name, parameter in inspect.signature(command).parameters.items()
                      if name != "settings"]
        flags = [inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[
            Optional[field.type], typer.Option(help=field.metadata["help"], rich_help_panel="Settings")])  # noqa: UP045
            for field in fields(kind)]
        signature = inspect.Signature([*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                                         for parameter in parameters), *flags])
        setattr(run, "__signature__", signature)  # noqa: B010 (what typer reads)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*parameters, *flags]}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run
    return decorate


def start_fabric(accelerator: str, devices: int, nodes: int, precision: Any) -> Any:
    """Lightning Fabric for these devices, launched; under torchrun the processes are those of torchrun."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=nodes, precision=precision)
    fabric.launch()
    return fabric


def run_stage(stage: Callable[..., Any], data: Path, val_split: str, out: Path, recipe: Recipe, **how: Any) -> None:
    """Train on the train classes of a data set; say where the results are, or how a stopped training goes on."""
    from dmn4.data.layouts import open_split

    keep_freed_memory()
    val = open_split(data, val_split) if val_split else None
    run = stage(open_split(data, "train"), out, recipe, val=val, **how)
    typer.echo(f"stopped and saved; go on with the same command and --resume ({run.folder})" if run.stopping else
               f"done: {run.folder} (log.csv, curves.png, card.json, backbone.safetensors)")


@with_settings(Pretraining)
def pretrain(data: Data, out: Out = Path("runs/pretrain"), recipe: Annotated[str, typer.Option(
             help=f"named settings: {', '.join(PRETRAINING)}")] = "conv4-cpu", resume: Resume = False,
             val_split: ValSplit = "val", accelerator: Accelerator = "cpu", devices: Devices = 1, nodes: Nodes = 1,
             precision: Precision = "32-true", save_every: SaveEvery = 120.0,
             settings: dict[str, Any] | None = None) -> None:
    """Train a backbone to classify the base classes (stage one).

    Example: dmn4 pretrain data/cub -o runs/cub --epochs 30
    """
    from dmn4.errors import choose
    from dmn4.training.pretrain import pretrain as stage

    chosen = adjusted(PRETRAINING[choose("recipe", recipe, PRETRAINING)], **(settings or {}))
    run_stage(stage, data, val_split, out, chosen, resume=resume, save_every=save_every,
              fabric=start_fabric(accelerator, devices, nodes, precision))


@with_settings(Training)
def train(data: Data, out: Out = Path("runs/train"), recipe: Annotated[str, typer.Option(
          help=f"named settings: {', '.join(TRAINING)}")] = "conv4-cpu", resume: Resume = False,
          val_split: ValSplit = "val", accelerator: Accelerator = "cpu", devices: Devices = 1, nodes: Nodes = 1,
          precision: Precision = "32-true", save_every: SaveEvery = 120.0,
          settings: dict[str, Any] | None = None) -> None:
    """Train a backbone and a method on episodes (stage two).

    Example: dmn4 train data/cub -o runs/cub-dmn4 --method dmn4 --weights runs/cub/backbone.safetensors
    """
    from dmn4.errors import choose
    from dmn4.training.train import train as stage

    chosen = adjusted(TRAINING[choose("recipe", recipe, TRAINING)], **(settings or {}))
    run_stage(stage, data, val_split, out, chosen, resume=resume, save_every=save_every,
              fabric=start_fabric(accelerator, devices, nodes, precision))


def average(runs: Annotated[list[Path], typer.Argument(help="run folders, or files of weights, of one backbone")],
            out: Annotated[Path, typer.Option("--out", "-o", help="file of weights")] = Path("runs/mean.safetensors"),
            ) -> None:
    """Write the mean of the weights of several trainings, which is often better than each of them.

    They should have begun with the same weights. Measure the mean on val before you use it.

    Example: dmn4 average runs/cub-a runs/cub-b -o runs/mean.safetensors
    """
    from dmn4.errors import InputError
    from dmn4.training.checkpoints import average_backbones

    if len(runs) < 2:
        raise InputError(f"{str(runs[0])!r} alone has no mean; name at least two trainings")
    average_backbones(runs, out)
    typer.echo(f"{out}: the mean of {len(runs)} trainings; dmn4 evaluate DATA --split val --weights {out} measures it")
