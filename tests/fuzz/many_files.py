"""Files that hold or name many pictures: tars, Parquet files, tables of paths, the list of a sorted folder."""

import io
import json
import os
import shutil
import tarfile
from itertools import islice
from pathlib import Path

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # the usual one takes a gigabyte of addresses at once
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from dmn4.bulk.reading import pictures
from dmn4.bulk.sources import Listing
from dmn4.bulk.units import Plan
from dmn4.classify.verdict import Verdict
from dmn4.errors import InputError
from dmn4.sorting.predictions import Prediction
from dmn4.sorting.sorted_folder import LIST, SortedFolder
from dmn4.sorting.undo import undo_last_run

_png = io.BytesIO()
Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(_png, "PNG")
TINY = _png.getvalue()


def sorted_lists() -> list[bytes]:
    """The list of a folder that `--sort-into` filled, and undid once."""
    lines = [{"run": "2026-01-01 00:00:00"}, {"image": "/nowhere/a.png", "copy": "cat/a.png"}, {"undone": ""},
             {"run": "2026-01-02 00:00:00"}, {"image": "/nowhere/b,.png", "copy": "none of these/b.png"}]
    return ["".join(json.dumps(line) + "\n" for line in lines[:count]).encode() for count in (2, 3, 5)]


def use_sorted_list(path: Path) -> None:
    """Sort one more picture into the folder, and undo that."""
    image, folder = path.with_name("a.png"), path.parent / "sorted"
    folder.mkdir(exist_ok=True)
    shutil.copy(path, folder / LIST)
    place = SortedFolder(folder).take(Prediction(image, Verdict("cat", "cat", 0.9, 0.9)))
    assert place is not None
    assert place.is_file(), "the copy is not there"
    undo_last_run(folder)
    assert image.is_file(), "the picture is gone"


def shards() -> list[bytes]:
    """Tars of pictures."""
    found = []
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
            for name in ("a.png", "b/" + "long" * (10 if kind == tarfile.USTAR_FORMAT else 40) + ".png", "\u00e9.jpg"):
                about = tarfile.TarInfo(name)
                about.size = len(TINY)
                tar.addfile(about, io.BytesIO(TINY))
        found.append(out.getvalue())
    return found


def parquets() -> list[bytes]:
    """Parquet files of pictures, alone and with names, and of paths."""
    columns = ({"image": [TINY, None, b"x"]}, {"image": [{"bytes": TINY, "path": "a"}, None]},
               {"path": ["a.png", None, "b.png"]}, {"image": [TINY] * 40, "path": ["a.png"] * 40})
    found = []
    for content in columns:
        out = io.BytesIO()
        pq.write_table(pa.table(content), out, compression="zstd" if len(found) % 2 else "none", row_group_size=16)
        found.append(out.getvalue())
    return found


def name_lists() -> list[bytes]:
    """Tables and lists of the files to look at."""
    return [b"path,other\na.png,1\nb.png,\n", b'path\r\n"a,b.png"\r\n', b"image\n1.png\n2.png\nmore.csv\n"]


def use_source(path: Path) -> None:
    """What `dmn4 predict -o` does before it looks at the pictures; a row with an error is a refusal."""
    listing = Listing([path])
    pieces, errors = list(islice(listing, 1000)), list[str]()
    for unit in Plan().extended(pieces, 100).units(set(), listing.addresses):
        for seen in islice(pictures(unit, 16, 1, 1), 200):
            assert (seen.pixels is None) == bool(seen.error), "neither pixels nor an error"
            errors += [seen.error] if seen.error else []
    if errors:
        raise InputError(min(errors, key=lambda error: "\n" not in error))
