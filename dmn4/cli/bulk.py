"""dmn4 predict -o OUT | --parquet F: rows for many pictures, with any engine."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dmn4.errors import InputError

PANEL = "Many pictures"
Out = Annotated[str | None, typer.Option("--out", "-o", help="Write rows to this folder or address, a part at a time; "
                                         "the same command continues where it stopped.", rich_help_panel=PANEL)]
Parquet = Annotated[Path | None, typer.Option(help="Write rows to this one file.", rich_help_panel=PANEL)]
Engine = Annotated[str, typer.Option(help="Where to compute, with -o or --parquet: local (processes) or ray (a "
                                     "cluster).", rich_help_panel=PANEL)]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster; auto finds it. By default, Ray starts "
                                             "here.", rich_help_panel=PANEL)]
Workers = Annotated[int | None, typer.Option(help="Number of processes, or of workers on the cluster; by default one "
                                             "per core.", min=0, rich_help_panel=PANEL)]
Gpus = Annotated[float, typer.Option("--gpus-per-worker", help="Share of a GPU that a Ray worker takes.", min=0,
                                     rich_help_panel=PANEL)]
PlayEngine = Annotated[str, typer.Option(help="local (this process) or ray (a cluster).", rich_help_panel="Engine")]
EmbedEngine = Annotated[str, typer.Option(help="With --maps: local (this process) or ray (a cluster).",
                                          rich_help_panel=PANEL)]
CellEngine = Annotated[str, typer.Option(help="local (one cell after another) or ray (cells side by side).",
                                         rich_help_panel="Engine")]
CellWorkers = Annotated[int | None, typer.Option(help="CPUs of the cluster that is started here; as many as there are "
                                                 "cores.", min=1, rich_help_panel="Engine")]
PlayWorkers = Annotated[int | None, typer.Option(help="Pieces of work on the cluster at a time.", min=1,
                                                 rich_help_panel="Engine")]
Device = Annotated[str | None, typer.Option(help="Where the network runs: cpu, cuda or mps (default: cpu; cuda with "
                                            "GPUs).", rich_help_panel=PANEL)]
Column = Annotated[str | None, typer.Option(help="Column of a table that holds the pictures or their paths.",
                                            rich_help_panel=PANEL)]
Format = Annotated[str, typer.Option("--format", help="Format of the parts: parquet, csv or jsonl; label-studio: "
                                     "one JSON file of tasks to check there.", rich_help_panel=PANEL)]


def predict_in_bulk(model: str, images: Sequence[str], out: str | None, parquet: Path | None, **options: Any) -> str:
    """Write a row for every picture; how it went, in words. `asked` are further arguments of `predict_many`."""
    from dmn4.bulk.output import join
    from dmn4.bulk.predict import predict_many

    if out is not None and parquet is not None:
        raise InputError("-o writes a folder of parts and --parquet one file: give one of them")
    if parquet is not None and options["format"] != "parquet":
        raise InputError(f"--parquet writes no {options['format']}: give -o OUT with --format")
    parts = f"{parquet}.parts" if out is None else out
    with bar() as seen:
        done = predict_many(model, images, parts, **options, seen=seen)
    if parquet is not None:
        join(Path(parts), parquet)
        for part in Path(parts).glob("part-*"):               # before what tells of which run they are: killed here,
            part.unlink()                                     # the same command begins anew
        shutil.rmtree(parts)
    if done.errors and done.errors == done.count and not done.before:
        raise InputError(f"none of the {done.count} pictures can be read; the first: {done.first_error}")
    if not done.count:
        return f"nothing left to do: {done.out!r} holds all {done.before:,} parts"
    beside = f" (beside {done.before:,} parts that were there)" if done.before else ""
    return f"{summary(done.count, done.errors, done.seconds)}; rows in {str(parquet or done.out)!r}{beside}"


def summary(count: int, errors: int, seconds: float) -> str:
    """How many pictures, how fast, and how many could not be read, in words."""
    text = f"{count:,} picture{'s' * (count > 1)} in {seconds:.1f} s, {count / max(seconds, 1e-9):.1f} a second"
    return text + (f"; {errors:,} could not be read" if errors else "")


@contextmanager
def bar() -> Iterator[Any]:
    """A progress bar on a terminal; what it yields hears rows written and pictures known of."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console,
                  transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)
        yield lambda rows, total: shown.update(task, completed=rows, total=max(total, rows))
