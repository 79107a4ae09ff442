"""Stage one: classification of the base classes."""

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from toy_runs import RECIPES, TRAIN, VAL, run_stage

from dmn4.data.samples import draw_clutter
from dmn4.errors import InputError
from dmn4.files import load_tensors
from dmn4.recipes import Pretraining
from dmn4.training.pretrain import (
    Logits,
    batches,
    classification_loss,
    distillation,
    load_network,
    pretrain,
)
from dmn4.training.runs import read_log
from dmn4.training.setup import window

RECIPE = RECIPES["pretrain"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_stage("pretrain", folder)
    return folder


def test_it_learns_and_leaves_everything_in_the_folder(finished):
    rows = read_log(finished / "log.csv")
    assert float(rows[-1]["loss"]) < 0.6 * float(rows[0]["loss"])
    names = {path.name for path in finished.iterdir()}
    assert names == {"settings.json", "last.safetensors", "backbone.safetensors", "log.csv", "curves.png", "card.json"}
    card = json.loads((finished / "card.json").read_text())
    assert card["recipe"]["lr"] == RECIPE.lr
    assert card["data"] == TRAIN.fingerprint
    assert card["val"] == pytest.approx(max(float(row["val"]) for row in rows), abs=1e-5)
    assert {"command", "torch", "threads", "seconds"} <= card.keys()


def test_the_dense_loss_is_the_mean_over_locations_and_the_pooled_loss_is_added():
    dense, pooled = torch.randn(2, 3, 4), torch.randn(2, 4)
    labels = torch.tensor([1, 3])
    loss = classification_loss(Logits(dense, pooled), labels, Pretraining(dense=2.0, pooled=0.5))
    one_by_one = sum(F.cross_entropy(dense[i, place], labels[i]) for i in range(2) for place in range(3)) / 6
    assert loss.item() == pytest.approx((2 * one_by_one + 0.5 * F.cross_entropy(pooled, labels)).item(), rel=1e-5)


def test_a_student_that_agrees_with_its_teacher_has_nothing_to_learn_from_it():
    said = torch.randn(5, 4)
    assert distillation(said, said, 4.0).item() == pytest.approx(0, abs=1e-6)
    assert distillation(said, said.flip(0), 4.0) > 0


def test_a_finished_run_can_teach_another_one(finished, tmp_path):
    teacher = load_network(finished)
    assert teacher(torch.rand(1, 3, 24, 24)).pooled.shape == (1, len(TRAIN.classes))
    taught = pretrain(TRAIN, tmp_path, replace(RECIPE, epochs=1, teacher=str(finished), distill=1.0), shown=False)
    assert float(read_log(taught.folder / "log.csv")[0]["loss"]) > 0


def test_every_epoch_shows_every_image_once_and_processes_share_a_step():
    recipe = replace(RECIPE, epochs=1, transform="meta-inat")
    whole = list(batches(TRAIN, recipe, 0))
    halves = [list(batches(TRAIN, recipe, 0, rank, 2)) for rank in (0, 1)]
    assert sum(len(batch.labels) for batch in whole) == len(TRAIN)
    assert sorted(torch.cat([batch.labels for batch in whole]).tolist()) == sorted(TRAIN.labels.tolist())
    for batch, first, second in zip(whole, *halves, strict=True):
        assert torch.equal(batch.images[0::2], first.images)
        assert torch.equal(batch.images[1::2], second.images)


def test_a_step_does_not_depend_on_those_before_it():
    later = next(iter(batches(TRAIN, RECIPE, 9)))
    assert torch.equal(later.images, list(batches(TRAIN, replace(RECIPE, epochs=2), 0))[9].images)


@pytest.mark.parametrize(("share", "early"), [(0.0, 0), (0.5, 2), (0.6, 3), (0.75, 3), (1.0, 4)])
def test_early_epochs_may_see_smaller_crops(share, early):
    recipe = replace(RECIPE, epochs=4, early_size=16, early_share=share)
    sizes = [batch.images.shape[-1] for batch in batches(TRAIN, recipe, 0)]
    assert sizes == [16] * 6 * early + [24] * 6 * (4 - early)


@pytest.mark.parametrize("head", ["linear", "margin", "arc"])
def test_every_head_learns(head, tmp_path):
    run = pretrain(TRAIN, tmp_path, replace(RECIPE, head=head, epochs=3, lr=0.05, smoothing=0.1), shown=False)
    losses = [float(row["loss"]) for row in read_log(run.folder / "log.csv")]
    assert losses[-1] < losses[0]


def test_a_folder_with_a_run_is_not_overwritten(finished):
    with pytest.raises(InputError, match="holds a run already: --resume goes on with it"):
        run_stage("pretrain", finished)


def test_a_run_of_other_settings_is_not_resumed(finished):
    with pytest.raises(InputError, match=r"a run of other settings: lr is 0\.1, not 0\.7"):
        run_stage("pretrain", finished, resume=True, recipe=replace(RECIPE, lr=0.7))


def test_a_run_on_other_data_is_not_resumed(finished):
    with pytest.raises(InputError, match="a run on another data set: its fingerprint is"):
        pretrain(draw_clutter(6, 12, 0.2, 24, seed=5), finished, RECIPE, val=VAL, resume=True, shown=False)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_weights(tmp_path):
    with pytest.raises(InputError, match=r"the loss became (nan|inf) in step \d+; the last good weights are in"):
        pretrain(TRAIN, tmp_path, replace(RECIPE, lr=1e30, head="linear", schedule="constant"), val=VAL, save_every=0,
                 shown=False)
    tensors, _ = load_tensors(tmp_path / "last.safetensors")              # finite, if too large for anybody to load
    assert all(tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.parametrize("more", [{"head": "frn"}, {"head": "nbnn"}, {"head": "arc", "vector": "flat"}])
def test_a_head_can_read_whole_maps(more, tmp_path):
    recipe = replace(RECIPE, **more, dense=0.0, epochs=3, lr=0.02)
    rows = read_log(pretrain(TRAIN, tmp_path, recipe, shown=False).folder / "log.csv")
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert load_network(tmp_path)(torch.rand(1, 3, 24, 24)).dense is None


def test_a_head_on_whole_maps_has_no_loss_at_every_location(tmp_path):
    with pytest.raises(InputError, match="set dense=0"):
        pretrain(TRAIN, tmp_path, replace(RECIPE, vector="flat"), shown=False)


def test_early_crops_are_no_larger_than_the_pictures():
    images = torch.rand(2, 3, 24, 24)
    assert window(images, 16, torch.Generator()).shape == (2, 3, 16, 16)
    assert torch.equal(window(images, 60, torch.Generator()), images)
