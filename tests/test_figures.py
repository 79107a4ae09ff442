import re

import numpy as np
import pytest
import torch
from PIL import Image

from dmn4.backbones import build_backbone
from dmn4.episodes.maps import MapStore
from dmn4.episodes.sampling import sample_episodes
from dmn4.errors import InputError
from dmn4.evaluation.contenders import Contender, usual_transform
from dmn4.evaluation.evaluate import Protocol
from dmn4.evaluation.intervals import Accuracy
from dmn4.methods import build_method
from dmn4.methods.neighbors import relative_closeness
from dmn4.reproduce import Workshop
from dmn4.reproduce.curves import draw_clouds, draw_clutter_curves, draw_densities, draw_shares
from dmn4.reproduce.figures import FIGURES, available, backbones, figure
from dmn4.reproduce.numbers import clutter_accuracies, match_episode, purity, sample_tau, true_shares, tsne_clouds
from dmn4.training.checkpoints import save_backbone

RULES = {name: build_method(name) for name in ("dn4", "odm", "mn4", "dmn4")}
LABELS = np.repeat(np.arange(3), 6)


@pytest.fixture(scope="module")
def maps():
    """Maps of 18 pictures of three classes: every place is its class's direction with noise."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(3, 8, generator=generator)[LABELS]                              # (18, C)
    return MapStore(direction[:, None, None] + 0.8 * torch.randn(18, 3, 3, 8, generator=generator))


def tasks(count):
    return sample_episodes(LABELS, 3, 1, 4, episodes=count, seed=0)


def test_tau_is_sampled_from_what_each_rule_keeps(maps):
    found = sample_tau(maps, tasks(50), RULES, count=60)
    assert {name: len(tau) for name, tau in found.items()} == dict.fromkeys(RULES, 60)
    assert float(found["odm"].mean()) > float(found["dn4"].mean())           # it keeps the largest leads
    episode = next(tasks(1))
    everything = relative_closeness(match_episode(maps, episode).class_best).flatten().sort().values
    whole = sample_tau(maps, tasks(1), {"dn4": RULES["dn4"]}, count=len(everything))["dn4"].sort().values
    assert torch.equal(everything, whole)


def test_too_few_episodes_for_a_sample_are_named(maps):
    with pytest.raises(InputError, match="hold 108 kept descriptors; 1000 were asked for"):
        sample_tau(maps, tasks(1), {"dn4": RULES["dn4"]}, count=1000)


def test_the_share_nearest_to_the_truth_is_one_without_noise(maps):
    clean = MapStore(torch.eye(3)[LABELS][:, None, None].expand(-1, 2, 2, -1).contiguous())
    assert all((shares == 1).all() for shares in true_shares(clean, tasks(2), RULES).values())
    noisy = true_shares(maps, tasks(20), RULES)
    assert all(1 / 3 < values.mean() < 1 for values in noisy.values())
    assert noisy["odm"].mean() > noisy["dn4"].mean()


def test_purity_asks_only_neighbours_in_other_pictures():
    descriptors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    image, labels = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 1])
    # the nearest in other pictures: 2, 2, 3 and 2; of the same class: yes, yes, no, no
    assert purity(descriptors, image, labels, neighbours=1) == 0.5


def test_clouds_hold_every_descriptor_and_every_kept_one(maps, tmp_path):
    episode = next(tasks(1))
    everything, kept = tsne_clouds(maps, episode, RULES["mn4"])
    assert everything.points.shape == (12 * 9, 2)
    assert 3 < len(kept.points) < len(everything.points)
    assert np.bincount(everything.labels).tolist() == [36, 36, 36]
    draw_clouds({"all": everything, "kept": kept}, ["a", "b", "c"], tmp_path / "clouds.png")
    assert Image.open(tmp_path / "clouds.png").size[0] > 1000


def test_clutter_costs_accuracy():
    torch.manual_seed(0)
    backbone = build_backbone("conv4", width=0.125).eval()
    contenders = {"dmn4": Contender(backbone, build_method("dmn4"), usual_transform(backbone))}
    found = clutter_accuracies(contenders, (0.0, 1.0), Protocol(episodes=6, queries=2), size=24, classes=6, shown=False)
    assert found[0.0].accuracy("dmn4").mean > 0.5
    assert found[1.0].accuracy("dmn4").mean < 0.45                            # nothing but clutter: chance is 0.2


def test_curves_and_bars_are_drawn_whole(tmp_path):
    tau = {"dn4": torch.rand(200) ** 3, "mn4": torch.rand(200) ** 2}
    draw_densities({"conv4": tau, "resnet12": tau}, tmp_path / "kde.png")
    shares = {"dn4": Accuracy(0.4, 0.01), "mn4": Accuracy(0.5, 0.02)}
    draw_shares({"drawn": shares}, 5, tmp_path / "shares.png")
    draw_clutter_curves({0.0: shares, 0.5: shares}, tmp_path / "clutter.svg")
    assert {path.name for path in tmp_path.iterdir()} == {"kde.png", "shares.png", "clutter.svg"}   # no drafts left
    assert b"</svg>" in (tmp_path / "clutter.svg").read_bytes()


def test_a_figure_has_a_page_with_its_picture_inside(tmp_path):
    def draw(workshop, picture):
        Image.new("RGB", (4, 4)).save(picture)
        return "A <title>", ["one number"]

    page = figure("about it", draw).run(Workshop(tmp_path, "tiny", {}), "clouds")
    assert page == tmp_path / "clouds-tiny.md"
    assert "![A <title>](clouds-tiny.png)" in page.read_text()
    assert "drawn objects, not photographs" in page.read_text()
    html = page.with_suffix(".html").read_text()
    assert "A &lt;title&gt;" in html
    assert "data:image/png;base64," in html


def test_beyond_the_smallest_budget_a_figure_names_the_data_it_needs(tmp_path):
    with pytest.raises(InputError, match="--data miniimagenet=FOLDER"):
        FIGURES["tsne"].run(Workshop(tmp_path, "cpu", {}), "tsne")
    assert available(Workshop(tmp_path, "cpu", {"cub": "x"}), "miniimagenet", "cub") == ["cub"]
    assert available(Workshop(tmp_path, "tiny", {}), "miniimagenet", "cub") == ["drawn"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_at_the_smallest_budget(name, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "figures"               # one folder: they share trainings
    page = FIGURES[name].run(Workshop(folder, "tiny", {}, shown=False), name)
    assert Image.open(page.with_suffix(".png")).size[0] > 500


def test_a_figure_can_use_given_weights_instead_of_training(tmp_path, monkeypatch):
    weights = tmp_path / "some.safetensors"
    save_backbone(weights, build_backbone("conv4", width=0.125), {"transform": "mcl-stored", "size": 32})
    workshop = Workshop(tmp_path, "tiny", {"miniimagenet": "drawn"}, shown=False,
                        given={"miniimagenet/conv4": str(weights)})
    monkeypatch.setattr(Workshop, "weights", lambda *_: pytest.fail("nothing to train"))
    page = FIGURES["nearest-to-truth"].run(workshop, "nearest-to-truth").read_text()
    assert f"weights: miniimagenet/conv4: {weights}" in page
    assert "miniImageNet: dn4" in page
    assert backbones(workshop, "miniimagenet") == ["conv4"]
    tau = FIGURES["kde"].run(workshop, "kde").read_text()
    numbers = dict(re.findall(r"(dn4|mn4|dmn4|mnn-relaxed) (0\.\d+)", tau))
    assert float(numbers["dmn4"]) > float(numbers["mnn-relaxed"])       # as many, and the clearest of each group
    with pytest.raises(InputError, match="this figure needs"):
        available(Workshop(tmp_path, "cpu", {"cub": "drawn"}, given=workshop.given), "cub")
