"""predict_many: rows for any number of pictures, with any engine; interrupted, the same call goes on."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from ..classify.plain import PlainClassifier
from ..classify.verdict import refusable
from ..errors import InputError, choose
from .cluster import ENGINES
from .local import run_local
from .model import model_file
from .output import Output
from .sources import Listing
from .units import Piece, Plan, Unit, size_of_units
from .worker import Task

if TYPE_CHECKING:
    import pyarrow as pa

Engine = Callable[[Task, Iterable[Unit]], Iterator[tuple[int, "pa.Table"]]]


@dataclass
class Summary:
    """What a run did."""

    out: str
    count: int = 0                                            # rows written by this run
    errors: int = 0                                           # of them, pictures that could not be read
    before: int = 0                                           # parts that were there already
    first_error: str = ""
    seconds: float = 0.0

    def add(self, table: "pa.Table") -> None:
        """Count the rows of one more part."""
        errors = table["error"].drop_null().to_pylist()
        self.first_error = self.first_error or next(iter(errors), "")
        self.count, self.errors = self.count + len(table), self.errors + len(errors)


def predict_many(model: str | Path | PlainClassifier, source: str | Path | Iterable[str | Path], out: str | Path, *,
                 engine: str = "local", reject: bool | float = False, column: str | None = None,
                 format: str = "parquet",  # noqa: A002
                 workers: int | None = None, device: str | None = None, backbone: nn.Module | None = None,
                 rows_per_part: int | None = None, address: str | None = None, gpus_per_worker: float = 0,
                 seen: Callable[[int, int], None] = lambda rows, total: None) -> Summary:
    """Write a row for every picture of `source` to the folder `out`, a part at a time; what is there already stays.

    `source`: folders, patterns, pictures, lists (.txt, .csv), Parquet files with a column of paths or of pictures,
    WebDataset tars; on this machine or at any address of fsspec. `column`: of a table, which one. `format`: of the
    parts; parquet, csv or jsonl. `engine`: "local", or "ray" with `address` of a cluster (None: one on this machine)
    and `gpus_per_worker`. `workers`: processes, or units under way on the cluster (None: as many as there are cores; 0:
    this process alone). `device`: of the network (None: cuda with `gpus_per_worker`, otherwise cpu). `backbone`: only
    if the model was made with one of your own. `seen` hears rows written and pictures known of.
    """
    start = time.monotonic()
    if find_spec("pyarrow") is None:
        raise InputError("rows are kept as Arrow tables: pip install 'dmn4[bulk]'")
    choose("engine", engine, ENGINES)
    run = choose_engine(engine, workers, address, gpus_per_worker)
    if backbone is None and isinstance(model, PlainClassifier) and isinstance(model.backbone, nn.Module):
        backbone = model.backbone
    with model_file(model) as path:
        task = Task.of_file(path, reject=refusable(reject), device=device or ("cuda" if gpus_per_worker else "cpu"),
                            backbone=backbone)
        listing = Listing([source] if isinstance(source, str | Path) else source, column)
        pieces = list(listing)
        output = Output(str(out), format, task)
        plan, done = planned(output, pieces, rows_per_part), output.numbers()
        summary, total = Summary(output.folder.name, before=len(done)), plan.pictures(done)
        for number, table in run(task, plan.units(done, listing.addresses, column)):
            output.write(number, table)
            summary.add(table)
            seen(summary.count, total)
    summary.seconds = time.monotonic() - start
    return summary


def planned(output: Output, pieces: list[Piece], size: int | None) -> Plan:
    """The plan of this run: that of an earlier one with what is new behind it."""
    before = output.plan()
    plan = before.extended(pieces, size or size_of_units(len(pieces)))
    if not len(plan):
        raise InputError("no pictures were given; at least one is needed")
    if len(plan) > len(before):
        output.keep(plan)
    return plan


def choose_engine(name: str, workers: int | None, address: str | None, gpus_per_worker: float) -> Engine:
    """What runs the units."""
    if name == "local":
        if address is not None or gpus_per_worker:
            raise InputError("address and gpus_per_worker are for engine='ray'")
        return lambda task, units: run_local(task, units, workers)
    from .on_ray import run_ray

    return lambda task, units: run_ray(task, units, workers, address, gpus_per_worker)
