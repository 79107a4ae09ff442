import numpy as np
import pytest
import torch
from PIL import Image

from dmn4.backbones import build_backbone
from dmn4.evidence.draw import Task, class_colours, draw_explanation, draw_kept, draw_receptive, field_maps, overlay
from dmn4.evidence.draw.evidence import EDGE, QUERY, TOP
from dmn4.evidence.draw.heat import veiled
from dmn4.evidence.draw.sheet import FINE, OTHER, PALETTE, Sheet, fitted, font, shortened
from dmn4.evidence.explain import explain_maps
from dmn4.methods import build_method

GENERATOR = torch.Generator().manual_seed(0)
PHOTOS = [np.full((40, 60, 3), 40 * n, dtype=np.uint8) for n in range(6)]


@pytest.fixture
def why(episode):
    support, labels, query = episode
    return explain_maps(build_method("dmn4"), support, labels, query[0], name="dmn4", classes=["ant", "bee", "cat"])


def coloured(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    """How many pixels are within a hair of a colour."""
    return int((np.abs(np.asarray(picture, dtype=int) - colour).max(-1) < 12).sum())


def test_the_picture_is_written_whole_and_shows_the_best_classes_in_their_colours(why, tmp_path):
    picture = draw_explanation(why, PHOTOS[1], PHOTOS, tmp_path / "why.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "why.png")), np.asarray(picture))
    assert [path.name for path in tmp_path.iterdir()] == ["why.png"]
    for colour in PALETTE[:3]:
        assert coloured(picture, colour) > 60        # a dot above its row at least


def test_a_query_keeps_its_shape_and_what_voted_its_colours_while_the_rest_is_grey_and_not_dark(why):
    bright = np.full((60, 90, 3), (200, 80, 40), dtype=np.uint8)
    shown = np.asarray(veiled(Image.fromarray(bright), why), dtype=int)
    for place, (left, top, right, bottom) in enumerate((why.boxes * torch.tensor([90, 60, 90, 60])).tolist()):
        middle = shown[int((top + bottom) / 2), int((left + right) / 2)]
        assert (middle.tolist() == [200, 80, 40]) == bool(why.kept[place]), f"place {place}"
        assert why.kept[place] or (np.ptp(middle) == 0 and middle.min() > 120)
    drawn = draw_explanation(why, bright, PHOTOS)
    strip = np.asarray(drawn, dtype=int)[TOP : TOP + QUERY, EDGE + QUERY // 2]
    assert (strip.min(-1) < 250).sum() == pytest.approx(QUERY * 60 / 90, abs=3)


def test_lines_are_thicker_where_the_lead_is_larger(why):
    thin, thick = Sheet(200, 100), Sheet(200, 100)
    thin.thread((10, 20), (190, 80), PALETTE[0], 1)
    thick.thread((10, 20), (190, 80), PALETTE[0], 5)
    assert coloured(thick.finished(), PALETTE[0]) > 3 * coloured(thin.finished(), PALETTE[0])


def test_every_rule_has_its_own_pane(why, tmp_path):
    picture = draw_kept(why, PHOTOS[1], tmp_path / "kept.jpg")
    assert picture.width == 20 + 320 * len(why.masks)
    assert Image.open(tmp_path / "kept.jpg").format == "JPEG"


def test_words_never_leave_their_room():
    letters = font(16)
    for words in ("ant", "a very long name of a class that no column holds", "纪念碑谷" * 9, ""):
        short = shortened(words, letters, 100 * FINE)
        assert letters.getlength(short) <= 100 * FINE
        assert short == words or short.endswith("…")


def test_names_of_classes_may_be_anything(why):
    from dataclasses import replace

    odd = replace(why, classes=("x" * 300, "línea\nnueva", "鳥"))
    assert draw_explanation(odd, PHOTOS[0], PHOTOS).size == draw_explanation(why, PHOTOS[0], PHOTOS).size


def test_pictures_that_are_not_at_hand_are_left_out(why):
    draw_explanation(why, PHOTOS[0], PHOTOS[:2])


def test_the_best_classes_have_different_colours_and_the_rest_are_grey():
    colours = class_colours(list(range(9, -1, -1)))
    assert colours[9] == PALETTE[0]
    assert len(set(colours.values())) == len(PALETTE) + 1
    assert colours[0] == OTHER


def test_a_picture_fits_its_box_without_distortion():
    left, top, right, bottom = fitted(Image.new("RGB", (200, 100)), (10, 10, 110, 110))
    assert (left, top, right, bottom) == (10, 35, 110, 85)


def test_a_heat_map_is_bright_where_it_is_hot():
    heat = np.zeros((8, 8))
    heat[:, 4:] = 1
    shown = np.asarray(overlay(Image.new("RGB", (80, 80), "grey"), heat), dtype=int).sum(-1)
    assert shown[:, 60:].min() > shown[:, :20].max()


def test_what_is_chosen_back_is_all_that_was_kept(tmp_path):
    torch.manual_seed(0)
    backbone = build_backbone("conv4", width=0.125).eval()
    support, query = torch.randn(3, 3, 36, 36, generator=GENERATOR), torch.randn(3, 36, 36, generator=GENERATOR)
    with torch.no_grad():
        maps, asked = backbone(support), backbone(query[None])[0]
    why = explain_maps(build_method("mn4"), maps, torch.arange(3), asked, name="mn4")
    found = field_maps(backbone, support, query, why)
    assert torch.equal(found["back"].amax(0) > 0, found["query"] > 0)        # q* is the union over the classes
    assert ((found["support"].amax((1, 2)) > 0) == torch.tensor([bool(why.pairs(c)) for c in range(3)])).all()
    photo = np.full((36, 36, 3), 120, dtype=np.uint8)
    task = Task(photo, [photo] * 3, ["a", "b", "c"], truth=1, **found)
    picture = draw_receptive({"drawn": [task, task], "more": [task]}, tmp_path / "fields.png")
    assert coloured(picture, PALETTE[2]) > 1000                              # the frame of the true class
