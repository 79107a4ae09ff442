"""dmn4-linear: two views of a map in one score, and each place's exact share of it."""

import pytest
import torch
from torch import Tensor

from dmn4.errors import InputError
from dmn4.methods import build_method
from dmn4.methods.linear_head import FEW, block_unit, fit_head


def drawn(ways: int = 3, shots: int = 4, channels: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(ways).repeat_interleave(shots)
    centres = torch.randn(ways, channels, 3, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels) + 5, channels, 3, 3, generator=generator, dtype=torch.float64)
    maps = torch.cat([centres[labels], centres[torch.arange(5) % ways]]) + noise
    return maps[:-5], labels, maps[-5:]


def discriminants(means: Tensor, labels: Tensor, query: Tensor, prior: float) -> Tensor:
    """The scores by their definition: the shrunken covariance, inverted."""
    centre = torch.stack([means[labels == c].mean(0) for c in range(3)]).mean(0) * len(means) / (len(means) + FEW)
    rows, asked = ((x - centre) / (x - centre).norm(dim=1, keepdim=True) for x in (means, query))
    rows, asked = rows - rows.mean(0), asked - rows.mean(0)
    middles = torch.stack([rows[labels == c].mean(0) for c in range(3)])
    residuals = rows - middles[labels]
    variance = (rows - rows.mean(0)).square().mean()
    count, channels = len(rows) - 3, rows.shape[1]
    covariance = (residuals.T @ residuals + prior * variance * torch.eye(channels).double()) / (count + prior)
    weight = variance * torch.linalg.inv(covariance) @ middles.T
    return asked @ weight - (middles.T * weight).sum(0) / 2


@pytest.mark.parametrize(("shots", "channels"), [(4, 6), (2, 40), (1, 6)])   # either system, and nothing within a class
def test_the_head_is_the_discriminant_of_a_shrunken_covariance(shots, channels):
    support, labels, query = drawn(3, shots, channels)
    means, asked = support.mean((2, 3)), query.mean((2, 3))
    for prior in (1.0, 100.0):
        scores = fit_head(means, labels, [channels], prior).scores(asked)
        torch.testing.assert_close(scores, discriminants(means, labels, asked, prior))


def test_blocks_weigh_the_same_whatever_their_scale():
    rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    louder = rows * torch.tensor([1, 1, 1, 9, 9, 9, 9])
    torch.testing.assert_close(block_unit(rows, [3, 4]), block_unit(louder, [3, 4]))
    torch.testing.assert_close(block_unit(rows, [3, 4]).norm(dim=1), torch.ones(5))


@pytest.mark.parametrize("compared", [0, 4])
def test_votes_and_shares_of_all_places_add_up_to_the_score(compared):
    support, labels, query = drawn()
    method = build_method("dmn4-linear", compared=compared, temperature=0.5)
    pool = method.derive(support, labels)
    votes = build_method("dmn4", vote="log-odds", temperature=0.5)(
        support[:, :compared or 6], labels, query[:, :compared or 6]) / 9
    torch.testing.assert_close(votes + method.shares(pool, query).sum(1), method(support, labels, query))


def test_without_its_head_it_is_the_mean_vote():
    support, labels, query = drawn()
    votes = build_method("dmn4", vote="log-odds")(support, labels, query)
    torch.testing.assert_close(build_method("dmn4-linear", linear=0)(support, labels, query), votes / 9)


def test_identical_pictures_in_two_classes_give_finite_equal_scores():
    support, _, query = drawn()
    same = support[:1].expand(2, -1, -1, -1)
    scores = build_method("dmn4-linear")(same, torch.tensor([0, 1]), query)
    assert scores.isfinite().all()
    torch.testing.assert_close(scores[:, 0], scores[:, 1])


def test_more_compared_channels_than_there_are_is_said():
    support, labels, query = drawn()
    with pytest.raises(InputError, match="compared is 7, but the maps have 6 channels"):
        build_method("dmn4-linear", compared=7)(support, labels, query)
