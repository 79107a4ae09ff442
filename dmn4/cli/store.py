"""dmn4 token: who may use a service; dmn4 store: backup, restore and check of what it keeps."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmn4.errors import InputError

from .serve import MEGABYTE, FilesPlace, StorePlace, needed

if TYPE_CHECKING:
    from dmn4.web.store import Store

tokens = typer.Typer(no_args_is_help=True, help="Who may use a service that has a store.")
keeping = typer.Typer(no_args_is_help=True, help="Backup, restore and check what a service keeps.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.add_typer(tokens, name="token")
    app.add_typer(keeping, name="store")


@contextmanager
def opened(place: str | None, files: str | None) -> "Iterator[Store]":
    """The store that the options name."""
    needed()
    from dmn4.web.store import Store

    if place is None:
        raise InputError("name the store: --store PLACE, or DMN4_STORE in the environment")
    store = Store(place, files)
    try:
        yield store
    finally:
        store.close()


@tokens.command("add", epilog="Example: dmn4 token add ann --store classifiers/")
def add(name: Annotated[str, typer.Argument(help="Who will use the token.")],
        store: StorePlace = None, files: FilesPlace = None,
        admin: Annotated[bool, typer.Option("--admin", help="It may do everything with every classifier.")] = False,
        classifiers: Annotated[int | None, typer.Option(help="Most classifiers that it may keep.", min=0)] = None,
        pictures: Annotated[int | None, typer.Option(help="Most pictures that it may keep.", min=0)] = None,
        megabytes: Annotated[int | None, typer.Option(help="Most megabytes that it may keep.", min=0)] = None,
        ) -> None:
    """Make a token. It is shown once: only a hash of it is stored."""
    with opened(store, files) as kept:
        text = kept.tokens.add(name, admin, classifiers=classifiers, pictures=pictures,
                               bytes=None if megabytes is None else megabytes * MEGABYTE)
        note(kept, f"token {name} made")
        typer.echo(text)


@tokens.command("list", epilog="Example: dmn4 token list --store classifiers/")
def list_tokens(store: StorePlace = None, files: FilesPlace = None) -> None:
    """List all tokens by name, as a table with tabs."""
    with opened(store, files) as kept:
        for token in kept.tokens.all():
            state = "admin" if token.admin else "user"
            typer.echo(f"{token.name}\t{state if token.revoked is None else 'revoked'}\t{shown(token.made)}")


@tokens.command("revoke", epilog="Example: dmn4 token revoke ann --store classifiers/")
def revoke(name: Annotated[str, typer.Argument(help="As in `dmn4 token list`.")],
           store: StorePlace = None, files: FilesPlace = None) -> None:
    """Revoke a token, from the next request on. Its classifiers stay; admins can reach them."""
    with opened(store, files) as kept:
        kept.tokens.revoke(name)
        note(kept, f"token {name} revoked")


@keeping.command("backup", epilog="Example: dmn4 store backup today.zip --store classifiers/")
def backup(out: Annotated[Path, typer.Argument(help="The zip file to write.")],
           store: StorePlace = None, files: FilesPlace = None) -> None:
    """Back up a store to one zip file, even while services use it."""
    with opened(store, files) as kept:
        from dmn4.web.store.backup import backup as run

        typer.echo(f"{out}: {run(kept, out)} files and the database")


@keeping.command("restore", epilog="Example: dmn4 store restore today.zip --store postgresql://... --files s3://...")
def restore(source: Annotated[Path, typer.Argument(exists=True, dir_okay=False,
                                                    help="A zip file of `dmn4 store backup`.")],
            store: StorePlace = None, files: FilesPlace = None) -> None:
    """Fill an empty store of any kind from a backup."""
    with opened(store, files) as kept:
        from dmn4.web.store.backup import restore as run

        typer.echo(f"{run(source, kept)} files and the database restored")


@keeping.command("check", epilog="Example: dmn4 store check --store classifiers/")
def check(store: StorePlace = None, files: FilesPlace = None,
          repair: Annotated[bool, typer.Option("--repair", help="Remove files that belong to no classifier.")] = False,
          ) -> None:
    """Compare every file with its checksum; exit code 1 if something is wrong."""
    with opened(store, files) as kept:
        from dmn4.web.store.backup import check as run

        findings = list(run(kept, repair))
        for finding in findings:
            typer.echo(f"{finding.file}\t{finding.problem}")
    if findings:
        sys.exit(1)
    typer.echo("all files are whole")


@keeping.command("log", epilog="Example: dmn4 store log --store classifiers/")
def log(store: StorePlace = None, files: FilesPlace = None,
        lines: Annotated[int, typer.Option(help="How many lines.", min=1)] = 50) -> None:
    """List the newest changes as a table with tabs: when, who, from where, which classifier, what."""
    with opened(store, files) as kept:
        for line in reversed(kept.log(lines)):
            words = (shown(line["time"]), line["who"], line["address"], line["classifier"], line["what"])
            typer.echo("\t".join(word or "-" for word in words))


def note(kept: "Store", what: str) -> None:
    """Add a line to the audit log, by who is at the command line."""
    import getpass

    from dmn4.web.store import Caller

    kept.note(what, Caller(address=f"command line of {getpass.getuser()}"[:60]))


def shown(seconds: float) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(seconds).isoformat(" ", timespec="seconds")
