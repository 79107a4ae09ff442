"""Embed once, play many episodes."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dmn4.backbones import build_backbone
from dmn4.data.samples import draw_clutter
from dmn4.episodes.maps import MapStore, embed_all, pictures
from dmn4.errors import InputError
from dmn4.evaluation.contenders import Contender, TrainedBackbone, load_trained
from dmn4.evaluation.evaluate import Protocol, evaluate
from dmn4.evaluation.split import QUICK, EmbeddedSplit, all_views, places
from dmn4.files import load_tensors, read_json, save_tensors
from dmn4.images import Transform
from dmn4.images.looks import view
from dmn4.methods import METHODS, build_method
from dmn4.methods.base import Learnt, Method
from dmn4.training.checkpoints import save_backbone, save_model
from dmn4.training.model import FewShotModel

IMAGES = draw_clutter(6, 12, 0.2, 24, seed=3)
LOOK = Transform(size=24)
SHORT = Protocol(ways=3, shots=1, queries=2, episodes=6, repeats=2)


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return build_backbone("conv4", width=0.125).eval()


def enter(backbone, *texts):
    trained = TrainedBackbone(backbone, LOOK, {"weights": "random"})
    return {text: trained.with_method(text) for text in texts}


def test_stored_maps_give_the_accuracies_of_embedding_every_episode(backbone):
    contenders = enter(backbone, "dmn4", "dn4", "protonet", "dmn4:vote=rank")
    found = evaluate(IMAGES, contenders, SHORT, shown=False)
    for name, contender in contenders.items():
        plain = []
        for episode in SHORT.draw(IMAGES.labels):
            support, query = (LOOK(pictures(IMAGES, rows)) for rows in (episode.support, episode.query))
            scores = FewShotModel(backbone, contender.method)(support, episode.support_labels, query)
            plain.append((scores.argmax(1) == episode.query_labels).float().mean().item())
        assert found.values[name].ravel().tolist() == pytest.approx(plain)
    assert found.values["dmn4"].shape == (2, 6)


@torch.no_grad()
def test_all_images_are_embedded_once_however_many_episodes_and_methods(backbone):
    seen = []
    hook = backbone.register_forward_hook(lambda module, inputs, maps: seen.append(len(maps)))
    evaluate(IMAGES, enter(backbone, "dmn4", "mn4", "protonet"), SHORT, shown=False)
    hook.remove()
    assert sum(seen) == len(IMAGES)


def test_a_store_too_large_for_memory_lies_in_a_file_at_half_precision(backbone):
    small, large = (embed_all(backbone, IMAGES, LOOK, in_memory=limit) for limit in (1e9, 0))
    assert large.values.dtype == torch.float16
    rows = torch.tensor([5, 0])
    torch.testing.assert_close(small[rows], large[rows], atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(small[rows], backbone(LOOK(pictures(IMAGES, rows))))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_reads_means_scores_means_like_maps(name, episode):
    support, labels, query = episode
    method = build_method(name, channels=support.shape[1]).eval()
    if not method.reads_means:
        pytest.skip("reads more than means")
    means = support.mean((2, 3), keepdim=True), labels, query.mean((2, 3), keepdim=True)
    torch.testing.assert_close(method(*means), method(support, labels, query))


def test_methods_that_read_means_play_many_episodes_at_a_time_as_one_by_one(backbone, monkeypatch):
    contenders = enter(backbone, "protonet", "meta-baseline", "matchingnet", "feat")
    split = EmbeddedSplit(IMAGES, contenders, 1)
    assert split.at_once == QUICK
    assert EmbeddedSplit(IMAGES, enter(backbone, "protonet", "protonet:vector=flat"), 1).at_once == 1
    monkeypatch.setattr("dmn4.evaluation.split.QUICK", 5)                                # 12 episodes: 5, 5 and 2
    found = evaluate(IMAGES, contenders, SHORT, shown=False)
    alone = [split.play([episode]) for episode in SHORT.draw(IMAGES.labels)]
    for name, values in found.values.items():
        assert values.flatten().tolist() == [float(one[name]) for one in alone]


def test_a_repeat_draws_episodes_of_its_own_and_any_start_gives_the_same_ones():
    whole = [episode.query.tolist() for episode in SHORT.draw(IMAGES.labels)]
    assert len(whole) == 12
    assert whole[:6] != whole[6:]
    for start in (3, 6, 11):
        assert [episode.query.tolist() for episode in SHORT.draw(IMAGES.labels, start)] == whole[start:]


def test_a_stopped_evaluation_goes_on_and_ends_the_same(backbone, tmp_path, monkeypatch):
    contenders = enter(backbone, "dmn4")
    whole = evaluate(IMAGES, contenders, SHORT, shown=False)
    play = EmbeddedSplit.play

    def break_down(self, episodes):
        if episodes[0].number == 4:
            raise KeyboardInterrupt
        return play(self, episodes)

    monkeypatch.setattr(EmbeddedSplit, "play", break_down)
    monkeypatch.setattr("dmn4.training.runs.Run.is_due", True)
    with pytest.raises(KeyboardInterrupt):
        evaluate(IMAGES, contenders, SHORT, tmp_path, shown=False)
    played = []
    monkeypatch.setattr(EmbeddedSplit, "play", lambda self, episodes: played.extend(episodes) or play(self, episodes))
    again = evaluate(IMAGES, contenders, SHORT, tmp_path, resume=True, shown=False)
    assert len(played) == 12 - 4
    assert np.array_equal(again.values["dmn4"], whole.values["dmn4"])


def test_the_card_tells_how_the_number_was_made(backbone, tmp_path):
    found = evaluate(IMAGES, enter(backbone, "dmn4"), SHORT, tmp_path, shown=False)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["results"]["dmn4"]["mean"] == pytest.approx(found.accuracy("dmn4").mean)
    assert card["results"]["dmn4"]["half_width_normal"] == pytest.approx(found.accuracy("dmn4", "normal").half_width)
    assert (card["data"], card["ways"], card["repeats"], card["seed"]) == (IMAGES.fingerprint, 3, 2, 0)
    assert {"command", "machine", "torch", "seconds", "contenders"} <= card.keys()


def test_a_card_that_was_not_written_any_more_is_written_whole(backbone, tmp_path):
    evaluate(IMAGES, enter(backbone, "dmn4"), SHORT, tmp_path, shown=False)
    card = read_json(tmp_path / "card.json")
    (tmp_path / "card.json").unlink()
    evaluate(IMAGES, enter(backbone, "dmn4"), SHORT, tmp_path, resume=True, shown=False)
    assert read_json(tmp_path / "card.json")["results"] == card["results"]
    assert "kept" in card["results"]["dmn4"]


def test_an_evaluation_goes_on_to_more_episodes(backbone, tmp_path):
    contenders, longer = enter(backbone, "dmn4", "protonet"), replace(SHORT, repeats=1, episodes=SHORT.episodes + 3)
    first = evaluate(IMAGES, contenders, replace(SHORT, repeats=1), tmp_path / "a", shown=False)
    more = evaluate(IMAGES, contenders, longer, tmp_path / "a", resume=True, shown=False)
    whole = evaluate(IMAGES, contenders, longer, tmp_path / "b", shown=False)
    for name in contenders:
        assert np.array_equal(more.values[name], whole.values[name])
        assert np.array_equal(more.values[name][:, : SHORT.episodes], first.values[name])
    one, other = (read_json(tmp_path / name / "card.json") for name in "ab")
    assert one["results"] == other["results"]
    with pytest.raises(InputError, match="of other settings: episodes is"):
        evaluate(IMAGES, contenders, replace(SHORT, repeats=1), tmp_path / "a", resume=True, shown=False)
    with pytest.raises(InputError, match="of other settings"):
        evaluate(IMAGES, contenders, replace(longer, repeats=2, episodes=99), tmp_path / "a", resume=True, shown=False)


def test_an_evaluation_on_other_data_is_not_resumed(backbone, tmp_path):
    evaluate(IMAGES, enter(backbone, "dmn4"), SHORT, tmp_path, shown=False)
    with pytest.raises(InputError, match="on another data set"):
        evaluate(draw_clutter(6, 12, 0.2, 24, 4), enter(backbone, "dmn4"), SHORT, tmp_path, resume=True, shown=False)


class Counting(Method):
    """Remembers how many support rows it was given; scores nothing."""

    def __init__(self, **says):
        super().__init__()
        self.rows = []
        self.__dict__.update(says)

    def derive(self, support, labels):
        self.rows.append((len(support), labels.tolist()))
        return int(labels.max()) + 1

    def score(self, ways, query):
        return torch.zeros(len(query), ways)


@pytest.mark.parametrize(("shots", "rows"), [(1, 6), (2, 6)])
def test_views_are_appended_with_their_labels_up_to_the_shots_a_method_names(backbone, shots, rows):
    method = Counting(views=("flip",), views_shots=1)
    evaluate(IMAGES, {"x": Contender(backbone, method, LOOK)}, Protocol(3, shots, 2, 1), shown=False)
    assert method.rows == [(rows, [0, 1, 2, 0, 1, 2] if shots == 1 else [0, 0, 1, 1, 2, 2])]


def test_a_flipped_view_is_the_mirrored_picture():
    batch = pictures(IMAGES, slice(0, 2))
    assert torch.equal(view(LOOK, "flip")(batch), LOOK(batch).flip(-1))


def test_a_method_that_adapts_the_backbone_sees_the_support_pictures_and_answers_with_what_it_learnt(backbone):
    adapted = []

    def learn_adapted(network, images, labels, base):
        adapted.append(images.shape)
        return network, Learnt(3, network(images[:1]).shape[1:])

    method = Counting(adapts=True, learn_adapted=learn_adapted)
    evaluate(IMAGES, {"x": Contender(backbone, method, LOOK)}, Protocol(3, 1, 2, 2), base=IMAGES, shown=False)
    assert adapted == [(3, 3, 24, 24)] * 2
    assert not method.rows                                    # nothing was learnt anew from the adapted maps
    with pytest.raises(InputError, match="leave out --mirror or --base-split"):
        evaluate(IMAGES, {"x": Contender(backbone, method, LOOK)}, Protocol(3, 1, 2, 2), base=IMAGES, shown=False,
                 mirror=True)


def test_without_base_images_it_is_used_on_stored_maps(backbone):
    method = Counting(adapts=True, learn_adapted=lambda *_: pytest.fail("nothing to adapt with"))
    evaluate(IMAGES, {"x": Contender(backbone, method, LOOK)}, Protocol(3, 1, 2, 2), shown=False)
    assert len(method.rows) == 2


def test_unlabelled_images_reach_the_methods_that_take_them(backbone):
    class Semi(Counting):
        def forward(self, support, labels, query, unlabelled=None):
            self.rows.append(len(unlabelled))
            return torch.zeros(len(query), 3)

    method = Semi(takes_unlabelled=True)
    evaluate(IMAGES, {"x": Contender(backbone, method, LOOK)}, Protocol(3, 1, 2, 1, unlabelled=2), shown=False)
    assert method.rows == [6]


@pytest.mark.parametrize("name", [name for name in METHODS if "semi" in name])
def test_every_semi_supervised_method_is_given_the_unlabelled_maps(backbone, name, monkeypatch):
    contenders, counts = enter(backbone, name, "dn4", "mn4"), []
    derive = contenders[name].method.derive_with

    def counted(support, labels, unlabelled):
        counts.append(len(unlabelled))
        return derive(support, labels, unlabelled)

    monkeypatch.setattr(contenders[name].method, "derive_with", counted)
    evaluate(IMAGES, contenders, Protocol(3, 1, 2, 4, unlabelled=2, distractors=2), shown=False)
    assert counts == [(3 + 2) * 2] * 4


def test_only_a_share_of_the_images_is_labelled_and_the_rest_is_not():
    half = Protocol(3, 1, 2, 40, labelled=0.5, unlabelled=2)
    drawn = list(half.draw(IMAGES.labels))
    known = set(torch.cat([torch.cat([one.support, one.query]) for one in drawn]).tolist())
    unknown = set(torch.cat([one.unlabelled for one in drawn]).tolist())
    assert known.isdisjoint(unknown)
    assert len(known) == len(unknown) == len(IMAGES) // 2


def test_a_run_folder_remembers_backbone_method_and_picture_size(backbone, tmp_path):
    model = FewShotModel(backbone, build_method("odm", share=0.5), "odm", {"share": 0.5})
    save_model(tmp_path / "model.safetensors", model, {"transform": "mcl-stored", "size": 24})
    trained = load_trained(str(tmp_path))
    assert (trained.transform.size, trained.facts["method"]) == (24, "odm")
    assert trained.with_method().method.share == 0.5
    assert trained.with_method("dn4").facts["method"] == "dn4"


def test_a_model_whose_options_are_missing_has_those_of_the_method(backbone, tmp_path):
    model = FewShotModel(backbone, build_method("odm"), "odm", {})
    save_model(tmp_path / "model.safetensors", model, {"transform": "mcl-stored", "size": 24})
    tensors, about = load_tensors(tmp_path / "model.safetensors")
    del about["method_options"]
    save_tensors(tmp_path / "model.safetensors", tensors, about)
    assert load_trained(str(tmp_path)).facts["method_options"] == "{}"


def test_the_kind_of_a_backbone_may_have_options():
    one = load_trained(backbone="conv4:window=7,step=3").with_method("dmn4")
    assert one.backbone.options == {"window": 7, "step": 3}
    assert one.facts["backbone"] == "conv4:window=7,step=3"


@pytest.mark.parametrize("file", ["model", "backbone"])
def test_options_come_on_top_of_those_of_a_run(file, backbone, tmp_path):
    model = FewShotModel(backbone, build_method("dn4"), "dn4", {})
    if file == "model":
        save_model(tmp_path / "model.safetensors", model, {})
    else:
        save_backbone(tmp_path / "backbone.safetensors", backbone, {})
    broad = load_trained(str(tmp_path), f"{backbone.name}:window=2").with_method("dn4")
    assert broad.backbone.options == json.loads(broad.facts["options"]) == backbone.options | {"window": 2}
    torch.testing.assert_close(broad.backbone.state_dict(), backbone.state_dict())
    with pytest.raises(InputError, match="were trained with backbone 'conv4', not 'wrn28-10'"):
        load_trained(str(tmp_path), "wrn28-10")


def test_weights_without_a_method_ask_for_one(backbone, tmp_path):
    save_backbone(tmp_path / "backbone.safetensors", backbone, {})
    with pytest.raises(InputError, match="were trained without a method: name one"):
        load_trained(str(tmp_path)).with_method()


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(InputError, match="holds no weights yet"):
        load_trained(str(tmp_path))


def test_pooled_maps_are_the_means():
    store = MapStore(torch.arange(8.0).reshape(1, 2, 2, 2))
    assert store.pooled()[torch.tensor([0])].flatten().tolist() == [3.0, 4.0]


def test_the_card_tells_how_much_a_rule_keeps_and_how_much_of_that_is_near_its_own_class(backbone, tmp_path):
    contenders = {name: Contender(backbone, build_method(name), LOOK) for name in ("dn4", "dmn4", "protonet")}
    evaluate(IMAGES, contenders, Protocol(3, 1, 2, 2), tmp_path, shown=False)
    results = read_json(tmp_path / "card.json", dict)["results"]
    assert results["dn4"]["kept"] == 1
    assert 0 < results["dmn4"]["kept"] < 1
    assert all(0 < results[name]["kept_true"] <= 1 for name in ("dn4", "dmn4"))
    assert "kept" not in results["protonet"]


def test_every_method_gets_the_kind_of_view_it_wants(backbone):
    contenders = {name: Contender(backbone, build_method(name), LOOK) for name in ("rfs", "dsn", "dn4")}
    kinds = all_views(contenders, 1)
    assert sorted(kinds) == ["crop"] * 4 + ["flip"]
    assert [kinds[place] for place in places(kinds, ("flip",))] == ["flip"]
    assert [kinds[place] for place in places(kinds, ("crop", "crop"))] == ["crop", "crop"]
    assert len(set(places(kinds, ("crop",) * 4))) == 4
    split = EmbeddedSplit(IMAGES, contenders, 1)
    alone = EmbeddedSplit(IMAGES, {"dsn": contenders["dsn"]}, 1)
    episode = next(Protocol(3, 1, 2, 1).draw(IMAGES.labels))
    assert torch.equal(*(one.score(contenders["dsn"].method, [episode]) for one in (split, alone)))


@torch.no_grad()
@pytest.mark.parametrize("name", ["dmn4", "dmn4:shots=mean", "mn4", "protonet", "protonet:vector=flat", "dsn", "rfs"])
def test_a_mirror_image_is_one_more_shot_and_one_more_vote(backbone, name):
    contenders = enter(backbone, name)
    method = contenders[name].method
    split = EmbeddedSplit(IMAGES, contenders, 1, mirror=True)
    for episode in Protocol(3, 1, 2, 2).draw(IMAGES.labels):
        looks = [[backbone(LOOK(pictures(IMAGES, rows)).flip(dims)) for dims in ((), (-1,))]
                 for rows in (episode.support, episode.query)]
        own = [store[episode.support] for store in split.stores[2:]]             # the views that the method asks for
        support, labels = torch.cat([*looks[0], *own]), episode.support_labels.repeat(2 + len(own))
        scores = method(support, labels, looks[1][0]) + method(support, labels, looks[1][1])
        right = (scores.argmax(1) == episode.query_labels).float().mean()
        assert split.play([episode]) == {name: pytest.approx(float(right))}


def test_mirror_images_of_symmetric_pictures_change_nothing(backbone):
    halves = np.asarray(IMAGES.images)[:, :, :12]
    symmetric = replace(IMAGES, images=np.concatenate([halves, halves[:, :, ::-1]], axis=2))
    contenders = enter(backbone, "dmn4", "dn4", "protonet")
    plain, seen_twice = (evaluate(symmetric, contenders, SHORT, shown=False, mirror=mirror) for mirror in (False, True))
    for name in contenders:
        assert np.array_equal(plain.values[name], seen_twice.values[name])


def test_what_a_rule_keeps_is_counted_in_the_maps_that_it_scores(backbone):
    contenders = enter(backbone, "mn4")
    split = EmbeddedSplit(IMAGES, contenders, 1, mirror=True)
    episode = next(SHORT.draw(IMAGES.labels))
    [(_, kept)] = split.kept_shares([episode])
    support, labels, query = split.seen(episode)
    assert (len(support), len(labels), len(query)) == (6, 6, 12)
    assert kept.share == pytest.approx(float(contenders["mn4"].method.kept(support, labels, query).float().mean()))


def test_an_evaluation_with_mirror_images_says_so_and_does_not_go_on_without(backbone, tmp_path):
    contenders = enter(backbone, "dn4")
    evaluate(IMAGES, contenders, Protocol(3, 1, 2, 2), tmp_path, shown=False, mirror=True)
    assert read_json(tmp_path / "card.json", dict)["mirror"] is True
    with pytest.raises(InputError, match="mirror"):
        evaluate(IMAGES, contenders, Protocol(3, 1, 2, 2), tmp_path, shown=False, resume=True)


def test_accuracies_of_another_evaluation_are_refused(backbone, tmp_path):
    contenders = {"dn4": Contender(backbone, build_method("dn4"), LOOK)}
    evaluate(IMAGES, contenders, Protocol(3, 1, 2, 2), tmp_path, shown=False)
    save_tensors(tmp_path / "accuracies.safetensors", {"dn4": torch.zeros(7)}, {"seconds": 1.0})
    with pytest.raises(InputError, match="of another evaluation"):
        evaluate(IMAGES, contenders, Protocol(3, 1, 2, 2), tmp_path, resume=True, shown=False)
