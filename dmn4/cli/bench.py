"""dmn4 benchmark: speed and memory beside the floor and the plain formulation."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Speed and memory beside the floor and the plain formulation.", no_args_is_help=True)

Rounds = Annotated[int, typer.Option(help="Least number of times that each contestant runs; figures are medians.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="JSON file with every figure.")]


def register(root: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    root.add_typer(app, name="benchmark")


@app.command()
def heads(rounds: Rounds = 9, out: Out = Path("out/benchmark-heads.json"),
          case: Annotated[list[str] | None, typer.Option(help="Only cases whose name contains this word.")] = None,
          method: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None) -> None:
    """Time every method on stored maps: ratio to the bare matrix products and to the dense formulation.

    Example: dmn4 benchmark heads --case conv4
    """
    from dmn4.benchmark import benchmark_heads

    benchmark_heads(rounds, out, case or [], method or [])


@app.command()
def evaluate(rounds: Rounds = 9, out: Out = Path("out/benchmark-evaluate.json")) -> None:
    """Time an episode over stored maps beside its head alone and beside embedding its pictures again.

    Example: dmn4 benchmark evaluate --rounds 21
    """
    from dmn4.benchmark import benchmark_evaluation

    benchmark_evaluation(rounds, out)


@app.command()
def classes(ways: Annotated[list[int] | None, typer.Option("--classes", min=2, help="Number of classes; 10,000 "
                                                           "take 5 GB.")] = None,
            rounds: Rounds = 21, out: Out = Path("out/benchmark-classes.json")) -> None:
    """Time learning, opening and asking classifiers of 5 to 10,000 classes, beside one pass of the network.

    Example: dmn4 benchmark classes --classes 100 --classes 1000
    """
    from dmn4.benchmark.classes import benchmark_classes

    benchmark_classes(ways or [5, 100, 1000, 10_000], rounds, out)


@app.command()
def bulk(megapixels: Annotated[float, typer.Option(help="Size of the JPEGs, in megapixels.")] = 12,
         pictures: Annotated[int, typer.Option(help="Pictures in every round.", min=12)] = 240, rounds: Rounds = 3,
         memory_pictures: Annotated[int, typer.Option(help="Small pictures over which memory is watched.", min=12)]
         = 20_000, out: Out = Path("out/benchmark-bulk.json")) -> None:
    """Time predict_many beside the bare network and beside decoding, and watch its memory.

    Example: dmn4 benchmark bulk --megapixels 2
    """
    from dmn4.benchmark.bulk import benchmark_bulk

    benchmark_bulk(megapixels, pictures, rounds, memory_pictures, out)


@app.command("all")
def all_of_them(rounds: Rounds = 5, seconds: Annotated[float, typer.Option(help="Of load on the service.", min=1)] = 30,
                out: Out = Path("out/benchmark-all.json")) -> None:
    """Run every benchmark, and write all ratios to floors as one JSON file: a quarter of an hour on two cores.

    Example: dmn4 benchmark all -o docs/results/speed/0.1.0.json
    """
    from dmn4.benchmark.ratios import benchmark_all

    benchmark_all(rounds, out, seconds)
