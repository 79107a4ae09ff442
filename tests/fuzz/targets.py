"""What is fuzzed: for each kind the real files it starts from, and what a user would do with a damaged one."""

import io
import json
import pickle
import sys
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from http_requests import requests, use_request
from many_files import name_lists, parquets, shards, sorted_lists, use_sorted_list, use_source
from toy_pictures import Eye, labelled

from dmn4 import FewShotClassifier, InputError, load
from dmn4.backbones import build_backbone
from dmn4.data.layouts import open_dataset
from dmn4.evaluation.contenders import read_trained
from dmn4.evidence.draw import draw_explanation
from dmn4.files import save_tensors
from dmn4.images import read_image
from dmn4.methods import build_method
from dmn4.recipes import Pretraining, Training
from dmn4.reproduce.sheets import Measured
from dmn4.sorting.cells import read_table, table_text
from dmn4.sorting.corrections import with_labels
from dmn4.training.cards import write_card
from dmn4.training.checkpoints import save_backbone, save_model, save_state
from dmn4.training.model import FewShotModel
from dmn4.training.pretrain import TaughtBy, load_network, start_network
from dmn4.training.runs import Run

PIXELS = np.random.default_rng(0).integers(0, 200, (6, 8, 8, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Target:
    """One kind of file: how real ones are made, under which name a damaged one lies, and what is done with it."""

    seeds: Callable[[], list[bytes]]
    name: str
    use: Callable[[Path], object]
    wrap: Callable[[bytes], bytes] = bytes                    # what is done with the damaged bytes to make the file
    beside: tuple[str, ...] = ()                              # empty files in the same folder
    together: int = 1                                         # children at a time: those that wait more than they work


def pictures() -> list[bytes]:
    """The same small picture in every format, as photographs, with a palette, 16 bits and transparency."""
    found = []
    for mode in ("RGB", "L", "P", "RGBA", "1", "I;16", "CMYK"):
        for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"):
            out, image = io.BytesIO(), Image.fromarray(PIXELS[0].repeat(4, 0).repeat(4, 1))
            image = Image.fromarray(np.arange(1024, dtype=np.uint16).reshape(32, 32)) if mode == "I;16" else image
            try:
                (image if mode == "I;16" else image.convert(mode)).save(out, kind)
            except (OSError, ValueError):
                continue
            found.append(out.getvalue())
    return found


def models() -> list[bytes]:
    """Model files of four methods, with labels of text and of numbers, and of every older version."""
    images, labels = labelled(3)
    numbers = [sorted(set(labels)).index(label) for label in labels]
    old = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "files").glob("*.dmn4"))]
    return old + [saved(FewShotClassifier(method, Eye()).fit(images, y, more).save)
            for method, y, more in (("dmn4-linear", labels, None), ("dmn4", labels, None), ("protonet", numbers, None),
                                    ("dmn4-semi", labels, labelled(1, seed=3)[0]))]


def saved(save: Callable[[Path], object]) -> bytes:
    """The bytes that `save` writes to a path."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "a")
        return (Path(folder) / "a").read_bytes()


def use_model(path: Path) -> None:
    """Load and predict: a verdict has to be one of the classes, with probabilities."""
    classifier = load(path, Eye())
    images = labelled(1, seed=5)[0]
    probabilities = classifier.predict_proba(images)
    assert np.isfinite(probabilities).all(), "probabilities are not finite"
    assert np.allclose(probabilities.sum(1), 1, atol=1e-3), "probabilities do not add up to one"
    assert set(classifier.predict(images).tolist()) <= set(classifier.classes_.tolist()), "a label of no class"
    classifier.suspects()
    with suppress(InputError):                                # a method without descriptors, a picture that is none
        draw_explanation(classifier.explain(images[0]), images[0], classifier.pictures_)


def pickles() -> list[bytes]:
    """Arrays and labels as benchmarks store them, in every protocol."""
    content = {"data": PIXELS, "labels": [5, 5, 3, 3, 9, 9], b"names": ["a", b"b"], "share": {"x": [1.5, None]}}
    return [pickle.dumps(content, protocol) for protocol in range(6)]


def arrays() -> list[bytes]:
    """The npz of TapNet, packed and not."""
    found = []
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, a=PIXELS[:2], b=PIXELS[2:])
        found.append(out.getvalue())
    return found


def members() -> list[bytes]:
    """Arrays of an npz; damaged, they are packed again, so that the checksums of the archive are right."""
    found = []
    for array in (PIXELS, PIXELS / 255, np.asfortranarray(PIXELS)):
        out = io.BytesIO()
        np.save(out, array)
        found.append(out.getvalue())
    return found


def zipped(member: bytes) -> bytes:
    """The npz that holds this one array."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", member)
    return out.getvalue()


def checkpoints() -> list[bytes]:
    """A backbone, a whole model, and accuracies of an evaluation."""
    backbone = build_backbone("conv4", width=0.125)
    model = FewShotModel(backbone, build_method("dmn4", channels=backbone.out_channels, vote="rank"), "dmn4",
                         {"vote": "rank"})
    about = {"transform": "mcl-stored", "size": 84}
    return [saved(lambda path: save_backbone(path, backbone, about)),
            saved(lambda path: save_model(path, model, about)),
            saved(lambda path: save_tensors(path, {"dmn4": torch.rand(5)}, {"seconds": 1.5}))]


def tables() -> list[bytes]:
    """Labelled file names."""
    return [b"filename,label\na.png,cat\nb.png,dog\n", b'filename, label\r\n"a,b.png", "c"\r\n', b"image_name,class\n"]


def lists() -> list[bytes]:
    """A list as CloserLook writes it."""
    return [json.dumps({"label_names": ["a", "b"], "image_names": ["1.png", "2.png"], "image_labels": [0, 1]}).encode()]


def boxes() -> list[bytes]:
    """The boxes of iNaturalist."""
    return [json.dumps({"images": [{"id": 1, "file_name": "a/1.jpg"}], "annotations": [
        {"id": 7, "image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 2, "supercategory": "Aves"}]}).encode()]


def cards() -> list[bytes]:
    """The card of an evaluation, and of a training."""
    result = {"mean": 0.5, "half_width_t": 0.01, "half_width_normal": 0.01, "kept": 0.3, "kept_true": 0.6}
    about = {"backbone": "conv4", "weights": "random", "options": "{}", "method": "dmn4", "method_options": ""}
    return [saved(lambda path: write_card(path, stage="evaluate", data="0" * 16, ways=5, contenders={"dmn4": about},
                                          results={"dmn4": result}, compared_with="dmn4", differences={}, seconds=1.5)),
            saved(lambda path: write_card(path, stage="train", data="0" * 16, recipe=asdict(Training()), val=0.5))]


def use_card(path: Path) -> None:
    """What `dmn4 reproduce` does with the card of a cell that is done."""
    Measured.on(path, ["dmn4"])


RECIPE = Pretraining(backbone_options="width=0.125", size=24)


def settings() -> list[bytes]:
    """The settings of a run."""
    return [json.dumps({"stage": "pretrain", "data": "0" * 16, "classes": 5, "recipe": asdict(RECIPE)}).encode()]


def use_settings(path: Path) -> None:
    """Go on with the run in the folder, and let it teach another one."""
    given, state = TaughtBy("pretrain", RECIPE, 5), path.with_name("last.safetensors")
    if not state.exists():
        network = start_network(RECIPE, 5)
        save_state(state, network, torch.optim.SGD(network.parameters(), lr=0.1), {})
    with suppress(InputError):
        Run(path.parent, asdict(given) | {"data": "0" * 16}, resume=True)
    load_network(path.parent)


def learner() -> tuple[FewShotModel, torch.optim.Optimizer]:
    """A small model and its optimiser."""
    backbone = build_backbone("conv4", width=0.125)
    model = FewShotModel(backbone, build_method("dmn4", channels=backbone.out_channels), "dmn4", {})
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def states() -> list[bytes]:
    """The state of a training, after a step."""
    model, optimizer = learner()
    model.backbone(torch.rand(2, 3, 24, 24)).sum().backward()
    optimizer.step()
    notes = {"step": 3, "seconds": 1.5, "best": 0.25, "meter": {"loss": 1.5, "steps": 1}}
    return [saved(lambda path: save_state(path, model, optimizer, notes)),
            saved(lambda path: save_state(path, model, optimizer, notes | {"best": float("-inf")}))]


def use_state(path: Path) -> None:
    """Go on with a training: its weights have to be finite."""
    model, optimizer = learner()
    Run(path.parent, {}, resume=True).resume(model, optimizer)
    assert all(weight.isfinite().all() for weight in model.parameters()), "weights are not finite"


COLUMNS = ("image", "label")
NAMED = ("a.png", "b.png", "a,b.png", "1.png", "2.png")


def predictions() -> list[bytes]:
    """A table of predictions that `--resume` reads."""
    return [table_text(COLUMNS, [{"image": "=a\r.jpg", "label": "b,\n"}, {"image": "c", "label": "d"}]).encode()]


def use_labels(path: Path) -> None:
    """What `dmn4 fit --labels` does with a table."""
    with_labels(None, path)


TARGETS = {
    "images": Target(pictures, "a.png", read_image),
    "models": Target(models, "a.dmn4", use_model),
    "pickles": Target(pickles, "CIFAR_FS_test.pickle", lambda path: open_dataset(path.parent, "test")),
    "arrays": Target(arrays, "test.npz", lambda path: open_dataset(path.parent, "test")),
    "members": Target(members, "test.npz", lambda path: open_dataset(path.parent, "test"), zipped),
    "checkpoints": Target(checkpoints, "a.safetensors", lambda path: read_trained(path)),
    "tables": Target(tables, "test.csv", lambda path: open_dataset(path.parent, "test"), beside=NAMED),
    "lists": Target(lists, "novel.json", lambda path: open_dataset(path.parent, "test"), beside=NAMED),
    "boxes": Target(boxes, "train_2017_bboxes.json", lambda path: open_dataset(path.parent, "train", tiered=True)),
    "cards": Target(cards, "card.json", use_card),
    "settings": Target(settings, "settings.json", use_settings),
    "states": Target(states, "last.safetensors", use_state),
    "requests": Target(requests, "request", use_request, together=16),
    "labels": Target(tables, "a.csv", use_labels, beside=NAMED),
    "names": Target(name_lists, "list.csv", use_source, beside=NAMED),
    "tars": Target(shards, "a.tar", use_source),
    "parquets": Target(parquets, "a.parquet", use_source, beside=NAMED),
    "sorted": Target(sorted_lists, "list.jsonl", use_sorted_list, beside=("a.png",)),
    "predictions": Target(predictions, "a.csv", lambda path: read_table(path, COLUMNS)),
}


def outcome(target: Target, path: Path) -> str:
    """What using the file comes to: `read`, `refused` in one line, or the error that would be a traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.use(path)
        except InputError as error:
            return "refused" if str(error) and "\n" not in str(error) else f"a message of several lines: {error}"
        except BaseException as error:
            import traceback

            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}, line {place.lineno})"
    return "read"
