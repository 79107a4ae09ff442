"""Episodes are fair, uneven where asked, and the same whoever draws them."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dmn4.episodes.sampling import no_reuse_epoch, sample_episodes, split_labelled
from dmn4.errors import InputError

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(8), np.arange(20, 28)))        # mixed, uneven


def members(episode) -> list[int]:
    """Every picture of an episode."""
    return torch.cat([episode.support, episode.query, episode.unlabelled]).tolist()


def same(one, other) -> bool:
    fields = ("support", "support_labels", "query", "query_labels", "unlabelled")
    return one.classes == other.classes and one.number == other.number and all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in fields)


def test_an_episode_is_class_major_with_k_shots_and_q_queries():
    (episode,) = sample_episodes(LABELS, ways=3, shots=2, queries=4, episodes=1)
    assert episode.support_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert episode.query_labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert LABELS[episode.support].tolist() == np.repeat(episode.classes, 2).tolist()
    assert LABELS[episode.query].tolist() == np.repeat(episode.classes, 4).tolist()
    assert episode.unlabelled.numel() == 0


@given(ways=st.integers(1, 6), low=st.integers(1, 4), more=st.integers(0, 3), queries=st.integers(0, 5),
       unlabelled=st.integers(0, 4), distractors=st.integers(0, 2), masked=st.booleans(), seed=st.integers(0, 9))
def test_no_picture_occurs_twice_in_an_episode(ways, low, more, queries, unlabelled, distractors, masked, seed):
    labelled = split_labelled(LABELS, 0.7, seed) if masked else None
    for episode in sample_episodes(LABELS, ways, (low, low + more), queries, episodes=3, seed=seed,
                                   unlabelled=unlabelled, distractors=distractors, labelled=labelled):
        assert len(set(members(episode))) == len(members(episode))
        assert len(set(episode.classes)) == ways
        assert np.array_equal(np.array(episode.classes)[episode.support_labels], LABELS[episode.support])
        assert np.array_equal(np.array(episode.classes)[episode.query_labels], LABELS[episode.query])
        counts = episode.support_labels.bincount(minlength=ways)
        assert low <= counts.min() <= counts.max() <= low + more
        assert len(episode.unlabelled) == (ways + distractors) * unlabelled


def test_a_range_of_shots_gives_uneven_classes():
    counts = [tuple(episode.support_labels.bincount().tolist())
              for episode in sample_episodes(LABELS, shots=(1, 3), queries=2, episodes=30)]
    assert {shot for shots in counts for shot in shots} == {1, 2, 3}
    assert any(len(set(shots)) > 1 for shots in counts)


def test_episode_i_is_the_same_whoever_draws_it():
    alone = list(sample_episodes(LABELS, episodes=12, queries=3, seed=7, unlabelled=2))
    shared = [list(sample_episodes(LABELS, episodes=4, queries=3, seed=7, unlabelled=2, start=rank, step=3))
              for rank in range(3)]
    for index, episode in enumerate(alone):
        assert same(episode, shared[index % 3][index // 3])
    resumed = next(sample_episodes(LABELS, episodes=1, queries=3, seed=7, unlabelled=2, start=9))
    assert same(resumed, alone[9])


def test_another_seed_or_number_is_another_episode():
    first, second = sample_episodes(LABELS, episodes=2)
    (other,) = sample_episodes(LABELS, episodes=1, seed=1)
    assert not torch.equal(first.query, second.query)
    assert not torch.equal(first.query, other.query)


def test_drawing_does_not_touch_the_random_state_of_the_process():
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    list(sample_episodes(LABELS, episodes=3))
    assert torch.equal(torch.rand(1), before)


def test_every_class_and_picture_is_drawn_about_equally_often():
    labels = np.repeat(np.arange(6), 10)
    drawn = list(sample_episodes(labels, ways=3, shots=1, queries=4, episodes=1200))
    classes = np.bincount([label for episode in drawn for label in episode.classes], minlength=6)
    pictures = np.bincount([place for episode in drawn for place in members(episode)], minlength=60)
    assert np.abs(classes - 600).max() < 100                       # 600 expected, 17 standard deviation
    assert np.abs(pictures - 300).max() < 90


def test_labels_may_be_tensors_lists_and_numbers_with_gaps():
    for labels in ([3, 9, 3, 9], torch.tensor([3, 9, 3, 9])):
        (episode,) = sample_episodes(labels, ways=2, shots=1, queries=1, episodes=1)
        assert sorted(episode.classes) == [3, 9]


# ------------------------------------------------------------------------------------------------------ semi-supervised

def test_forty_per_cent_of_each_class_keep_their_label_once_for_a_seed():
    labels = np.repeat(np.arange(4), 600)
    kept = split_labelled(labels, 0.4, seed=1)
    assert np.bincount(labels[kept]).tolist() == [240] * 4
    assert np.array_equal(kept, split_labelled(labels, 0.4, seed=1))
    assert not np.array_equal(kept, split_labelled(labels, 0.4, seed=2))
    with pytest.raises(InputError, match="between 0 and 1, not 40"):
        split_labelled(labels, 40)


def test_support_and_query_are_labelled_and_the_rest_is_not():
    kept = split_labelled(LABELS, 0.5, seed=0)
    for episode in sample_episodes(LABELS, ways=3, shots=1, queries=5, episodes=20, labelled=kept, unlabelled=4):
        assert kept[episode.support].all()
        assert kept[episode.query].all()
        assert not kept[episode.unlabelled].any()
        assert sorted(LABELS[episode.unlabelled]) == sorted(np.repeat(episode.classes, 4))


@pytest.mark.parametrize("labelled", [None, split_labelled(LABELS, 0.5)])
def test_distractors_are_unlabelled_pictures_of_other_classes(labelled):
    options = {"unlabelled": 2, "distractors": 4, "labelled": labelled}
    for episode in sample_episodes(LABELS, ways=3, queries=5, episodes=20, **options):
        found = np.bincount(LABELS[episode.unlabelled], minlength=8)
        assert found.max() == 2
        assert (found > 0).sum() == 7
        assert found[list(episode.classes)].tolist() == [2, 2, 2]


def test_unlabelled_pictures_are_shuffled():
    (episode,) = sample_episodes(LABELS, queries=5, episodes=1, unlabelled=4)
    ordered = np.repeat(episode.classes, 4)
    assert LABELS[episode.unlabelled].tolist() != ordered.tolist()


# ----------------------------------------------------------------------------------------------------------- duplicates

def test_identical_pictures_never_meet_when_asked():
    labels = np.repeat(np.arange(3), 12)
    groups = np.arange(36)
    groups[1:4] = groups[0]                                        # four of one class
    groups[12] = groups[24]                                        # one of two classes
    met = 0
    for episode in sample_episodes(labels, ways=3, shots=2, queries=6, episodes=60, groups=groups):
        assert len(set(groups[members(episode)])) == len(members(episode))
    for episode in sample_episodes(labels, ways=3, shots=2, queries=6, episodes=60):
        met += len(set(groups[members(episode)])) < len(members(episode))
    assert met > 0                                                 # and they do meet when not


def test_identical_pictures_count_once_for_the_size_of_a_class():
    groups = np.array([*range(6), 6, 6, 6, 6, 7, 8])
    with pytest.raises(InputError, match=r"class 1 has 3 images; 1 shots \+ 4 queries need 5"):
        sample_episodes([0] * 6 + [1] * 6, ways=2, queries=4, episodes=1, groups=groups)


# -------------------------------------------------------------------------------------------------------- without reuse

def test_an_epoch_without_reuse_shows_no_picture_twice_and_leaves_little_over():
    labels = np.repeat(np.arange(30), 40)
    epoch = list(no_reuse_epoch(labels, ways=20, shots=5, queries=5))
    shown = [place for episode in epoch for place in members(episode)]
    assert len(shown) == len(set(shown)) == 200 * len(epoch)
    left = np.bincount(np.delete(labels, shown), minlength=30)
    assert (left >= 10).sum() < 20                                 # no further episode was possible
    assert [episode.number for episode in epoch] == list(range(len(epoch)))


def test_large_classes_are_drawn_more_often_in_an_epoch_without_reuse():
    labels = np.repeat(np.arange(4), [20, 20, 20, 200])
    first = [next(no_reuse_epoch(labels, ways=1, shots=1, queries=1, seed=seed)).classes[0] for seed in range(200)]
    assert 130 < first.count(3) < 175                              # 154 expected: 200 of 260 pictures


def test_epochs_differ_and_each_repeats():
    one, again, other = (list(no_reuse_epoch(LABELS, 3, 1, 2, seed=1, epoch=epoch)) for epoch in (0, 0, 1))
    assert all(map(same, one, again))
    assert not same(one[0], other[0])
    halves = [list(islice(no_reuse_epoch(LABELS, 3, 1, 2, seed=1), rank, None, 2)) for rank in range(2)]
    assert all(same(episode, halves[place % 2][place // 2]) for place, episode in enumerate(one))


def test_episodes_of_thirty_ways_are_drawn():
    (episode,) = sample_episodes(np.repeat(np.arange(64), 20), ways=30, shots=5, queries=15, episodes=1)
    assert len(episode.query) == 450


# ------------------------------------------------------------------------------------------------------------ bad input

@pytest.mark.parametrize(("options", "words"), [
    ({"shots": 5, "queries": 16}, "class 'a' has 20 images; 5 shots \\+ 16 queries need 21: add images or lower shots"),
    ({"shots": (1, 5), "queries": 16}, "class 'a' has 20 images; 5 shots"),
    ({"queries": 15, "unlabelled": 5}, "1 shots \\+ 15 queries \\+ 5 unlabelled need 21"),
    ({"ways": 9}, "an episode needs 9 classes, there are 8"),
    ({"ways": 5, "distractors": 4, "unlabelled": 1}, "an episode needs 9 classes"),
    ({"shots": 0}, "shots must be at least 1, not 0"),
    ({"seed": -1}, "seed must be at least 0, not -1"),
    ({"queries": 4, "unlabelled": 15, "labelled": split_labelled(LABELS, 0.5)}, "'a' has 10 images; 15 unlabelled"),
])
def test_what_cannot_be_drawn_is_refused_before_the_first_episode(options, words):
    with pytest.raises(InputError, match=words):
        sample_episodes(LABELS, episodes=1, names="abcdefgh", **options)


def test_an_epoch_without_reuse_names_the_class_that_is_too_small():
    with pytest.raises(InputError, match=r"class 'b' has 3 images; 5 shots \+ 15 queries need 20"):
        no_reuse_epoch([0] * 20 + [1] * 3, ways=2, names="ab")
