"""Every benchmark in one run, as ratios to floors: one small file a version, so that versions can be compared.

A ratio is time over the time of the floor, measured in the same run: 1 is as fast as the floor, and smaller is better.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import dmn4

from ..files import read_json, write_json
from .bulk import Rates, benchmark_bulk
from .classes import benchmark_classes
from .evaluation import benchmark_evaluation
from .heads import benchmark_heads
from .race import machine
from .service import load_test

CASES = ["conv4 5-way 1-shot", "conv4 5-way 5-shot", "resnet12 5-way 5-shot", "conv4 100-way 1-shot"]
METHODS = ["dn4", "mn4", "dmn4"]
WAYS = [5, 100, 1000]
FLOORS = {
    "scores": "matching and voting, over the bare matrix products of the search",
    "training step": "the same with gradients, over the same products",
    "evaluation": "an episode over stored maps, over its methods alone",
    "answer": "one picture among so many classes, over one pass of the network",
    "many pictures": "12-megapixel files to rows, over the bare network and the reading of the JPEGs' codes",
    "service": "answers over HTTP from 16 clients, over the bare network on all cores",
}

Ratios = dict[str, dict[str, float]]


def benchmark_all(rounds: int, out: Path, seconds: float = 30.0) -> Ratios:
    """Run the five benchmarks, and write the ratios of each to its floor as one JSON file."""
    about = machine()
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.json") for name in ("heads", "evaluation", "classes", "bulk", "service")]
        benchmark_heads(rounds, files[0], CASES, METHODS)
        benchmark_evaluation(rounds, files[1])
        benchmark_classes(WAYS, rounds, files[2])
        benchmark_bulk(pictures=60, rounds=min(rounds, 3), memory_pictures=240, out=files[3])
        load_test(seconds=seconds, out=files[4])
        ratios = {benchmark: dict(pairs) for benchmark, pairs in zip(FLOORS, read(*files), strict=True)}
    write_json(out, {"version": dmn4.__version__, "machine": about, "rounds": rounds, "ratios": ratios})
    print(f"every ratio: {out}")
    return ratios


def read(heads: Path, evaluation: Path, classes: Path, bulk: Path, service: Path) -> Iterator[list[tuple[str, float]]]:
    """The ratios in the files of the benchmarks, in the order of FLOORS."""
    figures = [(f"{method}, {case}", figure["floor_ratio"]) for case, methods in read_json(heads)["cases"].items()
               for method, figure in methods.items() if "dense" not in method and method != "floor"]
    yield [(name, ratio) for name, ratio in figures if " train," not in name]
    yield [(name.replace(" train,", ","), ratio) for name, ratio in figures if " train," in name]
    yield [(name, 1 + cost["beyond"]) for name, cost in read_json(evaluation)["cases"].items()]
    yield [(f"{int(ways):,} classes", cost["ratio"]) for ways, cost in read_json(classes)["classes"].items()]
    yield [("predict_many", Rates(**read_json(bulk)["rates"]).ratio)]
    load = read_json(service)
    yield [("predictions", load["floor"] / load["answers"])]
