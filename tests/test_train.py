"""Stage two: episodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch.testing import assert_close
from toy_runs import RECIPES, TRAIN, VAL, run_stage

from dmn4.backbones.conv4 import Conv4
from dmn4.data.samples import draw_clutter
from dmn4.episodes.maps import MapStore
from dmn4.errors import InputError
from dmn4.files import load_tensors
from dmn4.methods import build_method
from dmn4.recipes import TRAINING, adjusted
from dmn4.seeds import mixed_seed
from dmn4.training.averages import Average
from dmn4.training.checkpoints import load_model
from dmn4.training.runs import read_log
from dmn4.training.setup import set_learning_rate, start_optimizer, transforms
from dmn4.training.steps import prepare, step_batches
from dmn4.training.train import EpisodeLoss, start_model, train
from dmn4.training.validation import Validation, correct_share

RECIPE = RECIPES["train"]


def start_of_run(recipe):
    """The model that a run of this recipe starts from."""
    torch.manual_seed(mixed_seed(recipe.seed, 0))
    return start_model(recipe)


@pytest.mark.parametrize(("method", "options"), [("dn4", "temperature=4"), ("mn4", ""), ("dmn4", ""),
                                                 ("protonet", "temperature=64")])
def test_a_short_training_beats_its_start_and_raw_pixels(method, options, tmp_path):
    val = draw_clutter(8, 30, 0.5, 32, seed=1)
    recipe = adjusted(TRAINING["tiny"], method=method, method_options=options, epochs=1, episodes=60)
    start = start_of_run(recipe)
    measure = Validation(val, recipe, start.backbone.out_channels)
    before = measure(start.backbone, start.method)
    run = train(draw_clutter(16, 20, 0.5, 32, seed=0), tmp_path, recipe, val=val, shown=False)
    trained = load_model(run.folder / "model.safetensors")
    after = measure(trained.backbone, trained.method)

    raw = F.adaptive_avg_pool2d(torch.from_numpy(val.images).permute(0, 3, 1, 2).float(), 16)
    pixels = correct_share(build_method("protonet", vector="flat"), [MapStore(raw.permute(0, 2, 3, 1))],
                           measure.episodes)
    assert after > before + 0.15
    assert after > pixels + 0.25


def test_episodes_of_one_batch_share_its_embedding():
    model = start_model(RECIPES["shared"])
    one, = step_batches(TRAIN.labels, RECIPES["shared"], 0)
    assert len(one.rows) == 4 * 6
    assert len(one.episodes) == 2
    images, episodes = prepare(one, TRAIN, transforms(RECIPES["shared"])[0], (), 0)
    passes = []
    model.backbone.register_forward_hook(lambda *_: passes.append(1))
    EpisodeLoss(model)(images, episodes)
    assert len(passes) == 1
    for episode in episodes:
        assert set(episode.support.tolist()).isdisjoint(episode.query.tolist())
        of_support, of_query = TRAIN.labels[one.rows[episode.support]], TRAIN.labels[one.rows[episode.query]]
        assert (of_support[:, None] == of_query).sum() == 3 * 4


def test_episodes_that_are_searched_together_cost_one_embedding_and_give_what_each_gives_alone():
    recipe = replace(RECIPES["searched"], step_episodes=6, shots=2)
    model = start_model(recipe).eval()
    one, = step_batches(TRAIN.labels, recipe, 0)
    images, episodes = prepare(one, TRAIN, transforms(recipe)[0], (), 0)
    assert all(episode.support.max() < one.support <= episode.query.min() for episode in episodes)
    together, alone = (EpisodeLoss(model)(images, episodes, support) for support in (one.support, 0))
    assert_close(together.loss, alone.loss)
    assert_close(together.accuracy, alone.accuracy)
    for episode in episodes:
        of_support, of_query = TRAIN.labels[one.rows[episode.support]], TRAIN.labels[one.rows[episode.query]]
        assert of_support.tolist() == np.repeat(of_query[::4], 2).tolist()


@pytest.mark.parametrize(("more", "message"), [({"shots": 3}, "2 support images of each class has no episodes with 3"),
                                               ({"queries": 5}, "4 query images of each class has no episodes with 5"),
                                               ({"ways": 5}, "4 classes, fewer than the 5 ways")])
def test_a_batch_that_is_too_small_for_its_episodes_is_refused(more, message):
    with pytest.raises(InputError, match=message):
        step_batches(TRAIN.labels, replace(RECIPES["searched"], **more), 0)


@pytest.mark.parametrize("name", ["train", "shared", "searched", "no reuse"])
def test_processes_share_the_episodes_of_a_step_and_leave_none_out(name):
    recipe = replace(RECIPES.get(name, replace(RECIPE, reuse="no")), step_episodes=4)

    def played(rank, world):
        return [tuple(np.sort(one.rows[episode.query].numpy()))
                for one in step_batches(TRAIN.labels, recipe, 3, rank, world) for episode in one.episodes]

    assert sorted(played(0, 1)) == sorted(played(0, 2) + played(1, 2))
    assert len(played(0, 2)) == 2


def test_views_join_the_support_with_the_labels_of_their_images():
    one = step_batches(TRAIN.labels, RECIPE, 0)[0]
    images, (episode,) = prepare(one, TRAIN, replace(transforms(RECIPE)[0], crop="none", padding=0, flip=False),
                                 ("flip",), 0)
    assert episode.support_labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert torch.equal(images[episode.support[3:]], images[episode.support[:3]].flip(-1))


def test_unlabelled_images_come_from_the_part_that_is_not_labelled():
    recipe = replace(RECIPE, unlabelled=2, distractors=1, labelled=0.5)
    one = step_batches(TRAIN.labels, recipe, 0)[0]
    assert len(one.episodes[0].unlabelled) == (3 + 1) * 2
    assert len(one.rows) == 3 + 12 + 8


@pytest.mark.parametrize("more", [{"unlabelled": 2}, {"labelled": 0.5}])
def test_a_shared_batch_refuses_what_it_would_ignore(more):
    with pytest.raises(InputError, match="no unlabelled images: set batch_classes=0"):
        step_batches(TRAIN.labels, replace(RECIPE, batch_classes=4, batch_images=6, **more), 0)


def test_without_reuse_no_image_comes_twice_in_an_epoch_until_it_runs_dry():
    labels = np.arange(4).repeat(20)                          # 80 images: five episodes of 3 x (1 + 4) use 75 of them
    recipe = replace(RECIPE, ways=3, shots=1, queries=4, reuse="no", episodes=8, step_episodes=1)
    epoch = torch.stack([step_batches(labels, recipe, step)[0].rows for step in range(8)])      # (8, 15)
    whole = max(count for count in range(1, 9) if len(epoch[:count].unique()) == 15 * count)
    assert 3 <= whole <= 5                                    # it ends once two classes alone have five images left
    assert not torch.equal(step_batches(labels, recipe, 8)[0].rows, epoch[0])


@pytest.mark.parametrize("more", [{"unlabelled": 2}, {"labelled": 0.5}, {"batch_classes": 4, "batch_images": 6}])
def test_episodes_without_reuse_refuse_what_they_would_ignore(more):
    with pytest.raises(InputError, match="set reuse=yes"):
        step_batches(TRAIN.labels, replace(RECIPE, reuse="no", **more), 0)


def test_early_episodes_may_see_smaller_crops(tmp_path):
    sides, embed = [], Conv4.features

    def features(self, images):
        sides.append(images.shape[-1])
        return embed(self, images)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conv4, "features", features)
        train(TRAIN, tmp_path, replace(RECIPES["searched"], epochs=2, episodes=4, early_share=0.5), shown=False)
    assert sides == [20, 20, 24, 24]


@pytest.mark.parametrize("stage", ["pretrain", "train"])
def test_a_running_mean_of_the_weights_is_what_is_kept(stage, tmp_path):
    recipe = replace(RECIPES[stage], epochs=1, average=0.5, norm="frozen" if stage == "train" else "batch")
    steps, seen = [], Average.update

    def update(self):
        seen(self)
        steps.append({name: value.clone() for name, value in self.learning.backbone.state_dict().items()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Average, "update", update)
        run = run_stage(stage, tmp_path, recipe=recipe)
    kept, _ = load_tensors(run.folder / "backbone.safetensors")
    name = "blocks.0.0.weight"
    mean = steps[0][name]                                     # the first weights are the mean of themselves
    for step in steps[1:]:
        mean = torch.lerp(mean, step[name], 0.5)
    assert_close(kept[name], mean)
    assert not torch.equal(kept[name], steps[-1][name])


@pytest.mark.parametrize("stage", ["pretrain", "train"])
def test_mixed_precision_learns_with_weights_in_full_precision(stage, tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    run = run_stage(stage, tmp_path, recipe=replace(RECIPES[stage], epochs=2), fabric=fabric)
    first, last = read_log(run.folder / "log.csv")
    assert float(last["loss"]) < float(first["loss"])
    tensors, _ = load_tensors(run.folder / "backbone.safetensors")
    assert {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()} == {torch.float32}


def test_frozen_norms_keep_their_statistics_but_learn_their_scale(tmp_path):
    start = start_model(replace(RECIPE, norm="frozen"))
    run = train(TRAIN, tmp_path, replace(RECIPE, norm="frozen", epochs=1), shown=False)
    trained = load_model(run.folder / "model.safetensors")
    means = [name for name in trained.state_dict() if name.endswith("running_mean")]
    assert all(torch.equal(trained.state_dict()[name], start.state_dict()[name]) for name in means)
    assert any((value != 1).any() for name, value in trained.state_dict().items() if name.endswith("1.weight"))


def test_the_log_tells_the_share_of_descriptors_that_vote(tmp_path):
    run = run_stage("train", tmp_path, recipe=replace(RECIPE, epochs=1))
    row, = read_log(run.folder / "log.csv")
    assert 0 < float(row["kept"]) < 1


def test_steps_that_cannot_be_shared_evenly_are_refused(tmp_path):
    class Three:
        world_size, is_global_zero = 3, True
    with pytest.raises(InputError, match="2 episodes a step cannot be shared by 3 processes"):
        train(TRAIN, tmp_path, RECIPE, fabric=Three(), shown=False)


def test_a_loss_that_is_no_number_names_its_episode(tmp_path):
    with pytest.raises(InputError, match=r"the loss became nan in episode \d+"):
        train(TRAIN, tmp_path, replace(RECIPE, method="protonet", lr=1e30), save_every=0, shown=False)


def test_scaled_kernels_learn_factors_and_are_written_as_an_ordinary_backbone(tmp_path):
    recipe = replace(RECIPE, kernels="scale", method="e3bm", method_options="steps=2", epochs=1)
    start = {name: tensor.clone() for name, tensor in start_of_run(recipe).backbone.state_dict().items()}
    run = run_stage("train", tmp_path, recipe=recipe)
    kernel = load_model(run.folder / "model.safetensors").backbone.state_dict()["blocks.0.0.weight"]
    before = start["blocks.0.0.conv.weight"]
    factor = kernel / before
    assert_close(factor, factor[:, :, :1, :1].expand_as(factor), rtol=1e-4, atol=1e-4)      # one factor a kernel
    assert not torch.equal(kernel, before)


def test_the_methods_own_layers_can_learn_at_another_rate():
    model = start_model(replace(RECIPE, method="feat"))
    optimizer = start_optimizer(RECIPE, model, model.method, 10.0)
    set_learning_rate(optimizer, replace(RECIPE, schedule="constant"), 0)
    assert [group["lr"] for group in optimizer.param_groups] == [RECIPE.lr, 10 * RECIPE.lr]
    counts = [sum(one.numel() for one in group["params"]) for group in optimizer.param_groups]
    assert counts == [sum(one.numel() for one in part.parameters()) for part in (model.backbone, model.method)]


def test_smoothed_labels_raise_the_loss_of_a_sure_answer():
    model = start_model(RECIPE)
    one, = step_batches(TRAIN.labels, replace(RECIPE, step_episodes=1), 0)
    images, episodes = prepare(one, TRAIN, transforms(RECIPE)[0], (), 0)
    plain, smooth = (EpisodeLoss(model.eval(), share)(images, episodes).loss for share in (0.0, 0.1))
    scores = model.method(*maps_of(model, images, episodes[0]))
    assert_close(plain, F.cross_entropy(scores, episodes[0].query_labels))
    assert_close(smooth, F.cross_entropy(scores, episodes[0].query_labels, label_smoothing=0.1))


def maps_of(model, images, episode):
    """Support maps, labels and query maps of an episode."""
    maps = model.backbone(images)
    return maps[episode.support], episode.support_labels, maps[episode.query]


def test_validation_sees_the_views_and_the_unlabelled_images_of_its_method():
    recipe = replace(RECIPE, method="dsn-semi", unlabelled=2, labelled=0.5, validate_episodes=3)
    model, seen = start_model(recipe), []
    model.method.register_forward_pre_hook(lambda _, args, more: seen.append((len(args[0]), more)), with_kwargs=True)
    assert 0 <= Validation(VAL, recipe, model.backbone.out_channels)(model.backbone, model.method) <= 1
    assert [(support, len(more["unlabelled"])) for support, more in seen] == [(3 * 2, 3 * 2)] * 3     # flips; 2 a class


def test_the_first_epoch_that_is_measured_is_the_one_named(tmp_path):
    run = train(TRAIN, tmp_path, replace(RECIPE, epochs=3, validate_every=1, validate_from=2), val=VAL, shown=False)
    assert [row["val"] != "" for row in read_log(run.folder / "log.csv")] == [False, True, True]


def test_a_loss_of_the_methods_own_takes_no_smoothing():
    with pytest.raises(InputError, match="'relationnet' is trained with a loss of its own, which takes no label smoot"):
        start_model(replace(RECIPE, method="relationnet", method_options="", smoothing=0.1))
