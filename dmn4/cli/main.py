"""The root of the command line: every group of commands, and what a mistake looks like."""

import io
import os
import sys
import warnings
from typing import Annotated

import typer

from dmn4 import __version__
from dmn4.errors import InputError

from . import backbones, bench, data, export, label, learn, measure, photos, serve, sort, store

app = typer.Typer(
    name="dmn4", no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False,
    help="Sort photographs by a few labelled examples, with evidence; and the research behind it.",
    epilog="Start with [bold]dmn4 demo[/bold]; each command has an example under --help.",
)
photos.register(app)
label.register(app)
sort.register(app)
export.register(app)
learn.register(app)
measure.register(app)
bench.register(app)
serve.register(app)
store.register(app)
app.add_typer(data.app, name="data")
app.add_typer(backbones.app, name="backbones")


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"dmn4 {__version__}")
        raise typer.Exit


@app.callback()
def root(version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True,
                                               help="Show the version.")] = False) -> None:
    """Options of the root command itself."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a mistake of the user is one line and exit code 2, Ctrl-C is exit code 130."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")    # read when torch loads: see examples/measure_waiting.py
    if isinstance(sys.stdout, io.TextIOWrapper):                   # a name that the terminal cannot show is no mistake
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", module=photos.ODDITIES)
    try:
        arguments = with_values(sys.argv[1:] if arguments is None else arguments)
        code = app(args=arguments, standalone_mode=False)          # typer turns Ctrl-C into this number
        if code == 130:
            stop("interrupted", 130)
    except InputError as error:
        stop(str(error), 2)
    except typer.Exit as leave:
        sys.exit(leave.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        stop("interrupted", 130)
    except OSError as error:
        stop(f"{error.strerror or error}{f': {error.filename!r}' if error.filename else ''}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):                   # a wrong option or argument, in typer's words
            raise
        stop(error.format_message(), 2)


def with_values(arguments: list[str]) -> list[str]:
    """The arguments with an empty value behind each --reject that has none: its number may be left out."""
    following = [*arguments[1:], ""]
    return [f"{argument}=" if argument == "--reject" and not is_number(after) else argument
            for argument, after in zip(arguments, following, strict=True)]


def is_number(text: str) -> bool:
    """Whether this is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def stop(message: str, code: int) -> None:
    """Print one line and exit."""
    print(f"dmn4: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
