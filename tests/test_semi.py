"""What every semi-supervised method promises: without unlabelled maps it is its twin, and order does not matter."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods import METHODS, build_method
from dmn4.methods.base import Method
from dmn4.methods.semi import SemiMethod

NAMES = pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, SemiMethod)])
TWINS = {"pn-semi": ("protonet", {"vector": "flat"}), "pn-semi-masked": ("protonet", {"vector": "flat"}),
         "dsn-semi": ("dsn", {}), "mn4-semi": ("mn4", {}), "dmn4-semi": ("dmn4", {})}


def build(name: str) -> Method:
    """The method with seeded layers, in float64 and evaluation mode."""
    torch.manual_seed(0)
    return build_method(name, channels=6).double().eval()


def with_unlabelled(images: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """An episode of three classes with uneven shots, in float64, and unlabelled maps."""
    support, labels, query = random_episode()
    generator = torch.Generator().manual_seed(1)
    return support, labels, query, torch.randn(images, *support.shape[1:], generator=generator, dtype=torch.float64)


def test_the_semi_supervised_methods_come_last_in_their_order():
    assert list(METHODS)[-7:] == ["pn-semi", "pn-semi-masked", "tpn-semi", "dsn-semi", "mn4-semi", "dmn4-semi",
                                  "dmn4-linear-semi"]


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_unlabelled_maps_it_is_its_supervised_twin_to_the_last_bit(name, dtype):
    support, labels, query = random_episode(shots=(5, 1, 3))
    support, query = support.to(dtype), query.to(dtype)
    twin, options = TWINS[name]
    expected = build_method(twin, channels=6, **options)(support, labels, query)
    method = build(name).to(dtype)
    assert torch.equal(method(support, labels, query), expected)
    assert torch.equal(method(support, labels, query, unlabelled=None), expected)
    assert torch.equal(method(support, labels, query, unlabelled=support[:0]), expected)


@NAMES
def test_unlabelled_maps_change_the_scores(name):
    support, labels, query, unlabelled = with_unlabelled()
    method = build(name)
    scores = method(support, labels, query, unlabelled=unlabelled)
    assert scores.shape == (4, 3)
    assert scores.isfinite().all()
    assert not torch.equal(scores, method(support, labels, query))


@NAMES
def test_the_order_of_unlabelled_images_and_of_shots_does_not_matter(name):
    support, labels, query, unlabelled = with_unlabelled()
    method, order = build(name), torch.tensor([3, 0, 5, 1, 4, 2])
    scores = method(support, labels, query, unlabelled)
    assert_close(method(support, labels, query, unlabelled.flip(0)), scores)
    assert_close(method(support[order], labels[order], query, unlabelled), scores)


@NAMES
def test_renaming_the_classes_permutes_the_scores(name):
    support, labels, query, unlabelled = with_unlabelled()
    method, names = build(name), torch.tensor([2, 0, 1])
    renamed = method(support, names[labels], query, unlabelled)
    assert_close(renamed[:, names], method(support, labels, query, unlabelled))


@NAMES
def test_a_query_is_scored_the_same_alone_or_in_a_batch(name):
    support, labels, query, unlabelled = with_unlabelled()
    method = build(name)
    assert_close(method(support, labels, query[1:2], unlabelled), method(support, labels, query, unlabelled)[1:2])


@NAMES
def test_unlabelled_maps_carry_gradients(name):
    support, labels, query, unlabelled = with_unlabelled()
    unlabelled.requires_grad_()
    (gradient,) = torch.autograd.grad(build(name)(support, labels, query, unlabelled)[:, 0].sum(), unlabelled)
    assert gradient.isfinite().all()
    assert gradient.any()


class Watching(nn.Module):
    """A method that is given the queries as unlabelled maps."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method, self.auxiliary = method, method.auxiliary

    def forward(self, support: torch.Tensor, labels: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return self.method(support, labels, query, unlabelled=query)


@NAMES
def test_the_loss_falls_on_a_stream_of_episodes(name):
    torch.manual_seed(0)
    before, after = train_on_stream(Watching(build_method(name, channels=6)), shots=3)
    assert after < 0.9 * before


@NAMES
def test_labels_may_be_small_integers(name):
    support, labels, query, unlabelled = with_unlabelled()
    method = build(name)
    assert_close(method(support, labels.int(), query, unlabelled), method(support, labels, query, unlabelled))


@NAMES
def test_unlabelled_maps_of_another_kind_are_refused(name):
    support, labels, query, unlabelled = with_unlabelled()
    method = build(name)
    with pytest.raises(InputError, match="support maps are 6 x 2 x 2, unlabelled maps 5 x 2 x 2: they must be alike"):
        method(support, labels, query, unlabelled[:, :5])
    with pytest.raises(InputError, match="unlabelled maps 6 x 2 x 1: they must be alike"):
        method(support, labels, query, unlabelled[..., :1])
    with pytest.raises(InputError, match=r"unlabelled maps have shape \(6, 2, 2\)"):
        method(support, labels, query, unlabelled[0])
    unlabelled[3, 0, 0, 0] = torch.nan
    with pytest.raises(InputError, match="unlabelled map 3 holds NaN"):
        method(support, labels, query, unlabelled)


@NAMES
def test_what_is_wrong_with_the_labelled_maps_is_still_named(name):
    support, labels, query, unlabelled = with_unlabelled()
    with pytest.raises(InputError, match="class 2 has no support image"):
        build(name)(support, labels.where(labels != 2, torch.tensor(4)), query, unlabelled)
