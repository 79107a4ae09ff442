import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dmn4.errors import InputError
from dmn4.methods import blocks
from dmn4.methods.blocks import Chunk, align, chunks
from dmn4.methods.descriptors import SupportPool, describe, pool_support
from dmn4.methods.neighbors import (
    RULES,
    Matches,
    discriminative_mutual,
    keep_mutual,
    mutual,
    relative_closeness,
    relaxed_mutual,
    search,
    search_several,
)


def by_hand(table: list[list[float]], counts: list[int] | None = None) -> Matches:
    """The matches of one image from its similarities with a pool; the pool is one class unless `counts` says more."""
    similarity = torch.tensor([table])                         # (1, M, S): descriptors that are their cosines
    counts = counts or [similarity.shape[2]]
    size = sum(counts)
    return search(similarity, SupportPool(torch.eye(size), counts, torch.zeros(size), torch.arange(size)))


#         A1    A2    B1    B2
TABLE = [[0.90, 0.10, 0.85, 0.30],
         [0.80, 0.55, 0.20, 0.30],
         [0.10, 0.20, 0.30, 0.60],
         [0.20, 0.50, 0.10, 0.40]]


def test_a_clump_of_sky_counts_once():
    #                   wing  sky       two support descriptors; three query descriptors below
    matches = by_hand([[0.9, 0.1],    # wing
                       [0.1, 0.8],    # sky
                       [0.1, 0.7]])   # more sky
    assert mutual(matches).tolist() == [[True, True, False]]


def test_the_rules_keep_what_the_worked_example_keeps():
    matches = by_hand(TABLE, [2, 2])
    assert matches.chosen.tolist() == [[0, 0, 3, 1]]
    assert relative_closeness(matches.class_best)[0].tolist() == pytest.approx([0.05, 0.50, 0.40, 0.10], abs=1e-6)
    assert mutual(matches).tolist() == [[True, False, True, False]]
    assert relaxed_mutual(matches).tolist() == [[True, False, True, True]]
    assert discriminative_mutual(matches).tolist() == [[False, True, True, True]]


def test_a_tie_for_a_column_goes_to_the_first_row_even_if_that_row_chose_another():
    matches = by_hand([[1.0, 0.5], [0.25, 0.5]])          # row 0 ties with row 1 for column 1, but prefers column 0
    assert mutual(matches).tolist() == [[True, False]]
    assert relaxed_mutual(matches).tolist() == [[True, True]]


def test_equal_similarities_choose_the_first_partner():
    matches = by_hand([[0.5, 0.5, 0.5], [0.25, 0.5, 0.5]], [1, 2])
    assert matches.chosen.tolist() == [[0, 1]]
    assert matches.winner.tolist() == [[0, 1]]


@st.composite
def tied_episodes(draw) -> tuple[Tensor, Tensor, Tensor]:
    """Query and pool descriptors along few axes, scaled by powers of two: cosines with many exact ties."""
    channels, places = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    counts = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    corner = st.tuples(st.integers(0, channels - 1), st.sampled_from([-2.0, -1.0, 0.0, 1.0, 4.0]))

    def descriptors(number: int) -> Tensor:
        rows = torch.zeros(number, channels)
        for row, (channel, value) in zip(rows, draw(st.lists(corner, min_size=number, max_size=number)), strict=True):
            row[channel] = value
        return rows

    owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return torch.stack([descriptors(places) for _ in range(2)]), descriptors(sum(counts)), owner


@given(tied_episodes(), st.sampled_from(sorted(RULES)))
def test_the_rules_agree_with_plain_loops_on_exact_ties(episode, rule):
    query, pool, owner = episode
    unit = torch.nn.functional.normalize
    for image, kept in zip(query, keep_mutual(query, pool, owner, rule), strict=True):
        table = (unit(image, dim=-1) @ unit(pool, dim=-1).T).tolist()
        assert kept.tolist() == reference.KEEP[rule](table, owner.tolist())


@given(st.integers(0, 10**6), st.sampled_from(sorted(RULES)))
def test_the_rules_agree_with_plain_loops(seed, rule):
    generator = torch.Generator().manual_seed(seed)
    query, pool = torch.randn(2, 7, 4, generator=generator), torch.randn(11, 4, generator=generator)
    owner = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3])
    unit = torch.nn.functional.normalize
    for image, kept in zip(query, keep_mutual(query, pool, owner, rule), strict=True):
        table = (unit(image, dim=-1) @ unit(pool, dim=-1).T).tolist()
        assert kept.tolist() == reference.KEEP[rule](table, owner.tolist())


@given(tied_episodes())
def test_strict_is_a_subset_of_relaxed_and_rivals_leave_one_survivor_a_partner(episode):
    query, pool, owner = episode
    kept = {rule: keep_mutual(query, pool, owner, rule) for rule in RULES}
    assert not (kept["mnn"] & ~kept["mnn-relaxed"]).any()
    assert kept["mnn"].any(1).all()
    matches = search(*described(query, pool, owner))
    for image in range(len(query)):
        partners = matches.chosen[image]
        for rule in ("mnn-relaxed", "dmnn"):
            claimed = partners[kept[rule][image]].tolist()
            assert sorted(claimed) == sorted(set(partners.tolist()))


def described(query: Tensor, pool: Tensor, owner: Tensor) -> tuple[Tensor, SupportPool]:
    unit = torch.nn.functional.normalize
    places = torch.arange(len(pool))
    return unit(query, dim=-1), SupportPool(unit(pool, dim=-1), owner.bincount().tolist(), owner, places)


def test_what_partners_choose_back_is_exactly_what_strict_mnn_keeps(episode):
    support, labels, query = episode
    pool, images = pool_support(support, labels), describe(query)
    matches = search(images, pool)
    for image, chosen, kept in zip(images, matches.chosen, mutual(matches), strict=True):
        back = {int((image @ pool.descriptors[place]).argmax()) for place in chosen[kept]}      # supplement, step 5
        assert back == set(kept.nonzero().squeeze(1).tolist())


@pytest.mark.parametrize("block", [1, 300, 5000, 1 << 20])
def test_the_size_of_a_block_changes_nothing(episode, monkeypatch, block):
    support, labels, query = episode
    images, pool = describe(query.double()), pool_support(support.double(), labels)
    whole = search(images, pool)
    monkeypatch.setattr(blocks, "CPU_BLOCK", block)
    parts = search(images, pool)
    torch.testing.assert_close(parts.class_best, whole.class_best)
    assert torch.equal(parts.partner, whole.partner)
    assert torch.equal(parts.answered, whole.answered)


def test_fields_nobody_asked_for_stay_empty_and_the_rest_is_the_same(episode):
    support, labels, query = episode
    images, pool = describe(query), pool_support(support, labels)
    values = search(images, pool, partners=False, answers=False)
    assert values.partner.numel() == values.answered.numel() == 0
    whole = search(images, pool)
    torch.testing.assert_close(values.class_best, whole.class_best)
    unanswered = search(images, pool, answers=False)
    assert unanswered.answered.numel() == 0
    assert torch.equal(unanswered.chosen, whole.chosen)


def test_the_pool_is_cut_into_runs_of_equal_classes():
    runs = [Chunk(2, 3, 0), Chunk(1, 3, 6), Chunk(2, 2, 9), Chunk(1, 5, 13)]
    assert list(chunks([3, 3, 3, 2, 2, 5], columns=6)) == runs
    assert list(chunks([7], columns=2)) == [Chunk(1, 7, 0)]
    assert Chunk(2, 2, 9).starts(torch.device("cpu")).tolist() == [9, 11]


def test_filling_up_cache_lines_changes_nothing_even_among_equals():
    counts, generator = [352, 361, 400], torch.Generator().manual_seed(0)
    descriptors = torch.randint(0, 2, (sum(counts), 4), generator=generator).float()         # full of ties
    pool = SupportPool(descriptors, counts, torch.zeros(sum(counts)), torch.arange(sum(counts)))
    wide, stands_for = align(pool, 270)
    assert wide.counts == [352, 368, 400]
    assert torch.equal(wide.descriptors, descriptors[stands_for])
    assert stands_for[-408:-400].tolist() == [712] * 8                   # the last of the second class, and its copies
    images = torch.randint(0, 2, (30, 9, 4), generator=generator).float()
    similarity = images @ descriptors.T
    matches = search(images, pool)
    each = [part.max(-1) for part in similarity.split(counts, dim=-1)]
    assert torch.equal(matches.class_best, torch.stack([best.values for best in each], -1))
    assert torch.equal(matches.chosen, torch.from_numpy(similarity.numpy().argmax(-1)))
    back = torch.from_numpy(similarity.numpy().argmax(1)).gather(1, matches.chosen)
    assert torch.equal(matches.answered, back == torch.arange(9))


def test_a_small_class_is_not_filled_up():
    pool = SupportPool(torch.eye(25), [25], torch.zeros(25), torch.arange(25))
    assert align(pool, 270)[0].counts == [25]


def test_for_few_rows_the_pool_is_not_copied():
    pool = SupportPool(torch.eye(361), [361], torch.zeros(361), torch.arange(361))
    assert align(pool, 49)[0] is pool
    assert align(pool, 270)[0].counts == [368]


def test_several_neighbours_come_nearest_first_and_once_each(episode):
    support, labels, query = episode
    images, pool = describe(query), pool_support(support, labels)
    cosines, places = search_several(images, pool, 3)
    assert (cosines.diff(dim=-1) <= 0).all()
    torch.testing.assert_close(cosines, torch.einsum("qmc,qmnkc->qmnk", images, pool.descriptors[places]))
    assert torch.equal(pool.owner[places[0, 0]], torch.arange(3)[:, None].expand(3, 3))
    assert len(set(places[0, 0].flatten().tolist())) == 9


def test_relative_closeness_needs_two_classes():
    with pytest.raises(InputError, match="the support set holds one"):
        relative_closeness(torch.ones(1, 3, 1))


@pytest.mark.parametrize(("query", "pool", "owner", "message"), [
    (torch.ones(1, 2, 3), torch.ones(2, 4), torch.tensor([0, 1]), r"shape \(1, 2, 3\), the pool \(2, 4\)"),
    (torch.ones(1, 2, 3), torch.ones(2, 3), torch.tensor([1, 0]), "not class-major"),
    (torch.ones(1, 2, 3), torch.ones(2, 3), torch.tensor([0, 2]), "class 1 has no descriptor"),
    (torch.ones(1, 2, 3), torch.ones(2, 3), torch.tensor([0.0, 1.0]), "owner has shape"),
    (torch.full((1, 2, 3), torch.nan), torch.ones(2, 3), torch.tensor([0, 1]), "query descriptors hold NaN"),
])
def test_wrong_descriptors_are_named(query, pool, owner, message):
    with pytest.raises(InputError, match=message):
        keep_mutual(query, pool, owner, "mnn")


def test_an_unknown_rule_is_named():
    with pytest.raises(InputError, match="unknown rule 'best'; choose one of mnn, mnn-relaxed, dmnn"):
        keep_mutual(torch.ones(1, 2, 3), torch.ones(2, 3), torch.tensor([0, 1]), "best")
