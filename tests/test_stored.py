"""Maps that are kept in the cache: equal to those embedded anew, found by evaluations, never mistaken for others."""

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from dmn4 import InputError
from dmn4.backbones import build_backbone
from dmn4.cli.data import app
from dmn4.data.cache import cached_bytes, clear, decoded_folder
from dmn4.data.layouts import open_split
from dmn4.data.samples import draw_clutter
from dmn4.episodes import maps, stored
from dmn4.episodes.maps import BATCH, embed_all
from dmn4.episodes.stored import embed_here, store_maps, stored_maps
from dmn4.evaluation.contenders import load_trained
from dmn4.evaluation.evaluate import Protocol, evaluate
from dmn4.images import Transform
from dmn4.training.checkpoints import save_backbone

LOOK = Transform(24)
IMAGES = draw_clutter(5, 30, 0.2, 24)                         # 150 pictures: three batches, the last one short


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    return build_backbone("conv4", width=0.125).eval()


def test_stored_maps_are_those_of_the_network_to_the_bit(backbone):
    assert stored_maps(backbone, IMAGES, LOOK) is None
    kept = store_maps(backbone, IMAGES, LOOK)
    assert torch.equal(kept.values, embed_all(backbone, IMAGES, LOOK).values)
    assert torch.equal(stored_maps(backbone, IMAGES, LOOK).values, kept.values)


def test_a_second_call_embeds_nothing(backbone):
    counts = []
    store_maps(backbone, IMAGES, LOOK, seen=counts.append)
    assert counts == [0, BATCH, BATCH, 150 - 2 * BATCH]
    again = []
    store_maps(backbone, IMAGES, LOOK, seen=again.append)
    assert again == [150]


def test_interrupted_it_goes_on_where_it_stopped(backbone):
    def interrupted(*arguments):
        yield next(embed_here(*arguments))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_maps(backbone, IMAGES, LOOK, embed=interrupted)
    assert stored_maps(backbone, IMAGES, LOOK) is None
    counts = []
    kept = store_maps(backbone, IMAGES, LOOK, seen=counts.append)
    assert counts == [BATCH, BATCH, 150 - 2 * BATCH]
    assert torch.equal(kept.values, embed_all(backbone, IMAGES, LOOK).values)


def test_another_weight_picture_or_preprocessing_is_another_entry(backbone):
    store_maps(backbone, IMAGES, LOOK)
    assert stored_maps(backbone, IMAGES.rows(range(149)), LOOK) is None
    assert stored_maps(backbone, IMAGES.rows([1, 0, *range(2, 150)]), LOOK) is None
    assert stored_maps(backbone, IMAGES, Transform(24, std=(1.0, 1.0, 1.0))) is None
    next(backbone.parameters()).data.view(-1)[0] += 1e-3
    assert stored_maps(backbone, IMAGES, LOOK) is None


def test_what_does_not_fit_is_kept_in_half_precision(backbone):
    assert store_maps(backbone, IMAGES, LOOK, in_memory=0).values.dtype == torch.float16


def test_a_damaged_entry_is_embedded_again(backbone):
    store_maps(backbone, IMAGES, LOOK)
    for path in decoded_folder().glob("maps-*/maps.npy"):
        path.write_bytes(path.read_bytes()[:1000])
    assert stored_maps(backbone, IMAGES, LOOK) is None
    assert torch.equal(store_maps(backbone, IMAGES, LOOK).values, embed_all(backbone, IMAGES, LOOK).values)


def test_a_network_whose_weights_nobody_sees_is_refused(backbone):
    backbone.name = ""
    with pytest.raises(InputError, match="maps of 'Conv4' cannot be kept"):
        store_maps(backbone, IMAGES, LOOK)
    assert stored_maps(backbone, IMAGES, LOOK) is None


def test_the_command_embeds_each_split_and_an_evaluation_embeds_nothing_more(backbone, tmp_path, monkeypatch):
    save_backbone(tmp_path / "narrow.safetensors", backbone, {"size": 24, "transform": "mcl-stored"})
    contender = load_trained(str(tmp_path / "narrow.safetensors")).with_method("dmn4")
    photos = tmp_path / "photos"
    for place, (picture, label) in enumerate(zip(IMAGES.pixels, IMAGES.labels, strict=True)):
        folder = photos / "test" / IMAGES.classes[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{place:03}.png")
    protocol = Protocol(5, 1, 2, 20)
    alone = evaluate(open_split(str(photos), "test"), {"dmn4": contender}, protocol, shown=False)
    result = CliRunner().invoke(app, ["prepare", str(photos), "--maps", "--weights",
                                      str(tmp_path / "narrow.safetensors")], catch_exceptions=False)
    assert "150 images, 5 classes, fingerprint" in result.output
    assert ", maps 4 x 4 x 8 (0.1 MB)" in result.output

    def none(*arguments):
        raise AssertionError("it is embedded again")

    monkeypatch.setattr(maps, "embed_rows", none)
    monkeypatch.setattr(stored, "embed_rows", none)
    prepared = evaluate(open_split(str(photos), "test"), {"dmn4": contender}, protocol, shown=False)
    assert (prepared.values["dmn4"] == alone.values["dmn4"]).all()
    clear()
    assert cached_bytes() == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["--weights", "x"], "go with --maps"), (["--engine", "ray"], "go with --maps"),
    (["--maps", "--size", "84"], "leave out --size"), (["--maps", "--address", "auto"], "are for --engine ray"),
    (["--split", "tests"], "unknown split 'tests'; choose one of")])
def test_a_choice_that_does_not_apply_is_one_line(tmp_path, arguments, message):
    (tmp_path / "photos" / "test" / "a").mkdir(parents=True)
    Image.new("RGB", (30, 30)).save(tmp_path / "photos" / "test" / "a" / "0.png")
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["prepare", str(tmp_path / "photos"), *arguments], catch_exceptions=False)
