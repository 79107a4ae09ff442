import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from dmn4.errors import InputError
from dmn4.evidence.explain import explain_maps, place_boxes, seen_share
from dmn4.images import Transform
from dmn4.methods import METHODS, build_method
from dmn4.methods.base import DescriptorMethod

DESCRIPTOR_METHODS = [name for name, kind in METHODS.items() if issubclass(kind, DescriptorMethod)]


@pytest.fixture
def two_by_hand():
    """Two classes of one shot with two places each; a query with two places that both choose the first of class 0."""
    wing, sky, fin, sea = torch.eye(4)
    support = torch.stack([torch.stack([wing, sky], 1), torch.stack([fin, sea], 1)])[:, :, None]      # (2, 4, 1, 2)
    query = torch.stack([0.8 * wing + 0.6 * fin, wing], 1)[:, None]                                  # (4, 1, 2)
    return support, torch.tensor([0, 1]), query


def test_what_is_said_can_be_checked_by_hand(two_by_hand):
    why = explain_maps(build_method("dmn4"), *two_by_hand, name="dmn4", classes=["bird", "fish"])
    assert_close(why.class_best, torch.tensor([[0.8, 0.6], [1.0, 0.0]]))
    assert_close(why.tau, torch.tensor([0.2, 1.0]))
    assert why.kept.tolist() == [False, True]                 # both chose the wing; the second leads by more
    assert_close(why.scores, torch.tensor([1.0, 0.0]))
    assert_close(why.scores_before, torch.tensor([1.8, 0.6]))
    assert (why.verdict, why.dn4_verdict) == ("bird", "bird")
    assert why.pairs() == [(1, 0, 0, 0, 1.0, 1.0)]
    assert why.pairs(label=1) == []
    assert why.boxes.tolist() == [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("vote", ["nbnn", "log-odds", "rank"])
@pytest.mark.parametrize("name", DESCRIPTOR_METHODS)
def test_sums_are_the_scores_of_the_method(name, vote, episode):
    support, labels, query = episode
    method = build_method(name, vote=vote, temperature=0.5)
    scores = method(support, labels, query)
    for image, expected in zip(query, scores, strict=True):
        why = explain_maps(method, support, labels, image, name=name)
        assert_close(why.scores, expected)
        total = why.votes[why.kept].sum(0) + why.head
        assert_close(total, expected, atol=1.0 if vote == "rank" else 1e-4, rtol=0)   # rank adds a fraction for ties
        assert why.verdict == str(int(expected.argmax()))


@pytest.mark.parametrize("options", [{"shots": "mean"}, {"pyramid": "2,1"}, {"shots": "mean", "pyramid": "2"},
                                     {"centre": "shots"}])
def test_sums_are_the_scores_with_every_option(options, episode):
    support, labels, query = episode
    method = build_method("dmn4", **options)
    why = explain_maps(method, support, labels, query[0], name="dmn4")
    assert_close(why.scores, method(support, labels, query[:1])[0])
    assert len(why.boxes) == len(why.kept)
    assert (why.support_labels[why.partner_image] == torch.arange(3)).all()


def test_dn4_with_three_neighbours_sums_three_cosines(episode):
    support, labels, query = episode
    method = build_method("dn4", k=3)
    why = explain_maps(method, support, labels, query[0], name="dn4")
    assert_close(why.scores, method(support, labels, query[:1])[0])


def test_partners_lie_where_the_pool_says(episode):
    support, labels, query = episode
    why = explain_maps(build_method("dmn4"), support, labels, query[0], name="dmn4")
    unit = torch.nn.functional.normalize(support.flatten(2), dim=1)                        # (n, C, M)
    asked = torch.nn.functional.normalize(query[0].flatten(1), dim=0)                      # (C, M)
    for pair in why.pairs():
        assert labels[pair.image] == pair.label
        assert float(unit[pair.image, :, pair.partner] @ asked[:, pair.place]) == pytest.approx(pair.cosine, abs=1e-5)
    assert [pair.tau for pair in why.pairs()] == sorted((pair.tau for pair in why.pairs()), reverse=True)


def test_the_other_rules_are_what_the_other_methods_keep_and_say(episode):
    support, labels, query = episode
    why = explain_maps(build_method("odm", share=0.3), support, labels, query[0], name="odm")
    for name in ("dn4", "mn4", "dmn4"):
        method = build_method(name)
        assert torch.equal(why.masks[name], method.kept(support, labels, query[:1])[0])
        assert_close(why.under(name).scores, method(support, labels, query[:1])[0])
    with pytest.raises(InputError, match="unknown rule 'knn'; choose one of dn4, mn4, dmn4, odm"):
        why.under("knn")


def test_adopted_descriptors_are_pictures_beyond_the_labelled_ones(episode):
    support, labels, query = episode
    method = build_method("dmn4-semi")
    why = explain_maps(method, support, labels, query[0], name="dmn4-semi", unlabelled=query[1:])
    assert_close(why.scores, method(support, labels, query[:1], unlabelled=query[1:])[0])
    assert int(why.partner_image.max()) >= len(support)
    with pytest.raises(InputError, match="makes no use of them"):
        explain_maps(build_method("dmn4"), support, labels, query[0], unlabelled=query[1:])


def test_json_says_the_same(episode):
    support, labels, query = episode
    why = explain_maps(build_method("mn4"), support, labels, query[1], name="mn4", classes=["a", "b", "c"])
    read = json.loads(json.dumps(why.to_json()))
    assert read["verdict"] == why.verdict
    assert read["scores"] == why.scores.tolist()
    assert [row["kept"] for row in read["descriptors"]] == why.kept.tolist()
    assert read["rules"]["mn4"]["kept"] == why.kept.nonzero()[:, 0].tolist()
    assert read["rules"]["dn4"]["verdict"] == why.dn4_verdict
    for row, place in zip(read["descriptors"], range(len(why.kept)), strict=True):
        assert row["partner"]["image"] == why.pair(place).image
        assert sum(row["votes"]) == pytest.approx(float(why.votes[place].sum()), abs=1e-3)


def test_a_method_without_descriptors_has_nothing_to_explain(episode):
    support, labels, query = episode
    with pytest.raises(InputError, match="'protonet' compares no descriptors"):
        explain_maps(build_method("protonet", channels=8), support, labels, query[0], name="protonet")


@given(height=st.integers(1, 9), width=st.integers(1, 9), crop=st.floats(0.5, 1.0))
def test_boxes_tile_what_the_network_saw(height, width, crop):
    boxes = place_boxes((height, width), crop=crop)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    assert float(area.sum()) == pytest.approx(crop**2, rel=1e-4)
    assert float(boxes.min()) == pytest.approx((1 - crop) / 2, abs=1e-6)
    assert float(boxes.max()) == pytest.approx((1 + crop) / 2, abs=1e-6)


@pytest.mark.parametrize(("transform", "share"), [
    (Transform(84, (84, 84)), 1.0),
    (Transform(84, (92, 92), "centre"), 84 / 92),
    (Transform(84, 92, "centre"), 84 / 92),
])
def test_a_centre_crop_leaves_a_share_of_the_picture(transform, share):
    assert seen_share(transform) == share
