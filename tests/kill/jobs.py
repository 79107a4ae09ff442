"""What is killed: commands on small data, how each goes on, and which of its files must come out equal."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.backends.backend_agg  # noqa: F401 (read here, before a process is forked for each command)
import pyarrow.parquet  # noqa: F401
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from toy_bulk import as_folder, pictures, small_model
from toy_pictures import COLOURS

from dmn4.backbones import build_backbone
from dmn4.cli import main
from dmn4.data.samples import draw_clutter
from dmn4.files import load_tensors
from dmn4.training.checkpoints import save_backbone

SMALL = ["--backbone-options", "width=0.125", "--size", "24", "--epochs", "2", "--validate-episodes", "4"]
PLAYED = ["--weights", "../given/narrow.safetensors", "--episodes", "60", "--queries", "2"]
LEFT_OUT = {"card.json": {"seconds", "date", "command"},      # the clock, and --resume
            "log.csv": {"seconds"}}


@dataclass(frozen=True)
class Job:
    """A command, run in a folder of its own beside `given`, which holds what it reads; and what makes it go on."""

    arguments: Sequence[str]
    going_on: Sequence[str] = ()

    def run(self, again: bool = False) -> None:
        """The command in this process."""
        main([*self.arguments, *(self.going_on if again else ())])


JOBS = {
    "pretrain": Job(["pretrain", "../given/data", "-o", "out", *SMALL, "--batch", "12", "--save-every", "0"],
                    ["--resume"]),
    "train": Job(["train", "../given/data", "-o", "out", *SMALL, "--episodes", "8", "--queries", "2", "--ways", "3",
                  "--batch-classes", "4", "--batch-images", "6", "--batch-support", "2", "--step-episodes", "2",
                  "--lr", "0.01", "--save-every", "0.05"], ["--resume"]),
    "evaluate": Job(["evaluate", "../given/data", "-o", "out", "--method", "dmn4", "--method", "protonet", *PLAYED],
                    ["--resume"]),
    "compare": Job(["compare", "../given/data", "dmn4", "dn4", "-o", "out", *PLAYED], ["--resume"]),
    "predict --csv": Job(["predict", "../given/dmn4.dmn4", "../given/inbox", "--csv", "out/rows.csv"], ["--resume"]),
    "predict --parquet": Job(["predict", "../given/dmn4.dmn4", "../given/inbox", "--parquet", "out/rows.parquet",
                              "--workers", "0"]),
    "predict -o": Job(["predict", "../given/dmn4.dmn4", "../given/inbox", "-o", "out", "--format", "csv", "--workers",
                       "0"]),
    "predict --sort-into": Job(["predict", "../given/dmn4.dmn4", "../given/inbox", "--sort-into", "out"]),
    "fit": Job(["fit", "../given/photos", "-o", "out/a.dmn4", "--method", "dmn4", "--backbone", "conv4-classic",
                "--weights", "../given/small.safetensors", "--image-size", "32"]),
    "data prepare": Job(["data", "prepare", "../given/data", "--size", "20", "-o", "out"]),
    "reproduce": Job(["reproduce", "toy", "-o", "out", "--data", "cub=../given/data"]),
}


def prepare(given: Path) -> None:
    """Write what the commands read: a data set of three splits, photographs, a model, weights."""
    for number, split in enumerate(("train", "val", "test")):
        drawn = draw_clutter(5, 20 if split == "test" else 12, 0.2, 24, seed=number)
        for row, label in enumerate(drawn.labels):
            path = given / "data" / split / drawn.classes[label] / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(drawn.pixels[row]).save(path)
    small_model(given)
    inbox = pictures(44)
    as_folder(given / "inbox", inbox)
    for colour in COLOURS:
        own = {name: held for name, held in inbox.items() if name.endswith(f" {colour}.png")}
        as_folder(given / "photos" / colour, own)
    torch.manual_seed(0)
    about = {"size": 24, "transform": "mcl-stored"}
    save_backbone(given / "narrow.safetensors", build_backbone("conv4", width=0.125), about)


def results(folder: Path) -> dict[str, object]:
    """Every file below a folder, hidden ones too, as what must be equal: its bytes, but for what LEFT_OUT names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): content(path) for path in files}


def content(path: Path) -> object:
    """What must be equal of a file."""
    gone = LEFT_OUT.get(path.name, set())
    if path.name == "card.json":
        return {key: value for key, value in json.loads(path.read_bytes()).items() if key not in gone}
    if path.name == "log.csv":
        rows = csv.DictReader(io.StringIO(path.read_text()))
        return [{key: value for key, value in row.items() if key not in gone} for row in rows]
    if path.name in ("last.safetensors", "accuracies.safetensors"):        # their notes hold seconds of work
        tensors, notes = load_tensors(path)
        return ({name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
                {name: text for name, text in notes.items() if name != "seconds"})
    if path.name == ".dmn4-sorted.jsonl":                     # a copy may be noted before a kill and after it
        return sorted({line for line in path.read_bytes().split(b"\n") if not line.startswith(b'{"run"')})
    return path.read_bytes()


def toy_table() -> None:
    """Make `dmn4 reproduce` know a table of two cells."""
    from test_reproduce import toy_sheet

    from dmn4.reproduce import ENTRIES, table

    ENTRIES["toy"] = table("a table for tests", toy_sheet)
