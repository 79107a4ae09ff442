"""Many episodes on one search."""

import pytest
import torch
from torch.testing import assert_close

from dmn4.methods import METHODS, build_method
from dmn4.methods.base import compares_descriptors
from dmn4.methods.sharing import can_share, match_pairs, score_shared

OPTIONS = [("dmn4", {}), ("dmn4", {"vote": "log-odds", "temperature": 3.0}), ("dmn4", {"pyramid": "2,1"}), ("dn4", {}),
           ("mn4", {}), ("mn4", {"rule": "mnn-relaxed"}), ("odm", {"share": 0.4})]


def drawn(shots, seed=0, side=3):
    """Maps of 6 x `shots` support and 8 query pictures, and three episodes of 3 ways and 4 queries over them."""
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(6 * shots + 8, 5, side, side, generator=generator, dtype=torch.float64)
    classes = torch.stack([torch.randperm(6, generator=generator)[:3] for _ in range(3)])                   # (E, N)
    support = (classes[:, :, None] * shots + torch.arange(shots)).flatten(1)                                 # (E, N*K)
    query = torch.stack([torch.randperm(8, generator=generator)[:4] for _ in range(3)])                      # (E, q)
    return maps[: 6 * shots], maps[6 * shots :], support, torch.arange(3).repeat_interleave(shots), query


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_episodes_on_one_search_score_and_keep_as_each_does_alone(name, options, shots):
    there, here, support, labels, query = drawn(shots)
    method = build_method(name, **options)
    scores, kept = score_shared(method, match_pairs(method, there, here), support, labels, query)
    for episode in range(3):
        alone = there[support[episode]], labels, here[query[episode]]
        assert_close(scores[episode], method(*alone))
        assert torch.equal(kept[episode], method.kept(*alone))


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_their_gradients_are_the_sum_of_those_of_each_alone(name, options, shots):
    there, here, support, labels, query = drawn(shots, seed=1)
    method, weights = build_method(name, **options), torch.linspace(-1, 1, 3 * 4 * 3, dtype=torch.float64).view(3, 4, 3)
    together = [maps.clone().requires_grad_() for maps in (there, here)]
    (score_shared(method, match_pairs(method, *together), support, labels, query)[0] * weights).sum().backward()
    alone = [maps.clone().requires_grad_() for maps in (there, here)]
    for episode in range(3):
        scores = method(alone[0][support[episode]], labels, alone[1][query[episode]])
        (scores * weights[episode]).sum().backward()
    assert any(maps.grad.any() for maps in alone)
    for ours, theirs in zip(together, alone, strict=True):
        assert_close(ours.grad, theirs.grad)


def test_of_two_equal_partners_the_first_counts_in_a_shared_search_too():
    there, here, support, labels, query = drawn(2)
    there[1::2], here[:] = there[::2], here[:1]               # the second shot is a copy of the first
    method = build_method("mn4")
    _, kept = score_shared(method, match_pairs(method, there, here), support, labels, query)
    assert torch.equal(kept[0], method.kept(there[support[0]], labels, here[query[0]]))


@pytest.mark.parametrize("name", METHODS)
def test_whoever_matches_descriptors_of_labelled_pictures_alone_can_share(name):
    method = build_method(name, channels=5)
    assert can_share(method, 1) == (compares_descriptors(method) and not method.takes_unlabelled)


@pytest.mark.parametrize(("name", "options", "shots"), [("dn4", {"k": 2}, 1), ("dmn4", {"shots": "mean"}, 5),
                                                        ("dmn4", {"centre": "shots"}, 1)])
def test_whoever_needs_the_shots_of_a_class_together_cannot(name, options, shots):
    assert not can_share(build_method(name, **options), shots)
