import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from dmn4.errors import InputError
from dmn4.methods.dn4 import DN4
from dmn4.methods.frn import FRN
from dmn4.methods.heads import (
    ArcHead,
    CosineHead,
    ImageToClassHead,
    LinearHead,
    MarginHead,
    ReconstructionHead,
    arc_logits,
    fresh_weights,
    margin_logits,
)

HEADS = {"linear": LinearHead, "cosine": CosineHead, "margin": MarginHead, "arc": ArcHead}


def test_a_negative_margin_raises_the_true_logit():
    logits = margin_logits(torch.tensor([[0.5, 0.1]]), torch.tensor([0]), margin=-0.02, scale=30)
    assert_close(logits, torch.tensor([[15.6, 3.0]]))


def test_an_angular_margin_turns_the_true_class_away():
    logits = arc_logits(torch.tensor([[0.5, 0.5]]), torch.tensor([0]), margin=0.01, scale=1)
    assert_close(logits, torch.tensor([[0.491315, 0.5]]), atol=1e-6, rtol=0)


def test_an_angular_margin_leaves_a_negative_cosine_alone():
    logits = arc_logits(torch.tensor([[-0.5, 0.2]]), torch.tensor([0]), margin=0.3, scale=2)
    assert_close(logits, torch.tensor([[-1.0, 0.4]]))


def test_an_angular_margin_has_a_finite_slope_at_cosine_one():
    cosine = torch.tensor([[1.0, 0.0]], requires_grad=True)
    arc_logits(cosine, torch.tensor([0]), margin=0.01, scale=20).sum().backward()
    assert cosine.grad.isfinite().all()


@pytest.mark.parametrize("form", ["cosine", "softmax"])
def test_without_a_margin_labels_make_no_difference(form):
    head = MarginHead(4, 3, margin=0, scale=7, form=form)
    rows, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    assert_close(head(rows, labels), head(rows))


def test_a_margin_head_without_a_margin_is_a_cosine_head():
    margin, cosine = MarginHead(4, 3, margin=0, scale=7), CosineHead(4, 3, scale=7)
    cosine.load_state_dict({"weight": margin.weight, "scale": torch.tensor(7.0)})
    rows = torch.randn(5, 4)
    assert_close(margin(rows, torch.tensor([0, 1, 2, 0, 1])), cosine(rows))


def test_the_softmax_form_counts_from_the_smallest_output_of_a_row():
    head = MarginHead(2, 3, margin=-0.1, scale=10, form="softmax")
    head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert_close(head(torch.tensor([[2.0, 3.0]]), torch.tensor([1])), torch.tensor([[40.0, 51.0, 0.0]]))


def test_an_unknown_form_is_named():
    with pytest.raises(InputError, match="unknown form of the margin head 'arc'; choose one of cosine, softmax"):
        MarginHead(2, 3, form="arc")


@pytest.mark.parametrize("name", HEADS)
def test_a_location_is_classified_like_a_vector(name):
    head = HEADS[name](4, 3)
    locations, labels = torch.randn(2, 5, 4), torch.tensor([[0] * 5, [2] * 5])
    dense = head(locations, labels)
    assert dense.shape == (2, 5, 3)
    assert_close(dense[1, 3], head(locations[1, 3:4], labels[1, 3:4])[0])


@pytest.mark.parametrize("name", HEADS)
def test_a_head_learns_three_separable_classes(name):
    torch.manual_seed(0)
    head, rows, labels = HEADS[name](3, 3), torch.eye(3).repeat(4, 1), torch.arange(3).repeat(4)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        losses.append(F.cross_entropy(head(rows, labels), labels))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_the_scale_of_a_cosine_head_is_learnt_only_if_asked():
    assert CosineHead(4, 3).scale.requires_grad
    assert not CosineHead(4, 3, learn_scale=False).scale.requires_grad


def test_fresh_weights_know_neither_names_nor_the_order_of_shots():
    rows, labels = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 2])
    weights = fresh_weights(rows, labels, 0.5, torch.Generator().manual_seed(3))
    names, order = torch.tensor([2, 0, 1]), torch.tensor([3, 1, 2, 0])
    again = fresh_weights(rows[order], names[labels[order]], 0.5, torch.Generator().manual_seed(3))
    assert torch.equal(again[names], weights)
    assert not torch.equal(again, weights)


def test_fresh_weights_fill_their_bound():
    weights = fresh_weights(torch.randn(50, 100), torch.arange(50), 0.25, torch.Generator().manual_seed(0))
    assert 0.249 < weights.abs().max() <= 0.25
    assert math.isclose(weights.mean(), 0, abs_tol=0.01)


def test_the_head_of_frn_is_frn_with_learnt_supports():
    head, maps = ReconstructionHead(6, 3, 4).double(), torch.randn(2, 6, 2, 2, dtype=torch.float64)
    frn = FRN(scaling="none").double()
    rows = maps.flatten(2).mT
    expected = torch.stack([-frn.error(support, rows / 6**0.5) for support in head.supports], 1)
    assert_close(head(rows), expected)
    assert ReconstructionHead(6, 3, 9)(rows.float()).shape == (2, 3)      # any number of learnt descriptors


def test_the_head_of_nearest_neighbours_is_dn4_with_learnt_supports():
    head, maps = ImageToClassHead(6, 3, owned=4, scale=20).double(), torch.randn(2, 6, 3, 3, dtype=torch.float64)
    supports = head.weight.mT.unflatten(2, (2, 2))                        # (n, C, 2, 2): the owned four as a map
    expected = DN4()(supports, torch.arange(3), maps)  # summed over nine places
    assert_close(head(maps.flatten(2).mT), 20 / 9 * expected)
