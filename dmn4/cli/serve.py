"""dmn4 serve: the page and the HTTP interface; dmn4 benchmark serve: how much it bears."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dmn4.errors import InputError

from . import bench

Backbone = Annotated[str, typer.Option(help="The network that describes pictures.")]
Weights = Annotated[str | None, typer.Option(help="A .safetensors file, in place of the usual weights.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command and to the benchmarks."""
    app.command(epilog="Example: dmn4 serve mine.dmn4 --port 8080, then open http://127.0.0.1:8080")(serve)
    bench.app.command("serve", epilog="Example: dmn4 benchmark serve --seconds 60")(benchmark_serve)


def serve(models: Annotated[list[Path] | None, typer.Argument(metavar="MODEL", exists=True, dir_okay=False,
                                                              help="*.dmn4 files to serve from the start.")] = None,
          host: Annotated[str, typer.Option(help="Address; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
          port: Annotated[int, typer.Option(help="0 takes any free one.", min=0, max=65535)] = 8000,
          backbone: Backbone = "efficientnet_lite0", weights: Weights = None,
          classifiers: Annotated[int, typer.Option(help="How many are kept; the oldest leaves.", min=1)] = 16,
          workers: Annotated[int, typer.Option(help="Pieces of work at the same time.", min=1)] = 2) -> None:
    """Open the page where pictures are taught, asked about and explained; and the same by HTTP."""
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f"the service needs {error.name}: pip install 'dmn4[serve]'") from None
    import torch

    from dmn4.web.limits import Limits
    from dmn4.web.server import serve as run

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    run(models or (), host, port, backbone, weights, Limits(classifiers=classifiers, workers=workers), typer.echo)


def benchmark_serve(clients: Annotated[int, typer.Option(help="That ask at the same time.", min=1)] = 16,
                    seconds: Annotated[float, typer.Option(help="For how long.", min=1)] = 60.0,
                    backbone: Backbone = "efficientnet_lite0", weights: Weights = None,
                    out: bench.Out = Path("out/benchmark-serve.json")) -> None:
    """Keep a service busy on loopback: errors, requests a second, latency, memory."""
    try:
        import httpx  # noqa: F401
    except ImportError:
        raise InputError("the load test needs httpx: pip install 'dmn4[test]'") from None
    from dmn4.benchmark.service import load_test

    load_test(clients, seconds, backbone, weights, out, typer.echo)
