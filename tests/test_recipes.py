"""Settings as values."""

from dataclasses import fields

import pytest

from dmn4.backbones import build_backbone, conv4, resnet12
from dmn4.errors import InputError
from dmn4.images import TRANSFORMS
from dmn4.methods import METHODS, build_method
from dmn4.recipes import PRETRAINING, TRAINING, Pretraining, Training, adjusted, learning_rate, parse_options


def test_the_conv4_recipe_is_the_papers():
    recipe = TRAINING["conv4"]
    assert (recipe.optimizer, recipe.lr, recipe.betas, recipe.epochs) == ("adam", 1e-3, "0.5,0.9", 30)
    assert [learning_rate(recipe, epoch) for epoch in (0, 9.9, 10, 20)] == pytest.approx([1e-3, 1e-3, 1e-4, 1e-5])


def test_the_resnet12_recipes_are_the_papers_and_the_released_codes():
    first, second = PRETRAINING["resnet12"], TRAINING["resnet12"]
    assert [learning_rate(first, epoch) for epoch in (0, 99, 100, 200, 250, 300)] == pytest.approx(
        [0.1, 0.1, 0.01, 1e-3, 1e-4, 1e-5])
    assert (first.batch, first.momentum, first.weight_decay, first.epochs) == (128, 0.9, 5e-4, 350)
    assert [learning_rate(second, epoch) for epoch in (0, 10, 39)] == pytest.approx([5e-4, 2.5e-4, 6.25e-5])
    assert parse_options(second.method_options) == {"shots": "mean", "temperature": 0.5}


def test_one_cycle_rises_to_its_peak_and_falls_to_nothing():
    recipe = Pretraining(lr=0.2, epochs=10, warmup=0.3)
    assert learning_rate(recipe, 3) == pytest.approx(0.2)
    assert learning_rate(recipe, 0) < 0.01
    assert learning_rate(recipe, 10) == pytest.approx(0)
    rates = [learning_rate(recipe, epoch / 10) for epoch in range(101)]
    assert rates[:31] == sorted(rates[:31])
    assert rates[30:] == sorted(rates[30:], reverse=True)


def test_a_rival_has_the_schedule_of_its_paper():
    solver = TRAINING["metaoptnet-resnet12"]
    assert [learning_rate(solver, epoch) for epoch in (19, 20, 40, 50, 59)] == pytest.approx(
        [0.1, 0.006, 0.0012, 0.00024, 0.00024])
    assert (solver.shots, solver.queries, solver.smoothing, solver.episodes * solver.epochs) == (15, 6, 0.1, 480_000)
    assert TRAINING["feat-conv4"].method_lr == 10
    assert TRAINING["e3bm-resnet12"].kernels == "scale"


@pytest.mark.parametrize(("name", "form"), [("rfs-conv4", conv4.FORMS["rfs"]), ("feat-conv4", conv4.FORMS["feat"]),
                                            ("meta-baseline-resnet12", resnet12.FORMS["meta-baseline"]),
                                            ("metaoptnet-conv4", conv4.FORMS["metaoptnet"]),
                                            ("covariance-conv4", conv4.FORMS["covariance"]),
                                            ("mcl-conv4", conv4.FORMS["mcl"]), ("dc-conv4", conv4.FORMS["dc"]),
                                            ("tapnet-resnet12", resnet12.FORMS["tapnet"])])
def test_a_rival_has_its_own_form_of_the_backbone(name, form):
    recipe = PRETRAINING.get(name) or TRAINING[name]
    assert parse_options(recipe.backbone_options) == form


def test_a_list_of_numbers_that_is_none_is_shown():
    with pytest.raises(InputError, match="cannot read the list '10,soon'"):
        learning_rate(Training(schedule="steps", milestones="10,soon"), 0)


@pytest.mark.parametrize("recipe", [*PRETRAINING.values(), *TRAINING.values()])
def test_every_recipe_names_things_that_exist(recipe):
    assert recipe.transform in TRANSFORMS
    backbone = build_backbone(recipe.backbone, **parse_options(recipe.backbone_options))
    assert recipe.validate in METHODS
    if isinstance(recipe, Training):
        build_method(recipe.method, channels=backbone.out_channels, **parse_options(recipe.method_options))


@pytest.mark.parametrize("kind", [Pretraining, Training])
def test_every_setting_is_a_string_or_a_number_with_an_explanation(kind):
    for one in fields(kind):
        assert one.type in (str, int, float)
        assert one.metadata["help"]


def test_options_are_numbers_where_they_can_be():
    assert parse_options("width=0.5,pools=2,last=full") == {"width": 0.5, "pools": 2, "last": "full"}
    assert parse_options("") == {}


def test_an_option_without_a_value_is_shown():
    with pytest.raises(InputError, match="cannot read the option 'width' in 'pools=2,width'"):
        parse_options("pools=2,width")


def test_settings_that_were_not_given_stay():
    assert adjusted(TRAINING["tiny"], lr=None, epochs=7) == adjusted(TRAINING["tiny"], epochs=7)
    assert adjusted(TRAINING["tiny"], epochs=7).epochs == 7
