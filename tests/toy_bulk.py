"""A small model, and the same pictures as a folder, lists, tables and a tar."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from toy_pictures import COLOURS, labelled, painted

import dmn4
from dmn4.backbones import build_backbone
from dmn4.classify.classifier import FewShotClassifier
from dmn4.training.checkpoints import save_backbone


def small_model(folder: Path, method: str = "dmn4") -> Path:
    """A model file of three colours, seen by a small network with weights of chance."""
    torch.manual_seed(0)
    save_backbone(folder / "small.safetensors", build_backbone("conv4-classic", width=0.25), {})
    classifier = FewShotClassifier(method, "conv4-classic", weights=folder / "small.safetensors", image_size=32,
                                   batch_size=8)
    classifier.fit(*labelled(4, noise=15)).save(folder / f"{method}.dmn4")
    return folder / f"{method}.dmn4"


def encoded(picture: np.ndarray) -> bytes:
    """A picture as the bytes of a PNG file."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG")
    return out.getvalue()


def pictures(count: int) -> dict[str, bytes]:
    """Names and contents of pictures in turn of every colour; the fourth of every ten cannot be read."""
    drawn = {colour: painted(colour, -(-count // len(COLOURS)), seed=1) for colour in COLOURS}
    names = [(colour, place) for place in range(-(-count // len(COLOURS))) for colour in COLOURS][:count]
    return {f"{row:03} {colour}.png": b"not a picture" if row % 10 == 3 else encoded(drawn[colour][place])
            for row, (colour, place) in enumerate(names)}


def as_folder(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def as_tar(path: Path, contents: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, content in contents.items():
            for member, held in ((name, content), (name.replace(".png", ".json"), b"{}")):
                about = tarfile.TarInfo(member)
                about.size = len(held)
                tar.addfile(about, io.BytesIO(held))
    return path


def as_parquet(path: Path, contents: dict[str, bytes], rows: int = 8) -> Path:
    """As the `datasets` package writes pictures: a column of {bytes, path}."""
    held = [{"bytes": content, "path": name} for name, content in contents.items()]
    pq.write_table(pa.table({"image": held, "label": [0] * len(held)}), path, row_group_size=rows)
    return path


CRASH = b"a picture that crashes"


def path_with_crashes(folder: Path) -> str:
    """A PYTHONPATH with which every Python has a decoder that dies of a segmentation fault at CRASH."""
    (folder / "sitecustomize.py").write_text(f"""
import os, signal
from PIL import Image
plain = Image.open
def open_or_die(source, *rest, **more):
    if source.read() == {CRASH!r}:
        os.kill(os.getpid(), signal.SIGSEGV)
    source.seek(0)
    return plain(source, *rest, **more)
Image.open = open_or_die
""")
    return os.pathsep.join([str(folder), str(Path(dmn4.__file__).parents[1])])
