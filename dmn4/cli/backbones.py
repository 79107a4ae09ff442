"""dmn4 backbones: which networks can be named; dmn4 backbones check: what one of them makes of two pictures."""

from pathlib import Path
from typing import Annotated

import psutil
import typer

from dmn4.errors import InputError

app = typer.Typer(help="List the networks that can describe pictures, or check one of them.",
                  invoke_without_command=True, epilog="Example: dmn4 backbones")


@app.callback()
def listed(context: typer.Context) -> None:
    """List the networks that can be named: map size, parameters, weights, licence, and what is installed.

    Example: dmn4 backbones
    """
    if context.invoked_subcommand is None:
        from dmn4.backbones.catalogue import Row, catalogue

        head = Row("name", "pixels -> map", "parameters", "weights", "licence", "here")
        rows = [list(vars(row).values()) for row in (head, *catalogue())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def check(name: Annotated[str, typer.Argument(metavar="NAME", help="Such as efficientnet_lite2 or hf:FOLDER.")],
          pictures: Annotated[list[Path] | None, typer.Argument(metavar="[PICTURE PICTURE]", help="Two pictures of "
                                                                "similar things (default: two of the demo's).")] = None,
          out: Annotated[Path, typer.Option("-o", "--out", help="The picture to write.")] = Path("backbone.png"),
          weights: Annotated[str | None, typer.Option(help="A .safetensors file with other weights.")] = None,
          layer: Annotated[str | None, typer.Option(help="Layer whose map is used.")] = None,
          image_size: Annotated[int | None, typer.Option(help="Scale pictures to this side, in pixels.", min=8)] = None,
          ) -> None:
    """Look at two pictures through a network: map size, time, memory, colours of patches, and matches.

    Example: dmn4 backbones check efficientnet_lite2 cats/1.jpg cats/2.jpg -o look.png
    """
    if pictures and len(pictures) != 2:
        raise InputError(f"{len(pictures)} pictures were named; name two, or none to take two of the demo's")
    import torch

    from dmn4.classify.parts import assemble
    from dmn4.evidence.draw.sheet import as_picture
    from dmn4.evidence.draw.sight import draw_sight
    from dmn4.evidence.sight import look_at
    from dmn4.images.looks import read_pixels
    from dmn4.sorting.demo import photographs

    parts = assemble("dmn4", name, weights, layer, image_size)
    sources = list(pictures or photographs()[0].images[:2])
    sight = look_at(parts.embedder, parts.transform, read_pixels(sources, parts.transform))
    _, channels, height, width = sight.maps.shape
    draw_sight(sight, (as_picture(sources[0]), as_picture(sources[1])),
               f"{name}, {parts.transform.size} pixels -> {height}x{width}x{channels}", out)
    memory = psutil.Process().memory_info().rss / 1e6
    typer.echo(f"{name}: {parts.transform.size} pixels -> {height}x{width}x{channels}\n"
               f"  time      {1e3 * sight.seconds:.1f} ms a picture, {torch.get_num_threads()} threads\n"
               f"  memory    {memory:.0f} MB, the whole process\n"
               f"  file      {2 * channels * sight.places / 1e3:.0f} kB a labelled picture\n"
               f"  matches   {len(sight.matches)} mutual ones among {sight.places} patches\n"
               f"{out}: the patches' colours and matches; look whether similar parts agree")
