"""MN4-semi and DMN4-semi: who is adopted by whom, against plain loops; blocks; gradients."""

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from test_neighbors import described, tied_episodes
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from dmn4.benchmark.heads import Case, contestants
from dmn4.errors import InputError
from dmn4.methods import blocks, build_method, neighbors, threads
from dmn4.methods.adoption import adopt, search_set
from dmn4.methods.descriptors import SupportPool, describe, pool_support
from dmn4.methods.neighbors import RULES, search

BOTH = pytest.mark.parametrize(("name", "rule"), [("mn4-semi", "mnn"), ("dmn4-semi", "dmnn")])


def maps(*images: list[list[float]]) -> Tensor:
    """Images as lists of descriptors: n of (M, C) -> (n, C, 1, M)."""
    return torch.tensor(images, dtype=torch.float64).transpose(1, 2)[:, :, None]


def episode(seed: int = 0, unlabelled: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = 4, 2, unlabelled
    drawn = (torch.randn(n, 3, 2, 2, generator=generator, dtype=torch.float64) for n in sizes)
    support, query, extra = drawn
    return support, torch.tensor([1, 0, 2, 1]), query, extra


def test_a_class_adopts_the_descriptor_that_its_own_one_chooses_back():
    support, labels = maps([[1, 0]], [[0, 1]]), torch.tensor([0, 1])
    unlabelled = maps([[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]])          # the second comes too late to class 0
    pool = build_method("mn4-semi").derive_with(support, labels, unlabelled)
    assert pool.counts == [2, 2]
    assert_close(pool.descriptors, F.normalize(torch.tensor([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]]).double(), dim=1))
    assert pool.rows.tolist() == [0, 2, 1, 4]                            # unlabelled images count on from the support
    assert pool.owner.tolist() == [0, 0, 1, 1]


def test_the_discriminative_rule_adopts_by_tau_and_not_by_similarity():
    support, labels = maps([[1, 0, 0]], [[0.8, 0.6, 0]]), torch.tensor([0, 1])
    near, clear = [1, 0.1, 0], [0.8, -0.6, 0.2]        # near both classes; farther, but from class 1 even more
    unlabelled = maps([near], [clear])
    assert build_method("mn4-semi").derive_with(support, labels, unlabelled).rows.tolist() == [0, 2, 1]
    assert build_method("dmn4-semi").derive_with(support, labels, unlabelled).rows.tolist() == [0, 3, 1]


def loops(support: Tensor, labels: Tensor, query: Tensor, unlabelled: Tensor, rule: str) -> Tensor:
    """The steps of the paper one by one: label the kept descriptors of the whole unlabelled set, then classify."""
    everything = unlabelled.transpose(0, 1).flatten(1)[:, None]                      # (C, 1, U*M), one image
    table, owner = reference.similarity_table(support, labels, everything)
    kept = reference.KEEP[rule](table, owner)
    rows = []
    for image in query:
        own_table, own_owner = reference.similarity_table(support, labels, image)
        columns = list(zip(*own_table, strict=True))
        classes = [[column for column, c in zip(columns, own_owner, strict=True) if c == n]
                   for n in range(owner[-1] + 1)]
        extra, _ = reference.similarity_table(everything[None], torch.tensor([0]), image)
        for place, row in enumerate(table):
            if kept[place]:
                classes[owner[reference.first_largest(row)]].append(tuple(line[place] for line in extra))
        joined = [list(line) for line in zip(*(column for members in classes for column in members), strict=True)]
        joined_owner = [n for n, members in enumerate(classes) for _ in members]
        rows.append(reference.vote_nbnn(joined, joined_owner, reference.KEEP[rule](joined, joined_owner)))
    return torch.tensor(rows, dtype=query.dtype)


@BOTH
@given(seed=st.integers(0, 10**6))
def test_scores_agree_with_plain_loops(name, rule, seed):
    maps = episode(seed)
    assert_close(build_method(name)(*maps), loops(*maps, rule))


@given(tied_episodes(), st.sampled_from(sorted(RULES)), st.sampled_from([1, 100, 1 << 20]))
def test_a_set_is_matched_as_one_image_whatever_the_blocks_and_ties(tied, rule, block):
    images, pool = described(*tied)
    whole = search(images.flatten(0, 1)[None], pool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "CPU_BLOCK", block)
        found = search_set(images, pool, answers=rule == "mnn")
    assert torch.equal(found.chosen, whole.chosen)
    assert torch.equal(found.class_best, whole.class_best)
    assert torch.equal(RULES[rule](found), RULES[rule](whole))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_of_equals_in_different_images_the_first_is_adopted(order, monkeypatch):
    monkeypatch.setattr(blocks, "CPU_BLOCK", 1)                       # every image is a block
    pool = SupportPool(torch.eye(2), [1, 1], torch.arange(2), torch.zeros(2, dtype=torch.long))
    images = torch.tensor([[[0.5, 0.0]], [[0.75, 0.0]], [[0.75, 0.0]]])[order]
    expected = next(image for image in range(3) if images[image, 0, 0] == 0.75)
    assert search_set(images, pool).answered.nonzero()[:, 1].tolist() == [expected]


def test_a_descriptor_that_chose_another_still_stands_in_the_way(monkeypatch):
    monkeypatch.setattr(blocks, "CPU_BLOCK", 1)
    pool = SupportPool(torch.eye(2), [1, 1], torch.arange(2), torch.zeros(2, dtype=torch.long))
    chose_first, chose_second = [[1.0, 0.75]], [[0.25, 0.5]]             # the first is nearer to both
    for images in ([chose_first, chose_second], [chose_second, chose_first]):
        assert search_set(torch.tensor(images), pool).answered[0].tolist() == [image is chose_first for image in images]


def test_no_support_descriptor_adopts_twice_and_classes_grow_by_their_partners():
    support, labels, _, unlabelled = episode(unlabelled=8)
    for rule in RULES:
        pool, described_set = pool_support(support, labels), describe(unlabelled)
        larger = adopt(pool, described_set, RULES[rule])
        assert all(count <= 2 * before for count, before in zip(larger.counts, pool.counts, strict=True))
        assert sum(larger.counts) == len(larger.descriptors) == len(larger.rows) == len(larger.places)
        strangers = larger.rows >= len(support)
        assert_close(larger.descriptors[strangers],
                     described_set[larger.rows[strangers] - len(support), larger.places[strangers]])
        assert_close(larger.descriptors[~strangers], pool.descriptors)


@BOTH
def test_a_copy_of_a_support_image_is_adopted_whole_and_changes_no_score(name, rule):
    support, labels, query, _ = episode()
    method, copy = build_method(name), support[2:3]
    assert method.derive_with(support, labels, copy).counts == [4, 8, 8]         # all four descriptors join class 2
    assert_close(method(support, labels, query, copy), method(support, labels, query))


@BOTH
def test_orthogonal_descriptors_never_beat_a_positive_match(name, rule):
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.rand(4, 3, 2, 2, generator=generator) for _ in range(2))
    support, query, unlabelled = (F.pad(x, (0, 0, 0, 0, *ends)) for x, ends in
                                  ((support, (0, 1)), (query, (0, 1)), (torch.ones(2, 1, 2, 2), (3, 0))))
    labels = torch.tensor([0, 1, 0, 1])
    method = build_method(name)
    assert_close(method(support, labels, query, unlabelled), method(support, labels, query))


@BOTH
def test_no_class_is_padded(name, rule):
    support, labels = maps([[1, 0]], [[0, 1]]), torch.tensor([0, 1])
    query, unlabelled = maps([[-1, -1]]), maps([[2, 0.5]])               # adopted by class 0 alone
    assert build_method(name)(support, labels, query, unlabelled)[0, 1] == pytest.approx(-(0.5**0.5))


@BOTH
@pytest.mark.parametrize("options", [{}, {"shots": "mean"}, {"pyramid": "1"}, {"vote": "log-odds"},
                                     {"centre": "shots"}])
def test_gradients_are_those_of_finite_differences(name, rule, options):
    support, labels, query, unlabelled = episode(3)
    inputs = tuple(x.requires_grad_() for x in (support, query, unlabelled))
    method = build_method(name, **options)
    assert gradcheck(lambda s, q, u: method(s, labels, q, u), inputs)


@BOTH
def test_the_options_of_the_supervised_twin_hold(name, rule):
    support, labels, query, unlabelled = episode()
    assert_close(build_method(name, temperature=4.0)(support, labels, query, unlabelled),
                 build_method(name)(support, labels, query, unlabelled) / 4)
    means = build_method(name, shots="mean").derive_with(support, labels, unlabelled)
    assert means.rows[means.rows >= 3].numel() == sum(means.counts) - 3 * 4          # after the three class means


def test_the_relaxed_rule_adopts_more_than_the_strict_one():
    support, labels, _, unlabelled = episode(unlabelled=20)
    sizes = {rule: sum(build_method("mn4-semi", rule=rule).derive_with(support, labels, unlabelled).counts)
             for rule in ("mnn", "mnn-relaxed")}
    assert sizes["mnn"] <= sizes["mnn-relaxed"]


def test_the_discriminative_rule_needs_two_classes():
    support, labels, query, unlabelled = episode()
    with pytest.raises(InputError, match="the support set holds one"):
        build_method("dmn4-semi")(support, torch.zeros_like(labels), query, unlabelled)


def test_the_benchmark_times_adoption_beside_its_products(monkeypatch):
    made = torch.randn(5, 8, 3, 3), torch.arange(5), torch.randn(7, 8, 3, 3)
    monkeypatch.setattr(Case, "maps", lambda self: made)
    runners = dict(contestants(Case("semi", "conv4", 5, 1, unlabelled=20), ["dn4"]))
    assert list(runners) == ["floor", "mn4-semi", "dmn4-semi"]
    assert int(runners["mn4-semi"]().rows.max()) <= 5 + 20 - 1
    assert min(runners["dmn4-semi"]().counts) > 9


def test_the_similarities_of_a_large_set_are_never_held(monkeypatch):
    rooms = []

    def noted(work, blocks, room):
        rooms.append(room)
        return threads.share_out(work, blocks, room)

    monkeypatch.setattr(neighbors, "share_out", noted)
    monkeypatch.setattr(blocks, "CPU_BLOCK", 4 * 100 * 12)
    images = F.normalize(torch.randn(50, 4, 3), dim=-1)
    pool = pool_support(torch.randn(3, 3, 2, 2), torch.arange(3))
    search_set(images, pool)
    assert len(rooms) == 2                                               # there and back
    assert max(rooms) <= 100 * 12
