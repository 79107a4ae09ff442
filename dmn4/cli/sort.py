"""dmn4 sort."""

from pathlib import Path
from typing import Annotated

import typer

from dmn4.errors import InputError

from .photos import predict


def register(app: typer.Typer) -> None:
    """Add the command of this file to the root command."""
    app.command(epilog="Example: dmn4 sort birds.dmn4 inbox/ --into sorted/, and back: dmn4 sort --undo sorted/")(sort)


def sort(paths: Annotated[list[str] | None, typer.Argument(metavar="[MODEL IMAGES]", help="A file that `dmn4 fit` "
                                                           "wrote; pictures or folders.")] = None,
         into: Annotated[Path | None, typer.Option(help="Copy the pictures into a folder for each class here.")]
         = None, link: Annotated[bool, typer.Option("--link", help="Link instead of copying.")] = False,
         reject: Annotated[str | None, typer.Option("--reject", metavar="[SHARE]", help="As in `dmn4 predict`.")]
         = None, watch: Annotated[Path | None, typer.Option(help="Continue with what arrives in this folder, until "
                                                            "Ctrl-C.")] = None,
         undo: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Undo the last run of sorting into this "
                                                   "folder; what you changed since stays.")] = None) -> None:
    """Copy pictures into a folder for each class, or undo the last run."""
    from dmn4.sorting.undo import undo_last_run

    if undo is not None:
        if paths or into or watch or link or reject is not None:
            raise InputError("--undo goes alone: dmn4 sort --undo FOLDER")
        typer.echo(f"{undo}: {undo_last_run(undo).words}")
        return
    if not paths or into is None or (not paths[1:] and watch is None):
        raise InputError("say what to sort and where to: dmn4 sort MODEL IMAGES --into FOLDER")
    predict(paths[0], paths[1:], sort_into=into, link=link, reject=reject, watch=watch)
