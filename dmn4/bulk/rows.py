"""What is said of a picture as a row of columns, the same in every format."""

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..classify.verdict import COVERAGE
from ..sorting.cells import table_text
from .reading import Seen

if TYPE_CHECKING:
    import pyarrow as pa

    from ..classify.plain import PlainClassifier

TOP = 5                                                       # classes named beside each verdict
FORMATS = ("parquet", "csv", "jsonl")
Row = dict[str, Any]


def schema() -> "pa.Schema":
    """The columns of the output."""
    import pyarrow as pa

    top = pa.list_(pa.struct([("label", pa.string()), ("probability", pa.float64())]))
    return pa.schema([("path", pa.string()), ("verdict", pa.string()), ("nearest", pa.string()),
                      ("probability", pa.float64()), ("known", pa.float64()), ("set", pa.list_(pa.string())),
                      ("top", top), ("error", pa.string()), ("model", pa.string()), ("version", pa.string())])


def rows_of(classifier: "PlainClassifier", batch: Sequence[Seen], reject: bool | float) -> list[Row]:
    """A row for each picture of a batch: what the classifier says of it, or why it could not be read."""
    pixels = [seen.pixels for seen in batch if seen.pixels is not None]
    judged = iter(judged_rows(classifier, torch.from_numpy(np.stack(pixels)), reject) if pixels else [])
    return [{"path": seen.name, "error": seen.error} if seen.pixels is None else {"path": seen.name, **next(judged)}
            for seen in batch]


def judged_rows(classifier: "PlainClassifier", pixels: torch.Tensor, reject: bool | float) -> list[Row]:
    """What the classifier says of some pictures: bytes (B, h, w, 3). The one place that reads its judgement."""
    judged = classifier.judge(pixels)
    names = [str(name) for name in classifier.classes_]
    values, places = judged.probabilities.sort(dim=1, descending=True, stable=True)
    verdicts, rows = classifier.verdicts(judged, reject, COVERAGE), []
    for verdict, chances, order in zip(verdicts, values[:, :TOP].tolist(), places[:, :TOP].tolist(), strict=True):
        top = [{"label": names[place], "probability": chance} for chance, place in zip(chances, order, strict=True)]
        rows.append({"verdict": verdict.words, "nearest": str(verdict.nearest), "probability": verdict.probability,
                     "known": None if verdict.known != verdict.known else verdict.known,
                     "set": list(map(str, verdict.perhaps)), "top": top})
    return rows


def as_table(rows: Sequence[Row], made: dict[str, str]) -> "pa.Table":
    """Rows as an Arrow table; `made`: the model and version that each of them names."""
    import pyarrow as pa

    return pa.Table.from_pylist([row | made for row in rows], schema=schema())


def encoded(table: "pa.Table", kind: str) -> bytes:
    """The table as a file: "parquet", "csv" (lists as JSON) or "jsonl"."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        return out.getvalue()
    rows = table.to_pylist()
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    return table_text(table.column_names, [{name: cell(value) for name, value in row.items()} for row in rows]).encode()


def cell(value: Any) -> str:
    """A value as a cell of a CSV file."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
