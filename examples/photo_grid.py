"""The classifier's default beside what people would use instead, on photographs: accuracy, promises, temperature.

    python examples/photo_grid.py accuracy fruit PHOTOS/groceries PHOTOS/birds PHOTOS/textures PHOTOS/leaves
    python examples/photo_grid.py promises fruit ...         # none of these, sets, calibration
    python examples/photo_grid.py temperature fruit ...      # the law that probabilities start from

`--shots 5` measures one number of shots, `--part 0.4` plays the first tasks of each cell.

A set is a folder of class folders, or the word fruit. Every picture passes the network once; all methods see the same
tasks of 5 classes, 20 classes and all classes. Maps stay in the cache folder, so a second run starts at the tasks.
"""

import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import typer
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize_scalar
from sklearn.covariance import OAS
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC
from torch import Tensor

from dmn4.backbones import build_backbone
from dmn4.backbones.runtime import frozen
from dmn4.classify.calibration import Calibration, ascending
from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.counterexamples import Counterexamples
from dmn4.classify.held_out import judge_held_out
from dmn4.classify.parts import Parts, assemble
from dmn4.classify.pictures import Pictures
from dmn4.classify.shots import Shots
from dmn4.data.cache import cache_folder
from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file
from dmn4.images import Transform
from dmn4.images.files import Cut, cut_image, read_image, resize_image
from dmn4.images.looks import batches
from dmn4.methods import build_method
from dmn4.methods.base import Method
from dmn4.methods.linear_head import LinearHead
from dmn4.methods.vectors import class_means
from dmn4.training.runs import progress

COMPARED, SIZE, AT_ONCE = 320, 224, 16
SHOTS = (1, 2, 5, 10)
TASKS = {5: (100, 10), 20: (16, 10), 0: (5, 0)}              # ways (0: all): tasks, queries of each class (0: as fit)
QUERIES = 200                                                 # in a task, at most
RIVALS = ("logistic", "svm", "rfs", "nearest mean")
FITS = ("fit", "head alone", "maximum softmax", "Mahalanobis", "nearest picture")


class Task(NamedTuple):
    """Rows of a set: labelled pictures and questions, with their classes in the task."""

    support: Tensor
    labels: Tensor
    query: Tensor
    truth: Tensor
    strangers: Tensor                                         # pictures of other classes, as many


class Photos(NamedTuple):
    """A set of photographs as maps."""

    name: str
    maps: Tensor                                              # (n, 1600, H, W)  float16
    labels: np.ndarray


@torch.inference_mode()
def photos(data: str, shape: str = "squash", size: int = SIZE) -> Photos:
    """The maps of a set, from the cache folder or embedded now."""
    images: ImageSet = fruit() if data == "fruit" else read_folder(data)
    key = hashlib.blake2b(f"{images.fingerprint}{len(images)}".encode(), digest_size=8).hexdigest()
    how = "" if (shape, size) == ("squash", SIZE) else f"-{shape}{size}"
    path = cache_folder() / "defaults" / f"{key}-wide{how}.safetensors"
    if not path.is_file():
        backbone = build_backbone("efficientnet_lite0", "imagenet", layer="7x7x1600").eval()
        see, embed = Transform(size, mean=backbone.mean, std=backbone.std), frozen(backbone)
        with progress(f"embed {images.name}", len(images)) as bar:
            parts = []
            for batch in batches(images.images, AT_ONCE):
                pixels = np.stack([SHAPES[shape](read_image(image), size) for image in batch])
                parts.append(embed(see(torch.from_numpy(pixels))).half())
                bar.advance_by(len(parts[-1]))
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"maps": torch.cat(parts)}, path)
    return Photos(images.name, load_file(path)["maps"], images.labels)


def cropped(picture: np.ndarray, size: int) -> np.ndarray:
    """The middle square of a picture: (h, w, 3) -> (size, size, 3)."""
    return cut_image(picture, Cut(size, size))


def padded(picture: np.ndarray, size: int) -> np.ndarray:
    """The whole picture in its shape, on grey: (h, w, 3) -> (size, size, 3)."""
    scale = size / max(picture.shape[:2])
    height, width = (max(1, round(length * scale)) for length in picture.shape[:2])
    canvas = np.full((size, size, 3), 127, np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    canvas[top : top + height, left : left + width] = resize_image(picture, (height, width))
    return canvas


def mirrored(picture: np.ndarray, size: int) -> np.ndarray:
    """The picture squashed and mirrored: (h, w, 3) -> (size, size, 3)."""
    return np.ascontiguousarray(resize_image(picture, size)[:, ::-1])


SHAPES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "squash": resize_image, "crop": cropped, "pad": padded, "mirror": mirrored}


def tasks(labels: np.ndarray, ways: int, shots: int, part: float = 1.0) -> Iterator[Task]:
    """The tasks of a cell, or the first part of them; ways 0 are all classes (there are no strangers then)."""
    members = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    count, queries = TASKS[ways]
    count = max(count, 0 if ways else QUERIES // len(members))
    queries = queries or QUERIES // len(members)
    for number in range(math.ceil(part * count)):
        chance = np.random.default_rng([number, ways, shots])
        order = chance.permutation(list(members))
        chosen, others = order[: ways or len(order)], order[ways or len(order):][: ways or 0]
        rows = [chance.permutation(members[label]) for label in chosen]
        asked = [(row, place) for place, each in enumerate(rows) for row in each[shots : shots + queries]]
        asked = [asked[place] for place in chance.permutation(len(asked))[:QUERIES]]
        strange = [row for label in others for row in chance.permutation(members[label])[:queries]]
        yield Task(torch.tensor(np.concatenate([each[:shots] for each in rows])),
                   torch.arange(len(rows)).repeat_interleave(torch.tensor([len(each[:shots]) for each in rows])),
                   *(torch.tensor(column) for column in zip(*asked, strict=True)),
                   torch.tensor(strange, dtype=torch.long))


def default(maps: Tensor) -> Method:
    """The classifier's method with its usual options."""
    return build_method("dmn4-linear", channels=maps.shape[1], centre="shots", compared=COMPARED)


@functools.cache
def usual_parts() -> Parts:
    """The network and the method of the default classifier."""
    return assemble("dmn4-linear", "efficientnet_lite0")


def shots_of(maps: Tensor, rows: Tensor, labels: Tensor) -> Shots:
    """Some of the maps as labelled pictures."""
    places = torch.arange(len(rows))
    return Shots.of(maps[rows], labels, torch.zeros_like(places), places, COMPARED)


def taught(maps: Tensor, task: Task, calibrated: bool = True) -> FewShotClassifier:
    """The default classifier as its users have it, taught maps in place of pictures."""
    classifier, classes = FewShotClassifier(), np.arange(int(task.labels.max()) + 1)
    classifier.parts_, classifier.classes_, classifier.unlabelled_ = usual_parts(), classes, None
    classifier.ruled_out_, classifier.shots_ = Counterexamples.none(), shots_of(maps, task.support, task.labels)
    if calibrated:
        return classifier._keep(classes, classifier.shots_, Pictures())
    classifier.learnt_, classifier.head_, classifier.objections_ = classifier._learn(classifier.shots_)
    return classifier


def answers(classifier: FewShotClassifier, maps: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The scores (Q, N) of a taught classifier for some of the maps, and how well each picture fits (Q,)."""
    asked = shots_of(maps, rows, rows).maps
    return classifier._answer(classifier.learnt_, classifier.head_, None, asked.float(), asked.means)


def sklearn_scores(model: LogisticRegression | LinearSVC, rows: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """The decision values of a fitted model: (n, d), (n,), (Q, d) -> (Q, N)."""
    values = torch.from_numpy(model.fit(rows.numpy(), labels.numpy()).decision_function(query.numpy()))
    return values if values.ndim == 2 else torch.stack([-values, values], dim=1)


def rivals(maps: Tensor, task: Task) -> dict[str, Tensor]:
    """The scores of what people would use instead, on the same features pooled (n, 320)."""
    pooled = maps[:, :COMPARED].float().mean((2, 3))
    support, query = pooled[task.support], pooled[task.query]
    middles = torch.stack([support[task.labels == label].mean(0) for label in range(int(task.labels.max()) + 1)])
    return {"logistic": sklearn_scores(LogisticRegression(C=1, max_iter=300, tol=1e-3), support, task.labels, query),
            "svm": sklearn_scores(LinearSVC(tol=1e-3), support, task.labels, query),
            "rfs": sklearn_scores(LogisticRegression(C=1, max_iter=300, tol=1e-3), F.normalize(support), task.labels,
                                  F.normalize(query)),
            "nearest mean": -torch.cdist(query, middles)}


def cells(data: Photos, wanted: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
    """The ways and shots that a set has pictures for; of the `wanted` shots, if any are named."""
    classes, fewest = len(np.unique(data.labels)), int(np.bincount(data.labels).min())
    ways = [number for number in TASKS if number < classes and (number or classes > 5)]
    return ((number, shots) for number in ways for shots in wanted or SHOTS if shots < fewest)


def ways_in_words(ways: int) -> str:
    """5, 20 or all."""
    return str(ways or "all")


# --------------------------------------------------------------------------------------------------------- the commands

app = typer.Typer(help=__doc__)
Sets = Annotated[list[str], typer.Argument(help="Folders of class folders, or fruit.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")]
Shown = Annotated[list[int] | None, typer.Option("--shots", help="Only these numbers of shots.")]
Part = Annotated[float, typer.Option(help="Only this share of the tasks, the first ones.")]


@app.command()
@torch.inference_mode()
def accuracy(sets: Sets, out: Out = Path("defaults"), shots: Shown = None, part: Part = 1.0) -> None:
    """Accuracy of the default beside four rivals, with the paired difference from the best of them in each cell."""
    rows, gains = [], {}
    for data in map(photos, sets):
        for ways, each in cells(data, shots):
            right: dict[str, list[float]] = {}
            for task in tasks(data.labels, ways, each, part):
                ours = answers(taught(data.maps, task, calibrated=False), data.maps, task.query)[0]
                scores = {"dmn4-linear": ours, **rivals(data.maps, task)}
                for name, score in scores.items():
                    right.setdefault(name, []).append(float((score.argmax(1) == task.truth).double().mean()))
            values = {name: np.array(shares) for name, shares in right.items()}
            best = max(RIVALS, key=lambda name, values=values: values[name].mean())
            gains.setdefault(ways, []).append(100 * float((values["dmn4-linear"] - values[best]).mean()))
            rows.append(f"| {data.name} | {ways_in_words(ways)} | {each} | "
                        + " | ".join(str(accuracy_of(values[name][None])) for name in ("dmn4-linear", *RIVALS))
                        + f" | {best}: {paired_difference(values['dmn4-linear'], values[best])} |")
            print(rows[-1], flush=True)
    mean = "; ".join(f"{ways_in_words(ways)} ways {np.mean(each):+.2f}" for ways, each in gains.items())
    head = " | ".join(("set", "ways", "shots", "dmn4-linear", *RIVALS, "ahead of the best"))
    report(out / "photo-grid.md", [f"| {head} |", "|---" * (5 + len(RIVALS)) + "|", *rows, "",
                                   f"Mean difference from the best of the four in each cell: {mean}."])


def fits(head: LinearHead, shots: Shots, means: Tensor, fit: Tensor) -> Tensor:
    """What might tell known pictures from strangers, larger for known ones: means (Q, C), fit (Q,) -> (Q, FITS)."""
    scores = head.scores(means)
    support, asked = shots.maps.means[:, :COMPARED], means[:, :COMPARED]
    middles = class_means(support, shots.labels)                                              # (N, c)
    within = OAS(assume_centered=True).fit((support - middles[shots.labels]).numpy())
    distances = np.stack([within.mahalanobis((asked - middle).numpy()) for middle in middles])    # (N, Q)
    cosines = F.normalize(asked, dim=1) @ F.normalize(support, dim=1).T                       # (Q, n)
    return torch.stack([fit, scores.amax(1), scores.mul(20).softmax(1).amax(1),
                        torch.from_numpy(-distances.min(0)).float(), cosines.amax(1)], dim=1)


@app.command()
@torch.inference_mode()
def promises(sets: Sets, out: Out = Path("defaults"), share: float = 0.1, coverage: float = 0.9, shots: Shown = None,
             part: Part = 1.0) -> None:
    """What refusing a share, sets of a coverage and probabilities give on fresh pictures."""
    kept, told = [], []
    for data in map(photos, sets):
        for ways, each in cells(data, shots):
            played = tasks(data.labels, ways, each, part)
            measured = [one_promise(data.maps, task, share, coverage) for task in played]
            promise, none, sure = zip(*measured, strict=True)
            error = calibration_error(*np.concatenate(sure, axis=1))
            cell = f"| {data.name} | {ways_in_words(ways)} | {each} | "
            kept.append(cell + " | ".join(map(number, np.mean(promise, axis=0))) + f" | {error:.1f} |")
            if ways:                                          # of all classes there are no strangers
                told.append(cell + " | ".join(map(three, np.mean(none, axis=0))) + " |")
            print(kept[-1], told[-1] if ways else "", flush=True)
    report(out / "photo-promises.md", [
        "| set | ways | shots | known refused | coverage | classes in a set | calibration error |", "|---" * 7 + "|",
        *kept, "", "Area under the ROC curve / known pictures refused / strangers let in, by what judges it.", "",
        f"| set | ways | shots | {' | '.join(FITS)} |", "|---" * (3 + len(FITS)) + "|", *told])


def number(value: float) -> str:
    """A share in percent; nothing where too few pictures were held out to promise one."""
    return "" if value != value else f"{value:.1f}"


def three(values: np.ndarray) -> str:
    """The numbers of one way to tell strangers."""
    return " / ".join(number(value) or "-" for value in values)


def one_promise(maps: Tensor, task: Task, share: float,
                coverage: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The measures of one task in percent.

    Known refused, coverage and size of a set (3,); area, known refused and strangers let in by each of FITS (FITS, 3);
    confidence beside whether it was right (2, Q).
    """
    classifier, count = taught(maps, task), len(task.query)
    calibration = classifier.calibration_
    rows = torch.cat([task.query, task.strangers])
    scores, fit = answers(classifier, maps, rows)
    known = calibration.known(fit)[:count]
    chances = calibration.probabilities(scores[:count])
    held = calibration.contains(chances, coverage)
    confidence, said = chances.max(1)
    refused = float((known <= share).double().mean()) if calibration.rejects(share) else np.nan
    promise = [100 * refused, 100 * float(held.gather(1, task.truth[:, None]).double().mean()),
               float(held.double().sum(1).mean())]

    def judge(support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
        learnt, head, none = classifier._learn(support)
        found = classifier._answer(learnt, head, none, pictures.maps.float(), pictures.maps.means)
        return found[0], fits(head, support, pictures.maps.means, found[1])

    none = np.full((len(FITS), 3), np.nan)
    if len(task.strangers):
        judged = judge_held_out(judge, classifier.shots_)
        asked = fits(classifier.head_, classifier.shots_, shots_of(maps, rows, rows).maps.means, fit)     # (Q, FITS)
        belongs = np.arange(len(rows)) < count
        for place, values in enumerate(asked.T):
            none[place, 0] = 100 * roc_auc_score(belongs, values)
            if judged is not None and calibration.rejects(share):
                within = ascending(judged.fit[:, place])
                out = Calibration(fits=within, chances=within).known(values) <= share
                none[place, 1:] = 100 * float(out[:count].double().mean()), 100 * float((~out[count:]).double().mean())
    return np.array(promise), none, np.stack([confidence.numpy(), (said == task.truth).numpy()])


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """How far confidence and accuracy are apart over bins of equally many pictures, in percent: (Q,), (Q,)."""
    groups = np.array_split(np.argsort(confidence), bins)
    return 100 * float(sum(abs(confidence[group].mean() - right[group].mean()) * len(group) for group in groups)
                       / len(confidence))


@app.command()
@torch.inference_mode()
def temperature(sets: Sets, out: Out = Path("defaults")) -> None:
    """The best temperature in each cell, and the law through all of them."""
    lines, rows = [], []
    for data in map(photos, sets):
        for ways, shots in cells(data):
            pairs = [(answers(taught(data.maps, task, calibrated=False), data.maps, task.query)[0], task.truth)
                     for task in tasks(data.labels, ways, shots)]
            scores, truth = (torch.cat(column) for column in zip(*pairs, strict=True))
            power = float(minimize_scalar(loss_at(scores.double(), truth), bounds=(-6, 3), method="bounded").x)
            number = ways or len(np.unique(data.labels))
            rows.append((power, 1.0, np.log(number), np.log(shots)))
            lines.append(f"| {data.name} | {number} | {shots} | {power:.2f} |")
            print(lines[-1], flush=True)
    table = np.array(rows)
    law = np.linalg.lstsq(table[:, 1:], table[:, 0], rcond=None)[0]
    spread = float((table[:, 0] - table[:, 1:] @ law).std())
    report(out / "photo-temperature.md", [
        "| set | ways | shots | log of the best temperature |", "|---|---|---|---|", *lines, "",
        f"power = {law[0]:.2f} {law[1]:+.2f} ln(ways) {law[2]:+.2f} ln(shots), from which they lie {spread:.2f} apart"])


def loss_at(scores: Tensor, truth: Tensor) -> Callable[[float], float]:
    """The negative log-likelihood of the truth at a power."""
    return lambda power: float(F.cross_entropy(scores / np.exp(power), truth))


def report(path: Path, lines: list[str]) -> None:
    """Write the table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, "\n".join(lines) + "\n")
    print(f"{path}: written")


if __name__ == "__main__":
    app()
