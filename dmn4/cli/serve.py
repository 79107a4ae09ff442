"""dmn4 serve: the page and the HTTP interface; dmn4 benchmark serve: how much it bears."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dmn4.errors import InputError

from . import bench

Backbone = Annotated[str, typer.Option(help="Network that describes the pictures.")]
Weights = Annotated[str | None, typer.Option(help="A .safetensors file, instead of the usual weights.")]
StorePlace = Annotated[str | None, typer.Option("--store", envvar="DMN4_STORE", metavar="PLACE", help=
                       "Where classifiers and tokens are kept: a folder, or postgresql://...")]
FilesPlace = Annotated[str | None, typer.Option("--files", envvar="DMN4_FILES", metavar="PLACE", help=
                       "Where the files of classifiers are, if not in the folder of the store: a folder or a URL.")]
MEGABYTE = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command and to the benchmarks."""
    app.command(epilog="Example: dmn4 serve --store classifiers/ --port 8080, then open http://127.0.0.1:8080")(serve)
    bench.app.command("serve", epilog="Example: dmn4 benchmark serve --seconds 60")(benchmark_serve)


def serve(models: Annotated[list[Path] | None, typer.Argument(metavar="MODEL", exists=True, dir_okay=False,
                                                              help="*.dmn4 files to serve from the start.")] = None,
          host: Annotated[str, typer.Option(help="Address; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
          port: Annotated[int, typer.Option(help="Port; 0 takes any free one.", min=0, max=65535)] = 8000,
          store: StorePlace = None, files: FilesPlace = None,
          is_open: Annotated[bool, typer.Option("--open", help="Let everybody in, also from other machines.")] = False,
          backbone: Annotated[str | None, typer.Option(help="Network that describes the pictures (default: that of the "
                                                       "first MODEL, or efficientnet_lite0).")] = None,
          weights: Weights = None,
          classifiers: Annotated[int | None, typer.Option(help="Most classifiers: in all without a store (16), else of "
                                                          "each token (1000).", min=1)] = None,
          classes: Annotated[int | None, typer.Option(help="Most classes of a classifier.", min=2)] = None,
          pictures: Annotated[int | None, typer.Option(help="Most pictures of a classifier (default: by memory).",
                                                       min=2)] = None,
          upload: Annotated[int | None, typer.Option(help="Most megabytes of a request.", min=1)] = None,
          revisions: Annotated[int | None, typer.Option(help="Revisions of a classifier to keep.",
                                                        min=1)] = None,
          workers: Annotated[int | None, typer.Option(help="Processes that compute (one per core).", min=1)] = None,
          memory: Annotated[int | None, typer.Option(help="Megabytes for each worker (default: together, half of the "
                                                     "machine's).", min=100)] = None,
          seconds: Annotated[float | None, typer.Option(help="Most seconds for one piece of work.", min=1)] = None,
          log: Annotated[Path | None, typer.Option(help="File for a line of JSON about each request (default: stderr, "
                                                   "with a store).", dir_okay=False)] = None) -> None:
    """Serve the web page and the HTTP interface: teach classifiers, name pictures, see why."""
    needed()
    from dmn4.web.limits import PICTURE_BYTES, Limits
    from dmn4.web.server import serve as run

    given: dict[str, Any] = {
        "classifiers": classifiers or (1000 if store else None), "classes": classes, "revisions": revisions,
        "shots": pictures or (memory and memory * MEGABYTE // PICTURE_BYTES), "workers": workers,
        "request_bytes": upload and upload * MEGABYTE, "worker_bytes": memory and memory * MEGABYTE,
        "work_seconds": seconds}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    run(models or (), host, port, backbone, weights, limits, typer.echo, store=store, files=files, is_open=is_open,
        log=log)


def needed() -> None:
    """Say which package is missing before anything begins."""
    try:
        import alembic  # noqa: F401
        import fastapi  # noqa: F401
        import fsspec  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f"the service needs {error.name}: pip install 'dmn4[serve]'") from None


def benchmark_serve(clients: Annotated[int, typer.Option(help="Clients that ask at the same time.", min=1)] = 16,
                    seconds: Annotated[float, typer.Option(help="Seconds of load.", min=1)] = 60.0,
                    replicas: Annotated[int, typer.Option(help="Number of services on one store.", min=1)] = 1,
                    store: Annotated[str | None, typer.Option(metavar="PLACE", help="An empty store "
                                                              "(default: a temporary folder).")] = None,
                    files: FilesPlace = None,
                    kill_every: Annotated[float, typer.Option(help="Seconds between killing replicas; 0: never.",
                                                              min=0)] = 0.0,
                    backbone: Backbone = "efficientnet_lite0", weights: Weights = None,
                    out: bench.Out = Path("out/benchmark-serve.json")) -> None:
    """Keep a service with tokens and a store busy: answers beside the bare network, errors, latency, memory."""
    needed()
    from dmn4.benchmark.service import load_test

    load_test(clients, seconds, backbone, weights, out, typer.echo, replicas=replicas, store=store, files=files,
              kill_every=kill_every)
