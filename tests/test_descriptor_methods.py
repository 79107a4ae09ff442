"""DN4, MN4, DMN4, ODM, MCL and the votes: worked numbers, plain loops, gradients."""

import inspect

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from test_neighbors import TABLE, by_hand
from toy_episodes import train_on_stream

from dmn4.errors import InputError
from dmn4.methods import METHODS, base, build_method, neighbors
from dmn4.methods import together as ablation
from dmn4.methods.base import DescriptorMethod
from dmn4.methods.mcl import katz
from dmn4.methods.together import score_together
from dmn4.methods.voting import log_odds, nbnn, rank


def options_of(name: str) -> set[str]:
    return set(inspect.signature(METHODS[name]).parameters)


# The head of dmn4-linear trusts the mean of few pictures only in part, so what all have in common moves its scores.
CENTRED = [name for name in METHODS if "centre" in options_of(name) and "linear" not in name]
RULES = [("dn4", {}, "all"), ("mn4", {}, "mnn"), ("mn4", {"rule": "mnn-relaxed"}, "mnn-relaxed"), ("dmn4", {}, "dmnn")]


@pytest.mark.parametrize(("name", "options", "scores", "counts"), [
    ("dn4", {}, (2.40, 2.15), (3, 1)),
    ("mn4", {}, (1.10, 1.45), (1, 1)),
    ("mn4", {"rule": "mnn-relaxed"}, (1.60, 1.85), (2, 1)),
    ("dmn4", {}, (1.50, 1.30), (2, 1)),
    ("odm", {"share": 0.5}, (1.00, 0.90), (1, 1)),
])
def test_the_worked_example_to_the_digit(name, options, scores, counts):
    matches = by_hand(TABLE, [2, 2])
    kept = build_method(name, **options).keep(matches)
    assert nbnn(matches.class_best, kept)[0].tolist() == pytest.approx(scores, abs=1e-6)
    assert rank(matches.class_best, kept)[0].floor().tolist() == list(counts)


def test_log_odds_of_the_worked_example():
    matches = by_hand(TABLE, [2, 2])
    everything = torch.ones(1, 4, dtype=torch.bool)
    assert log_odds(matches.class_best, everything)[0].tolist() == pytest.approx([0.25, -0.25], abs=1e-6)


def test_equal_ranks_are_ordered_by_the_summed_cosines():
    matches = by_hand(TABLE, [2, 2])
    kept = torch.tensor([[True, False, True, False]])                  # one vote each; 1.10 against 1.45
    assert rank(matches.class_best, kept)[0].tolist() == [1.0, 1.25]


@pytest.mark.parametrize(("alpha", "share"), [(0.5, 0.655839), (0.999, 0.781338)])
def test_katz_centralities_of_the_worked_example(alpha, share):
    similarity = torch.tensor(TABLE, dtype=torch.float64)
    centrality = katz(similarity[None], 20, 10, alpha)[0]
    torch.testing.assert_close(centrality, reference.katz_full(similarity, 20, 10, alpha))
    assert float(centrality[:2].sum() / centrality.sum()) == pytest.approx(share, abs=1e-6)
    if alpha == 0.5:
        shares = (centrality / centrality.sum()).tolist()
        assert shares == pytest.approx([0.499294, 0.156545, 0.095666, 0.248495], abs=1e-6)


def test_mcl_with_one_query_descriptor_is_a_softmax_of_cosines():
    support = torch.tensor([[0.9, 19**0.5 / 10], [0.8, 0.6]])[:, :, None, None]
    scores = build_method("mcl")(support, torch.tensor([0, 1]), torch.tensor([[1.0, 0.0]])[:, :, None, None])
    assert scores.exp()[0].tolist() == pytest.approx([0.880797, 0.119203], abs=1e-5)


@given(st.integers(0, 10**6), st.sampled_from(RULES), st.sampled_from(["nbnn", "log-odds", "rank"]))
def test_scores_agree_with_plain_loops(seed, rule, vote):
    name, options, keep = rule
    support, labels, query = random_episode(seed)
    keeps = {"all": reference.keep_all, **reference.KEEP}
    expected = reference.scores(support, labels, query, keeps[keep], reference.VOTE[vote])
    torch.testing.assert_close(build_method(name, vote=vote, **options)(support, labels, query), expected)


def random_episode(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor([1, 0, 2, 1])
    draw = {"generator": generator, "dtype": torch.float64}
    return torch.randn(4, 3, 2, 2, **draw), labels, torch.randn(2, 3, 2, 2, **draw)


@given(st.integers(0, 10**6), st.sampled_from(RULES))
def test_centred_scores_are_those_of_maps_without_their_mean(seed, rule):
    name, options, keep = rule
    support, labels, query = random_episode(seed)
    mean = reference.mean_descriptor(support, labels)[:, None, None]
    keeps = {"all": reference.keep_all, **reference.KEEP}
    expected = reference.scores(support - mean, labels, query - mean, keeps[keep], reference.vote_nbnn)
    torch.testing.assert_close(build_method(name, centre="shots", **options)(support, labels, query), expected)


@given(st.integers(0, 10**6), st.sampled_from(CENTRED))
def test_centred_scores_do_not_see_what_all_pictures_have_in_common(seed, name):
    support, labels, query = random_episode(seed)
    common = torch.randn(3, 1, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    method = build_method(name, centre="shots")
    torch.testing.assert_close(method(support + common, labels, query + common), method(support, labels, query))


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_mining_keeps_the_top_share_as_plain_loops_do(seed, share):
    support, labels, query = random_episode(seed)
    expected = reference.scores(support, labels, query, lambda table, owner: reference.keep_top(table, owner, share),
                                reference.vote_nbnn)
    torch.testing.assert_close(build_method("odm", share=share)(support, labels, query), expected)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_dn4_sums_the_k_nearest_of_each_class(k):
    support, labels, query = random_episode(0)
    expected = reference.nearest_sum(support, labels, query, k)
    torch.testing.assert_close(build_method("dn4", k=k)(support, labels, query), expected)


def test_dn4_with_a_support_image_as_query_scores_one_a_descriptor(episode):
    support, labels, _ = episode
    scores = build_method("dn4")(support, labels, support)
    torch.testing.assert_close(scores[torch.arange(6), labels], torch.full((6,), 12.0))


@pytest.mark.parametrize(("name", "options", "rule"), RULES)
def test_gradients_equal_those_through_the_dense_similarities(name, options, rule):
    generator = torch.Generator().manual_seed(3)
    draw = {"generator": generator, "dtype": torch.float64}
    support, query = torch.randn(6, 5, 3, 3, **draw), torch.randn(4, 5, 3, 3, **draw)
    labels, targets = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([0, 1, 2, 0])

    def gradients(scores_of) -> tuple[torch.Tensor, ...]:
        maps = support.clone().requires_grad_(), query.clone().requires_grad_()
        return torch.autograd.grad(F.cross_entropy(scores_of(*maps), targets), maps)

    ours = gradients(lambda s, q: build_method(name, **options)(s, labels, q))
    dense = gradients(lambda s, q: reference.dense_scores(s, labels, q, rule))
    torch.testing.assert_close(ours, dense, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"name": "dn4"}, {"name": "dn4", "k": 3}, {"name": "mn4"}, {"name": "dmn4"},
                                     {"name": "dmn4", "vote": "log-odds"}, {"name": "dmn4", "shots": "mean"},
                                     {"name": "odm"}, {"name": "mcl"}, {"name": "dmn4", "pyramid": "2,1"},
                                     {"name": "dmn4", "centre": "shots"}])
def test_gradients_are_those_of_finite_differences(options):
    generator = torch.Generator().manual_seed(4)
    support, query = (torch.randn(n, 3, 2, 3, generator=generator, dtype=torch.float64) for n in (4, 2))
    labels, method = torch.tensor([1, 0, 1, 0]), build_method(**options)
    inputs = (support.requires_grad_(), query.requires_grad_())
    assert torch.autograd.gradcheck(lambda s, q: method(s, labels, q), inputs)


def test_several_rules_and_votes_share_a_search_and_score_as_alone(episode):
    support, labels, query = episode
    variants: dict[str, DescriptorMethod] = {
        f"{name} {vote} {options}": build_method(name, vote=vote, **options)
        for vote in ("nbnn", "log-odds", "rank")
        for name, options in [("dn4", {}), ("mn4", {}), ("mn4", {"rule": "mnn-relaxed"}), ("dmn4", {}),
                              ("odm", {"share": 0.3}), ("dmn4", {"shots": "mean"}), ("dn4", {"k": 2}),
                              ("dmn4", {"pyramid": "1"}), ("dmn4", {"centre": "shots"}),
                              ("mn4", {"centre": "shots"})]
    }
    together = score_together(support, labels, query, variants)
    assert list(together) == list(variants)
    for name, method in variants.items():
        torch.testing.assert_close(together[name], method(support, labels, query))


def test_one_search_serves_every_variant_that_can_share_it(episode, monkeypatch):
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments)
        return neighbors.search(*arguments, **options)

    monkeypatch.setattr(ablation, "search", counted)
    score_together(*episode, {name: build_method(name) for name in ("dn4", "mn4", "dmn4", "odm")})
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["dn4", "mn4", "dmn4", "odm", "mcl"])
def test_the_loss_goes_down(name):
    before, after = train_on_stream(build_method(name), episodes=80, rate=0.05)
    assert after < 0.9 * before


def test_temperature_divides_the_scores(episode):
    torch.testing.assert_close(build_method("dmn4", temperature=4.0)(*episode), build_method("dmn4")(*episode) / 4)


def test_thousands_of_ways_are_streamed_with_the_same_scores(episode, monkeypatch):
    whole = build_method("mn4")(*episode)
    monkeypatch.setattr(base, "MATCHES_BYTES", 1)
    torch.testing.assert_close(build_method("mn4")(*episode), whole)


def test_support_and_query_maps_may_differ_in_size(episode):
    support, labels, query = episode
    assert build_method("dmn4")(support, labels, query[:, :, :2]).shape == (4, 3)


def test_random_descriptors_keep_the_shares_that_are_known():
    generator = torch.Generator().manual_seed(0)
    support, query = torch.randn(5, 64, 19, 19, generator=generator), torch.randn(3, 64, 19, 19, generator=generator)
    labels = torch.arange(5)
    share = {rule: float(build_method("mn4", rule=rule).kept(support, labels, query).float().mean())
             for rule in ("mnn", "mnn-relaxed")}
    assert share["mnn"] == pytest.approx(0.825, abs=0.02)
    assert share["mnn-relaxed"] == pytest.approx(0.904, abs=0.02)


@pytest.mark.parametrize(("name", "options", "message"), [
    ("dn4", {"k": 0}, "k is 0"), ("odm", {"share": 0.0}, "share is 0.0"), ("odm", {"share": 1.5}, "share is 1.5"),
    ("dmn4", {"vote": "loud"}, "unknown vote 'loud'"), ("dmn4", {"shots": "max"}, "unknown shots 'max'"),
    ("dmn4", {"centre": "all"}, "unknown centre 'all'"),
    ("dmn4", {"temperature": 0.0}, "temperature is 0.0"), ("mn4", {"rule": "nn"}, "unknown rule 'nn'"),
    ("mcl", {"alpha": 1.0}, "alpha is 1.0"), ("dmn4", {"share": 0.2}, "method 'dmn4' has no option 'share'"),
    ("dmn4", {"temperature": "hot"}, "temperature of method 'dmn4' is 'hot'; a number is needed"),
    ("dmn5", {}, "unknown method 'dmn5'; choose one of dn4, mn4, dmn4"),
])
def test_wrong_options_are_named(name, options, message):
    with pytest.raises(InputError, match=message):
        build_method(name, **options)


def test_more_neighbours_than_a_class_has_are_refused(episode):
    with pytest.raises(InputError, match="k is 13, but a class has 12 support descriptors"):
        build_method("dn4", k=13)(*episode)


@pytest.mark.parametrize("options", [{"name": "dmn4"}, {"name": "odm"}, {"name": "dn4", "vote": "log-odds"}])
def test_a_comparison_of_classes_needs_two(options):
    maps = torch.randn(2, 3, 2, 2)
    with pytest.raises(InputError, match="the support set holds one"):
        build_method(**options)(maps, torch.tensor([0, 0]), maps)
