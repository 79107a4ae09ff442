"""The weights that come with the package."""

import hashlib

import pytest
import torch

from dmn4.backbones import build_backbone
from dmn4.backbones.loading import SHIPPED
from dmn4.data.samples import draw_clutter
from dmn4.episodes.maps import embed_all
from dmn4.episodes.sampling import sample_episodes
from dmn4.images import Transform
from dmn4.methods import build_method
from dmn4.training.validation import correct_share

FILES = {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}
# The beginning of each file's SHA-256, as docs/research/weights.md has it.
HASHES = {"conv4-classic-cub": "8b1b9c047ee7959e", "conv4-classic-miniimagenet": "923f5a1683c46ca0",
          "conv4-cub": "0a99bcf6c39b846f", "conv4-miniimagenet": "d2191ebea6367f73"}


@pytest.fixture(scope="module")
def drawn():
    return draw_clutter(6, 20, 0.5, 84, seed=3)


def test_every_file_is_the_one_that_its_card_describes():
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in FILES.items()} == HASHES
    assert all(path.stat().st_size < 500_000 for path in FILES.values())


@pytest.mark.parametrize("file", HASHES)
def test_they_tell_drawn_objects_apart_better_than_random_weights(file, drawn):
    episodes = list(sample_episodes(drawn.labels, 5, 1, 5, episodes=8, seed=0))
    kind, _, name = file.rpartition("-")
    torch.manual_seed(0)
    trained, random = (correct_share(build_method("dmn4"), [embed_all(backbone.eval(), drawn, Transform())], episodes)
                       for backbone in (build_backbone(kind, name), build_backbone(kind)))
    assert trained > random + 0.05
    assert trained > 0.5
