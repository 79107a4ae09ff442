"""What holds for every method: a table of properties, checked for each entry of METHODS."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmn4.errors import InputError
from dmn4.methods import METHODS, build_method
from dmn4.methods.base import Method

CHANNELS, SIDE = 8, 4


@dataclass(frozen=True)
class Traits:
    """Which properties a method has; the reason stands beside each exception."""

    classes: bool = True       # renaming the classes permutes the scores
    shots: bool = True         # the order of the shots does not matter
    queries: bool = True       # a query's scores do not depend on the other queries
    places: bool = False       # the order of the places in the maps does not matter
    scale: bool = False        # neither does rescaling a support image's or a query's map by a power of two
    trains: bool = True        # gradients reach the maps
    itself: bool = False       # a support image as query is put into its own class, at one shot
    options: tuple = ()        # options that make a slow method quick, as (name, value) pairs


DESCRIPTORS = Traits(places=True, scale=True, itself=True)
TRAITS = {
    "dn4": DESCRIPTORS, "mn4": DESCRIPTORS, "dmn4": DESCRIPTORS, "odm": DESCRIPTORS,
    "mcl": Traits(places=True),                                  # the mean of shots weighs a louder shot more
    "matchingnet": Traits(places=True, itself=True),
    "protonet": Traits(places=True, itself=True),
    "relationnet": Traits(),                                     # convolutions know the places
    "metaoptnet": Traits(),                                      # flat vectors know the places
    "metaoptnet-rr": Traits(),
    "tapnet": Traits(places=True, classes=False),                # references are picked greedily, class by class
    "dsn": Traits(),
    "deepemd": Traits(places=True, shots=False, itself=True,     # several shots: stochastic fine-tuning
                      options=(("epochs", 2),)),
    "negative-margin": Traits(places=True, shots=False,          # batches of the shots are drawn
                              options=(("epochs", 5),)),
    "meta-baseline": Traits(places=True, itself=True),
    "feat": Traits(places=True),
    "centroid": Traits(options=(("head_steps", 5),)),            # flat vectors know the places
    "e3bm": Traits(places=True),
    "rfs": Traits(places=True, trains=False, itself=True),       # scikit-learn's regression has no gradient
    "dc": Traits(places=True),
    "frn": Traits(places=True),
    "ctx": Traits(places=True),
    "covariance": Traits(places=True, itself=True),
    "dmn4-linear": Traits(places=True, itself=True),
    "pn-semi": Traits(), "pn-semi-masked": Traits(), "tpn-semi": Traits(), "dsn-semi": Traits(),   # flat vectors
    "mn4-semi": DESCRIPTORS, "dmn4-semi": DESCRIPTORS,
    "dmn4-linear-semi": Traits(places=True, itself=True),
}
NAMES = list(METHODS)


def build(name: str) -> Method:
    """The method, small and quick, with the same layers each time and in evaluation mode."""
    torch.manual_seed(0)
    return build_method(name, channels=CHANNELS, **dict(traits(name).options)).eval()


def traits(name: str) -> Traits:
    return TRAITS[name]


def those(trait: str) -> list[str]:
    return [name for name in NAMES if name in TRAITS and getattr(TRAITS[name], trait)]


def draw(seed: int, labels: list[int], queries: int = 3, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Maps around a centre for each class; the queries belong to classes 0, 1, 2, 0, 1, ..."""
    generator = torch.Generator().manual_seed(seed)
    ways = max(labels) + 1
    centres = 2 * torch.randn(ways, CHANNELS, SIDE, SIDE, generator=generator)
    noise = spread * torch.randn(len(labels) + queries, CHANNELS, SIDE, SIDE, generator=generator)
    member = torch.tensor(labels + [q % ways for q in range(queries)])
    maps = centres[member] + noise
    return maps[: len(labels)], torch.tensor(labels), maps[len(labels) :]


shot_lists = st.lists(st.integers(1, 3), min_size=2, max_size=4).map(
    lambda counts: [label for label, count in enumerate(counts) for _ in range(count)]).flatmap(st.permutations)
few = settings(max_examples=6)


def test_the_table_names_every_method():
    assert list(TRAITS) == NAMES


@few
@given(seed=st.integers(0, 999), labels=shot_lists)
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_finite_one_a_query_and_class(name, seed, labels):
    support, labels, query = draw(seed, labels)
    scores = build(name)(support, labels, query)
    assert scores.shape == (3, int(labels.max()) + 1)
    assert scores.isfinite().all()


@few
@given(seed=st.integers(0, 999), labels=shot_lists)
@pytest.mark.parametrize("name", NAMES)
def test_many_episodes_are_scored_as_one_by_one(name, seed, labels):
    method, drawn = build(name), [draw(seed + number, labels) for number in range(3)]
    support, query = (torch.stack([episode[part] for episode in drawn]) for part in (0, 2))
    with torch.no_grad():
        alone = torch.stack([method(*episode) for episode in drawn])
        torch.testing.assert_close(method.score_many(support, drawn[0][1], query), alone, atol=1e-4, rtol=1e-4)


@few
@given(seed=st.integers(0, 999), labels=shot_lists)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_learnt_once_answers_like_a_call_to_the_bit(name, seed, labels):
    method, (support, labels, query) = build(name), draw(seed, labels)
    learnt = method.learn(support, labels)
    assert torch.equal(method.answer(learnt, query), method(support, labels, query))
    assert torch.equal(method.answer(learnt, query), method(support, labels, query))       # asking changed nothing


@pytest.mark.parametrize("name", [name for name in NAMES if METHODS[name].takes_unlabelled])
def test_what_was_learnt_with_unlabelled_maps_answers_like_a_call_to_the_bit(name):
    (support, labels, query), unlabelled = draw(0, [0, 1, 1, 0, 2]), draw(1, [0, 1, 2], 5)[2]
    method = build(name)
    learnt = method.learn(support, labels, unlabelled)
    assert torch.equal(method.answer(learnt, query), method(support, labels, query, unlabelled))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_flow_through_learning_and_answering_as_through_a_call(name):
    method, (support, labels, query) = build(name), draw(0, [0, 1, 1, 0])
    gradients = []
    for run in (method, lambda *maps: method.answer(method.learn(*maps[:2]), maps[2])):
        maps = [support.clone().requires_grad_(), query.clone().requires_grad_()]
        scores = run(maps[0], labels, maps[1])
        gradients.append(torch.autograd.grad(scores.sum(), maps, allow_unused=True) if scores.requires_grad else ())
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_equal_calls_give_equal_scores(name):
    method, episode = build(name), draw(0, [0, 1, 1, 0])
    before = {key: value.clone() for key, value in method.state_dict().items()}
    assert torch.equal(method(*episode), method(*episode))
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())


@few
@given(seed=st.integers(0, 999))
@pytest.mark.parametrize("name", those("classes"))
def test_renaming_the_classes_permutes_the_scores(name, seed):
    support, labels, query = draw(seed, [0, 1, 2, 1])
    renamed = torch.tensor([2, 0, 1])                                # class c becomes renamed[c]
    method = build(name)
    close(method(support, renamed[labels], query)[:, renamed], method(support, labels, query))


@few
@given(seed=st.integers(0, 999))
@pytest.mark.parametrize("name", those("shots"))
def test_the_order_of_the_shots_does_not_matter(name, seed):
    support, labels, query = draw(seed, [0, 1, 0, 1, 1])
    order = torch.tensor([4, 1, 2, 3, 0])
    method = build(name)
    close(method(support[order], labels[order], query), method(support, labels, query))


@few
@given(seed=st.integers(0, 999))
@pytest.mark.parametrize("name", those("queries"))
def test_a_query_is_scored_the_same_alone_or_in_a_batch_and_in_any_order(name, seed):
    support, labels, query = draw(seed, [0, 1, 1])
    method = build(name)
    together = method(support, labels, query)
    close(together[:1], method(support, labels, query[:1]))
    close(together.flip(0), method(support, labels, query.flip(0)))


@few
@given(seed=st.integers(0, 999))
@pytest.mark.parametrize("name", those("places"))
def test_the_order_of_the_places_does_not_matter(name, seed):
    support, labels, query = draw(seed, [0, 1, 1])
    generator = torch.Generator().manual_seed(seed)

    def shuffled(maps: Tensor) -> Tensor:
        order = torch.randperm(SIDE * SIDE, generator=generator)
        return maps.flatten(2)[:, :, order].view_as(maps)

    method = build(name)
    if traits(name).shots:                                           # several shots: one order for all of them
        close(method(shuffled(support), labels, shuffled(query)), method(support, labels, query))
    one = torch.tensor([0, 1])
    close(method(shuffled(support[:2]), one, shuffled(query)), method(support[:2], one, query))


@few
@given(seed=st.integers(0, 999), row=st.integers(0, 2), power=st.sampled_from([0.25, 0.5, 2.0, 8.0]))
@pytest.mark.parametrize("name", those("scale"))
def test_rescaling_a_map_by_a_power_of_two_changes_nothing(name, seed, row, power):
    support, labels, query = draw(seed, [0, 1, 1])
    factor = torch.ones(3, 1, 1, 1)
    factor[row] = power
    method = build(name)
    close(method(support * factor, labels, query), method(support, labels, query))
    close(method(support, labels, query * factor), method(support, labels, query))


@pytest.mark.parametrize("name", those("itself"))
def test_a_support_image_as_query_is_put_into_its_own_class(name):
    support, labels, _ = draw(3, [0, 1, 2, 3, 4])
    assert build(name)(support, labels, support).argmax(1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", NAMES)
def test_random_features_are_classified_at_chance(name):
    method, generator, hits = build(name), torch.Generator().manual_seed(5), []
    for _ in range(20):
        maps = torch.randn(4 + 24, CHANNELS, SIDE, SIDE, generator=generator)
        scores = method(maps[:4], torch.arange(4), maps[4:])
        hits.append((scores.argmax(1) == torch.arange(4).repeat(6)).float())
    accuracy = torch.cat(hits)                                       # 480 guesses: 99.9 % lie within 3.3 deviations
    assert abs(float(accuracy.mean()) - 0.25) < 3.3 * (0.25 * 0.75 / len(accuracy)) ** 0.5


@pytest.mark.parametrize("name", NAMES)
def test_one_place_an_image_and_zero_maps_are_scored(name):
    support, labels, query = draw(0, [0, 1, 1])
    assert build(name)(support[:, :, :1, :1], labels, query[:, :, :1, :1]).isfinite().all()
    support[0] = 0
    assert build(name)(support, labels, query).isfinite().all()


@pytest.mark.parametrize("name", those("trains"))
def test_gradients_reach_support_and_query(name):
    support, labels, query = draw(0, [0, 1])
    support.requires_grad_()
    query.requires_grad_()
    method = build(name).train()
    F.cross_entropy(method(support, labels, query), torch.tensor([1, 0, 1])).backward()   # wrong: a large loss
    assert query.grad is not None
    assert query.grad.isfinite().all()
    assert query.grad.abs().sum() > 0
    for parameter in method.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@pytest.mark.parametrize("name", those("trains"))
def test_a_place_without_a_direction_sends_back_no_huge_gradient(name):
    support, labels, query = draw(0, [0, 1])
    with torch.no_grad():
        support[0, :, 0, 0] = query[0, :, 1, 1] = 0                  # all of ReLU's outputs are off there
    support.requires_grad_()
    query.requires_grad_()
    F.cross_entropy(build(name).train()(support, labels, query), torch.tensor([1, 0, 1])).backward()
    largest = max(float(maps.grad.abs().max()) for maps in (support, query) if maps.grad is not None)
    assert largest < 100                                             # a norm clamped to 1e-12 gives 1e8 and more


@pytest.mark.parametrize("name", NAMES)
def test_wrong_maps_and_labels_are_named(name):
    support, labels, query = draw(0, [0, 1])
    method = build(name)
    broken = query.clone()
    broken[1, 0, 0, 0] = torch.nan
    infinite = support.clone()
    infinite[1, 2, 0, 0] = torch.inf
    for episode, message in [
        ((support, labels, broken), "query map 1 holds NaN"),
        ((infinite, labels, query), "support map 1 holds NaN or infinite"),
        ((support, labels, query[:, :4]), "support maps are 8 x 4 x 4, query maps 4 x 4 x 4"),
        ((support, torch.tensor([0, 2]), query), "class 1 has no support image"),
        ((support, torch.tensor([0, -1]), query), "label -1 is negative"),
        ((support, torch.tensor([0, 1, 1]), query), r"labels have shape \(3,\)"),
        ((support, torch.tensor([0.0, 1.0]), query), "2 integers are needed"),
        ((support[:0], labels[:0], query), "no support images"),
        ((support[0], labels, query), "support maps have shape"),
        ((support.long(), labels, query), "floating-point maps are needed"),
    ]:
        with pytest.raises(InputError, match=message):
            method(*episode)


@pytest.mark.parametrize("name", NAMES)
def test_channels_are_accepted_and_unknown_options_named(name):
    assert build(name).channels == CHANNELS
    with pytest.raises(InputError, match=f"method '{name}' has no option 'colour'"):
        build_method(name, channels=CHANNELS, colour=1)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
