"""dmn4 suggest."""

from pathlib import Path
from typing import Annotated

import typer

from dmn4.errors import InputError

from .photos import note, plain_warnings, watched


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.command(epilog="Example: dmn4 suggest inbox/ -n 20, and later: dmn4 suggest birds.dmn4 inbox/ -n 20")(suggest)


def suggest(paths: Annotated[list[Path], typer.Argument(metavar="[MODEL] IMAGES", help="A file that `dmn4 fit` wrote, "
                                                                                       "if any; pictures or folders.")],
            count: Annotated[int, typer.Option("-n", help="How many pictures.", min=1)] = 10,
            csv: Annotated[Path | None, typer.Option("--csv", help="Also write a table to this file, with an empty "
                                                                   "column for the labels.")] = None,
            backbone: Annotated[str, typer.Option(help="Without a model: the network that looks at the pictures.")]
            = "efficientnet_lite0") -> None:
    """Choose the pictures whose labels would help most, the most useful first; without a model, a varied first set."""
    from dmn4.classify.cells import on_screen, table_text
    from dmn4.classify.plain import PlainClassifier, opened
    from dmn4.classify.sorting import gather, readable_files
    from dmn4.files import write_file

    model, pictures = (paths[0], paths[1:]) if is_model(paths[0]) else (None, paths)
    if not pictures:
        raise InputError(f"no pictures to choose from: write dmn4 suggest {model} IMAGES")
    with plain_warnings():
        images = readable_files(gather(pictures))
    classifier = PlainClassifier(backbone=backbone) if model is None else opened(PlainClassifier, model)
    chosen = [str(images[place]) for place in classifier.suggest(watched(images, "looking at pictures"), count)]
    for name in chosen:
        typer.echo(on_screen(name))
    if csv is not None:
        write_file(csv, table_text(("image", "label"), [{"image": name, "label": ""} for name in chosen]))
    note(f"{len(chosen)} of {len(images):,} pictures" + (f"; write their labels into {csv}" if csv else ""))


def is_model(path: Path) -> bool:
    """Whether a path is a model file rather than a picture or a folder of pictures."""
    from dmn4.images import SUFFIXES

    return path.suffix == ".dmn4" or (path.is_file() and path.suffix.lower() not in SUFFIXES)
