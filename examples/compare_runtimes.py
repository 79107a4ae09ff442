"""Does ONNX Runtime say what PyTorch says? Both learn from the same pictures and judge the others.

    python examples/compare_runtimes.py PHOTOS/birds PHOTOS/groceries PHOTOS/textures -o docs/results/runtimes.md

Each folder is one of class folders. A classifier of the default settings learns the first pictures of each class; a
verdict is the class, or none of these where a tenth of the known pictures may be refused.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from dmn4.classify.plain import PlainClassifier
from dmn4.classify.verdict import Verdict
from dmn4.data.folders import read_folder
from dmn4.files import write_file

RUNTIMES = ("torch", "onnx")                                  # what $DMN4_RUNTIME may name


def main(folders: list[Path], out: Annotated[Path, typer.Option("-o")] = Path("runtimes.md"), shots: int = 5) -> None:
    """Write the table for these folders."""
    lines = ["| pictures | classes | verdicts | equal | largest difference of a probability |", "|---|---|---|---|---|"]
    for folder in folders:
        ways, torch, onnx = judged(folder, shots)
        equal = sum(one.words == other.words for one, other in zip(torch, onnx, strict=True))
        apart = max(abs(one.probability - other.probability) for one, other in zip(torch, onnx, strict=True)
                    if one.nearest == other.nearest)
        lines.append(f"| {folder.name} | {ways} | {len(torch):,} | {100 * equal / len(torch):.2f} % | {apart:.0e} |")
        print(lines[-1], flush=True)
    write_file(out, "\n".join(lines) + "\n")


def judged(folder: Path, shots: int) -> tuple[int, list[Verdict], list[Verdict]]:
    """How many classes there are, and what each runtime says of the pictures that were not learnt from."""
    images = read_folder(folder)
    learnt = set(images.first_of_each_class(shots).images)
    names = [images.classes[label] for label in images.labels]
    known = [(path, name) for path, name in zip(images.images, names, strict=True) if path in learnt]
    asked = [path for path in images.images if path not in learnt]
    verdicts = []
    for runtime in RUNTIMES:
        os.environ["DMN4_RUNTIME"] = runtime
        classifier = PlainClassifier().fit(*zip(*known, strict=True))
        verdicts.append([verdict for some in classifier._judged(asked) for verdict in classifier.verdicts(some, True)])
    torch, onnx = verdicts
    return len(images.classes), torch, onnx


if __name__ == "__main__":
    typer.run(main)
