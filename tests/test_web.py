"""The HTTP interface: what it answers, what it refuses, and that it stays whole when much happens at once."""

import asyncio
import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from toy_models import taken_apart
from toy_service import Patches, picture, shots

import dmn4
from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.verdict import percent
from dmn4.cli import main
from dmn4.errors import InputError
from dmn4.web import sample
from dmn4.web.app import create_app
from dmn4.web.guard import Guard
from dmn4.web.limits import Limits
from dmn4.web.server import is_loopback, listen
from dmn4.web.store.classifiers import Classifiers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient


def client_of(limits=None, backbone=None, **options):
    return TestClient(create_app(backbone or Patches(), limits), "http://localhost", **options)


@pytest.fixture
def client():
    with client_of() as one:
        yield one


@pytest.fixture
def known(client):
    """The path of a classifier of red, green and blue."""
    return "/api/classifiers/" + client.post("/api/classifiers", **shots("red", "green", "blue")).json()["id"]


def error(response, status):
    """The message of a response that has this status and nothing but a message."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    message = response.json()["error"]
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def test_a_few_pictures_of_each_class_make_a_classifier(client):
    made = client.post("/api/classifiers", **shots("red", "blue", each=2))
    assert made.status_code == 201
    assert made.json()["state"] == "ready"
    assert made.json()["classes"] == [{"label": "blue", "pictures": [2, 3]}, {"label": "red", "pictures": [0, 1]}]
    assert client.get(f"/api/classifiers/{made.json()['id']}").json() == made.json()


@pytest.mark.parametrize("colour", ["red", "green", "blue"])
def test_a_new_picture_gets_the_class_of_its_colour(client, known, colour):
    said = client.post(f"{known}/predictions", files={"picture": picture(colour, 9)}).json()
    assert said["label"] == colour
    assert not said["none_of_these"]
    assert said["probability"] == max(said["probabilities"].values()) > 0.5
    assert sum(said["probabilities"].values()) == pytest.approx(1)


def test_the_service_says_what_the_classifier_says_in_python(client, known):
    pictures = [picture(colour, seed) for colour in ("red", "green", "blue") for seed in range(3)]
    classifier = FewShotClassifier(backbone=Patches()).fit(pictures, ["red"] * 3 + ["green"] * 3 + ["blue"] * 3)
    said = client.post(f"{known}/predictions", files={"picture": picture("green", 5)}).json()
    expected = dict(zip(classifier.classes_, classifier.decision_function([picture("green", 5)])[0], strict=True))
    assert said["scores"] == pytest.approx(expected, rel=1e-4)


def test_the_sums_of_an_explanation_are_the_scores(client, known):
    asked = {"picture": picture("red", 7)}
    why = client.post(f"{known}/explanations", files=asked).json()
    said = client.post(f"{known}/predictions", files=asked).json()
    assert why["prediction"] == said
    assert why["headline"] == said["line"]
    assert dict(zip(why["classes"], why["scores"], strict=True)) == pytest.approx(said["scores"], rel=1e-4)
    assert why["rules"]["dn4"]["kept"] == list(range(16))
    for one in why["descriptors"]:
        assert why["classes"][why["support_labels"][one["partner"]["image"]]] == why["classes"][one["partner"]["class"]]


@pytest.mark.parametrize("rule", ["dn4", "mn4", "dmn4"])
def test_an_explanation_is_under_the_rule_that_was_asked_for(client, known, rule):
    why = client.post(f"{known}/explanations", params={"rule": rule}, files={"picture": picture("red", 7)}).json()
    assert why["method"] == rule
    kept = [place for place, one in enumerate(why["descriptors"]) if one["kept"]]
    assert kept == why["rules"][rule]["kept"]


def test_the_verdict_is_written_as_everywhere(client, tmp_path):
    known = "/api/classifiers/" + client.post("/api/classifiers", **shots("red", "green", "blue", each=4)).json()["id"]
    (tmp_path / "colours.dmn4").write_bytes(client.get(f"{known}/model").content)
    classifier = dmn4.load(tmp_path / "colours.dmn4", backbone=Patches())
    assert classifier.calibration_.held_out == 12
    for asked in (picture("red", 9), picture("grey", 3)):
        said = client.post(f"{known}/predictions", files={"picture": asked}).json()
        [verdict] = classifier.verdicts(classifier._judged([asked])[0], reject=True, coverage=0.9)
        assert (said["line"], said["words"], said["chance"], said["others"], said["doubtful"]) == (
            verdict.line, verdict.words, verdict.chance, verdict.others, verdict.doubtful)
        assert said["perhaps"] == classifier.predict_set([asked])[0]
        assert said["percents"] == {label: percent(chance) for label, chance in said["probabilities"].items()}


def test_labels_that_look_wrong_are_found_and_put_right(client):
    sent = shots("red", "blue", each=5)
    sent["data"]["labels"][1] = "blue"
    known = "/api/classifiers/" + client.post("/api/classifiers", **sent).json()["id"]
    [suspect] = client.get(f"{known}/suspects").json()
    assert (suspect["picture"], suspect["label"], suspect["looks_like"]) == (1, "blue", "red")
    assert suspect["percent"].endswith(" %")
    right = client.put(f"{known}/shots/1", params={"revision": 1}, data={"label": suspect["looks_like"]}).json()
    assert [one["pictures"] for one in right["classes"]] == [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4]]
    assert client.get(f"{known}/suspects").json() == []
    assert client.get(f"{known}/revisions").json()[0]["what"] == "picture 1 is red"
    assert "look again" in error(client.delete(f"{known}/shots/1", params={"revision": 1}), 409)
    left = client.delete(f"{known}/shots/1", params={"revision": 2}).json()
    assert [one["pictures"] for one in left["classes"]] == [[4, 5, 6, 7, 8], [0, 1, 2, 3]]
    assert "there is no picture 9" in error(client.delete(f"{known}/shots/9"), 404)


def test_a_picture_is_taught_as_what_it_is_not_and_taken_back(client, known):
    files = [("pictures", ("a.png", picture("grey", seed))) for seed in range(2)]
    before = client.post(f"{known}/predictions", files={"picture": picture("grey", 5)}).json()
    after = client.post(f"{known}/ruled-out", data={"labels": ["none of these", before["label"]]}, files=files)
    assert after.status_code == 201
    assert [len(one["pictures"]) for one in after.json()["classes"]] == [3, 3, 3]
    assert client.get(f"{known}/ruled-out").json() == ["none of these", before["label"]]
    assert client.get(f"{known}/ruled-out/1").headers["content-type"] == "image/jpeg"
    said = client.post(f"{known}/predictions", files={"picture": picture("grey", 5)}).json()
    assert said["none_of_these"]
    assert said["known"] <= before["known"]
    assert said["scores"][before["label"]] < before["scores"][before["label"]]
    model = client.get(f"{known}/model").content
    again = client.post("/api/models", files={"model": ("a.dmn4", model)}).json()
    assert client.get(f"/api/classifiers/{again['id']}/ruled-out").json() == ["none of these", before["label"]]
    for _ in range(2):
        assert client.delete(f"{known}/ruled-out/0").status_code == 200
    assert client.post(f"{known}/predictions", files={"picture": picture("grey", 5)}).json() == before
    assert error(client.delete(f"{known}/ruled-out/0"), 404)
    assert error(client.get(f"{known}/ruled-out/0"), 404)
    wrong = client.post(f"{known}/ruled-out", data={"labels": ["lime"]}, files=files[:1])
    assert "there is no class 'lime' to rule out" in error(wrong, 422)


def test_pictures_unlike_what_was_learnt_are_suggested_first(client):
    known = "/api/classifiers/" + client.post("/api/classifiers", **shots("red", "blue")).json()["id"]
    asked = [("pictures", picture(colour, 7)) for colour in ("red", "green", "blue", "red")]
    places = client.post(f"{known}/suggestions", data={"count": 2}, files=asked).json()
    assert places[0] == 1
    assert len(set(places)) == 2
    assert client.get(known).json()["revision"] == 1
    assert "200 are the most" in error(client.post(f"{known}/suggestions", files=asked[:1] * 201), 413)


def test_classes_grow_and_are_forgotten(client, known):
    grown = client.post(f"{known}/shots", data={"labels": ["red", "lime"]},
                        files=[("pictures", picture("red", 5)), ("pictures", picture("green", 6))]).json()
    assert {one["label"]: len(one["pictures"]) for one in grown["classes"]} == {
        "blue": 3, "green": 3, "lime": 1, "red": 4}
    assert grown["revision"] == 2
    left = client.delete(f"{known}/classes/green").json()
    assert [one["label"] for one in left["classes"]] == ["blue", "lime", "red"]
    assert "no such class" in error(client.delete(f"{known}/classes/green"), 404)


def test_the_last_two_classes_cannot_be_forgotten(client):
    made = client.post("/api/classifiers", **shots("red", "blue")).json()["id"]
    assert "needs at least two" in error(client.delete(f"/api/classifiers/{made}/classes/red"), 422)


def test_a_label_may_hold_a_slash(client):
    form = shots("red", "green", "blue", each=1) | {"data": {"labels": ["a/b", "c", "d"]}}
    made = client.post("/api/classifiers", **form)
    path = f"/api/classifiers/{made.json()['id']}/classes/a%2Fb"
    assert [one["label"] for one in client.delete(path).json()["classes"]] == ["c", "d"]


def test_pictures_learnt_from_can_be_seen(client, known):
    shown = client.get(f"{known}/shots/0")
    assert shown.headers["content-type"] == "image/jpeg"
    assert shown.content.startswith(b"\xff\xd8")
    assert "the last one is 8" in error(client.get(f"{known}/shots/9"), 404)


def test_a_deleted_classifier_is_gone(client, known):
    assert client.delete(known).status_code == 204
    assert "no such classifier" in error(client.get(known), 404)
    assert client.get("/api/classifiers").json() == []


# ------------------------------------------------------------------------------------------------------- model files

def test_a_model_file_says_the_same_in_python_and_in_another_service(client, known, tmp_path):
    content = client.get(f"{known}/model").content
    (tmp_path / "model.dmn4").write_bytes(content)
    asked = picture("blue", 8)
    said = client.post(f"{known}/predictions", files={"picture": asked}).json()
    assert dmn4.load(tmp_path / "model.dmn4", backbone=Patches()).predict([asked]) == ["blue"]
    with client_of() as other:
        opened = other.post("/api/models", files={"model": ("../x.dmn4", content)})
        assert opened.status_code == 201
        path = f"/api/classifiers/{opened.json()['id']}"
        assert other.post(f"{path}/predictions", files={"picture": asked}).json() == said
        assert other.get(f"{path}/model").content == content


class Narrow(Patches):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))


def test_a_model_of_another_backbone_is_refused(client, known):
    with client_of(backbone=Narrow()) as other:
        made = other.post("/api/classifiers", **shots("red", "blue")).json()["id"]
        content = other.get(f"/api/classifiers/{made}/model").content
    assert "this service runs 'Patches'" in error(client.post("/api/models", files={"model": content}), 422)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x00" * 64, b"\xff" * 200])
def test_what_is_no_model_file_is_refused(client, content):
    assert "cannot open the model file" in error(client.post("/api/models", files={"model": ("m", content)}), 422)


def rewritten(tmp_path, change, tensors=lambda found: None):
    """The content of a model file whose description and tensors were changed."""
    from dmn4.classify.modelfile import write_modelfile

    path = tmp_path / "model.dmn4"
    pictures = [picture("red", 1), picture("red", 2), picture("blue", 1), picture("blue", 2)]
    FewShotClassifier(backbone=Patches()).fit(pictures, ["red", "red", "blue", "blue"]).save(path)
    held, about = taken_apart(path)
    change(about)
    tensors(held)
    write_modelfile(path, held, about)
    return path.read_bytes()


@pytest.mark.parametrize("change", [
    lambda about: about["parts"]["backbone"].update(name="conv4", weights="/etc/passwd.safetensors", sha256="0"),
    lambda about: about["parts"].update(method="protonet"),
    lambda about: about["parts"].update(method_options={"pyramid": "9999"}),
    lambda about: about["parts"]["transform"].update(size=60000),
    lambda about: about["classes"].update(type="<U900000000"),
    lambda about: about["classes"].update(type="|O"),
    lambda about: about["classes"].update(values=[["red"], ["blue"]]),
    lambda about: about["classes"].update(values=["red", "red"]),
    lambda about: about.pop("classes"),
    lambda about: about["parameters"].update(surprise=1),
    lambda about: about["calibration"].update(temperature="cold"),
    lambda about: about["calibration"].update(weights=[1.0, 2.0, 3.0]),
    lambda about: about["calibration"].update(surprise=1),
])
def test_nothing_in_a_model_file_is_believed(client, tmp_path, change):
    content = rewritten(tmp_path, change)
    assert "cannot open the model file" in error(client.post("/api/models", files={"model": content}), 422)


@pytest.mark.parametrize("change", [
    lambda held: held.update({"shots.labels": held["shots.labels"] + 1}),
    lambda held: held.update({"shots.labels": held["shots.labels"] * 0}),
    lambda held: held.update({"shots.labels": held["shots.labels"].float()}),
    lambda held: held.update({"shots.image": held["shots.image"] + 7}),
    lambda held: held.update({"unlabelled": held["shots.patches"]}),
    lambda held: held.update({"shots.patches": held["shots.patches"][..., :2]}),
    lambda held: held.update({"shots.patches": held["shots.patches"] * torch.nan}),
    lambda held: held.update({"pictures.bytes": held["pictures.bytes"] * 0}),
    lambda held: held.update({"pictures.ends": held["pictures.ends"][:2]}),
    lambda held: held.pop("shots.look"),
])
def test_tensors_of_a_model_file_have_to_fit_together(client, tmp_path, change):
    content = rewritten(tmp_path, lambda about: None, change)
    assert "cannot open the model file" in error(client.post("/api/models", files={"model": content}), 422)


def test_a_model_with_centred_descriptors_is_taken(client, tmp_path):
    content = rewritten(tmp_path, lambda about: about["parts"].update(method_options={"centre": "shots"}))
    assert client.post("/api/models", files={"model": content}).status_code == 201


# ---------------------------------------------------------------------------------------------------------- progress

class Slow(Patches):
    """A backbone that waits while there is a file `hold`; also in another process."""

    def __init__(self, hold):
        super().__init__()
        self.hold = hold

    def forward(self, images):
        while self.hold.exists():
            time.sleep(0.01)
        return super().forward(images)


@pytest.fixture
def hold(tmp_path):
    return tmp_path / "hold"


@pytest.fixture
def slow(hold):
    with client_of(Limits(workers=1, waiting=0), Slow(hold)) as one:
        one.app.state.service.pool.start()
        hold.touch()
        yield one
        hold.unlink(missing_ok=True)


def wait_until_ready(client, path):
    for _ in range(200):
        state = client.get(path).json()
        if state["state"] != "learning":
            return state
        time.sleep(0.02)
    raise AssertionError("still learning")


def test_progress_is_told_while_it_learns(slow, hold):
    made = slow.post("/api/classifiers", params={"wait": False}, **shots("red", "blue")).json()
    path = f"/api/classifiers/{made['id']}"
    assert (made["state"], made["total"]) == ("learning", 6)
    assert "still learning" in error(slow.post(f"{path}/predictions", files={"picture": picture("red")}), 409)
    hold.unlink()
    ready = wait_until_ready(slow, path)
    assert (ready["state"], ready["done"], ready["total"]) == ("ready", 6, 6)


def test_a_failure_is_kept_for_the_next_who_asks(client):
    form = shots("red", "blue")
    form["files"][4] = ("pictures", picture("blue")[:-900])
    made = client.post("/api/classifiers", params={"wait": False}, **form).json()
    failed = wait_until_ready(client, f"/api/classifiers/{made['id']}")
    assert failed["state"] == "failed"
    assert "truncated" in failed["error"]
    assert "truncated" in error(client.get(f"/api/classifiers/{made['id']}/model"), 409)
    assert "truncated" in error(client.post("/api/classifiers", **form), 422)
    assert len(client.get("/api/classifiers").json()) == 1


def test_more_work_than_the_queue_holds_is_refused(slow):
    slow.post("/api/classifiers", params={"wait": False}, **shots("red", "blue"))
    refused = slow.post("/api/classifiers", **shots("red", "blue"))
    assert "queue is full" in error(refused, 503)
    assert refused.headers["retry-after"] == "2"


def test_work_that_takes_too_long_is_stopped(hold):
    with client_of(Limits(work_seconds=0.5, workers=1), Slow(hold)) as client:
        worker = client.app.state.service.pool.start()
        hold.touch()
        assert "not done after 0.5 seconds" in error(client.post("/api/classifiers", **shots("red", "blue")), 504)
        worker.process.join(5)
        assert worker.process.exitcode in (-9, 255)              # killed; 255 where the fork server cannot tell
        assert client.get("/api/classifiers").json() == []
        hold.unlink()


def test_changes_at_the_same_time_all_count(client, known):
    def add(seed):
        form = {"data": {"labels": ["red"]}, "files": {"pictures": picture("red", seed)}}
        return client.post(f"{known}/shots", **form).status_code

    with ThreadPoolExecutor(4) as crowd:
        assert list(crowd.map(add, range(10, 18))) == [201] * 8
    counts = {one["label"]: len(one["pictures"]) for one in client.get(known).json()["classes"]}
    assert counts == {"red": 11, "green": 3, "blue": 3}


# ------------------------------------------------------------------------------------------------------------ limits

@pytest.mark.parametrize(("limits", "status", "message"), [
    (Limits(request_bytes=1000), 413, "1000 are the most"),
    (Limits(picture_bytes=100), 413, "picture 1 has"),
    (Limits(picture_pixels=100), 413, "48 x 40 pixels"),
    (Limits(pictures=5), 413, "6 pictures were sent at once; 5 are the most"),
    (Limits(shots=5), 413, "would hold 6 pictures; 5 are the most"),
    (Limits(classes=1), 413, "would have 2 classes; 1 are the most"),
    (Limits(label_letters=3), 422, "1 to 3 printable letters, not 'blu'"),
    (Limits(requests=0), 503, "try again"),
])
def test_what_is_beyond_a_limit_is_refused_with_its_name(limits, status, message):
    with client_of(limits) as client:
        assert message in error(client.post("/api/classifiers", **shots("red", "blue")), status)


@pytest.mark.parametrize(("form", "message"), [
    ({"data": {"labels": ["red", "blue"]}, "files": [("pictures", picture("red")), ("pictures", b"GIF89a")]},
     "picture 2 cannot be read"),
    ({"data": {"labels": ["red", "blue"]}, "files": {"pictures": picture("red")}}, "2 labels were sent for 1 pictures"),
    ({"data": {"labels": ["red"]}, "files": {"pictures": picture("red")}}, "pictures of one class"),
    ({"data": {"labels": ["\x07", "b"]}, "files": {"pictures": picture("red")}}, "printable letters, not '\\x07'"),
    ({"data": {"labels": [" ", "b"]}, "files": {"pictures": picture("red")}}, "printable letters, not ''"),
    ({"data": {"labels": ["red"]}}, "body.pictures: Field required"),
])
def test_a_mistake_is_one_line(client, form, message):
    assert message in error(client.post("/api/classifiers", **form), 422)


def test_a_body_of_unknown_length_is_cut_off():
    def parts():
        for _ in range(100):
            yield b"x" * 1000

    with client_of(Limits(request_bytes=10_000)) as client:
        kind = {"content-type": "multipart/form-data; boundary=b"}
        answer = client.post("/api/models", content=parts(), headers=kind)
        assert "larger than 10000 bytes" in error(answer, 413)


def test_an_upload_that_trickles_is_given_up():
    async def trickle():
        await asyncio.sleep(10)

    async def read(scope, receive, send):
        await receive()

    guard = Guard(read, Limits(upload_seconds=0.05))
    scope = {"type": "http", "headers": [(b"host", b"localhost")]}
    with pytest.raises(Exception, match=r"the upload took over 0\.05 seconds"):
        asyncio.run(guard(scope, trickle, None))
    assert guard.running == 0


def test_the_least_recently_used_classifier_leaves():
    with client_of(Limits(classifiers=2)) as client:
        first, second = (client.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"] for _ in "ab")
        client.get(f"/api/classifiers/{first}")
        third = client.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
        assert [one["id"] for one in client.get("/api/classifiers").json()] == [third, first]
        assert "left to make room" in error(client.get(f"/api/classifiers/{second}"), 404)


def test_nobody_computes_for_a_classifier_that_is_gone(slow, hold):
    made = slow.post("/api/classifiers", params={"wait": False}, **shots("red", "blue")).json()
    worker, = slow.app.state.service.pool.workers()
    slow.delete(f"/api/classifiers/{made['id']}")
    worker.process.join(5)
    assert worker.process.exitcode in (-9, 255)              # killed; 255 where the fork server cannot tell
    hold.unlink()
    assert slow.post("/api/classifiers", **shots("red", "blue")).status_code == 201


# ----------------------------------------------------------------------------------------------------------- defence

def test_a_foreign_host_is_refused(client):
    assert "not called by that name" in error(client.get("/api/about", headers={"host": "evil.example:8000"}), 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "http://[x"])
def test_the_page_of_another_site_is_refused(client, origin):
    assert "other sites" in error(client.post("/api/samples/fruit", headers={"origin": origin}), 403)


def test_the_page_itself_is_not_refused_and_no_other_site_may_read(client):
    answer = client.get("/api/about", headers={"origin": "http://localhost"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_method_that_a_path_does_not_know_is_told_those_it_knows(client, known):
    answer = client.put(known)
    assert error(answer, 405) == "Method Not Allowed"
    assert answer.headers["allow"] == "DELETE, GET"


def test_no_name_of_a_clients_file_is_kept(client, known):
    everything = client.get(f"{known}/model").content + json.dumps(client.get("/api/classifiers").json()).encode()
    assert b"../.." not in everything
    assert b".png" not in everything


def test_an_unforeseen_error_is_one_line_too(monkeypatch):
    with client_of(raise_server_exceptions=False) as client:
        monkeypatch.setattr(Classifiers, "all", lambda self, who: 1 / 0)
        assert error(client.get("/api/classifiers"), 500) == "the service made a mistake; its log says more"
        monkeypatch.undo()


@pytest.mark.parametrize("path", ["/page/../app.py", "/page/%2e%2e/app.py", "/page/app.py", "/etc/passwd", "/docs"])
def test_only_the_files_of_the_page_are_served(client, path):
    assert client.get(path).status_code == 404
    assert list(client.get(path).json()) == ["error"]


def test_the_page_names_nothing_from_elsewhere(client):
    page = client.get("/").text
    names = [word.split('"')[0] for word in page.split('href="')[1:] + page.split('src="')[1:]]
    assert names
    for name in names:
        assert name.startswith(("/", "#")), name
        assert name.startswith("#") or client.get(name).status_code == 200


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("127.8.8.8", True), ("localhost", True), ("::1", True), ("0.0.0.0", False),
    ("example.org", False)])
def test_loopback_is_told_from_the_rest(host, expected):
    assert is_loopback(host) == expected


def test_a_port_that_is_taken_is_one_line():
    with listen("127.0.0.1", 0) as first, pytest.raises(dmn4.InputError, match="in use; try --port 0"):
        listen("127.0.0.1", first.getsockname()[1])


# ------------------------------------------------------------------------------------------------------------ sample

def test_a_sample_that_is_not_there_says_how_to_fetch_it(client, monkeypatch, tmp_path):
    sample.fruit_sample.cache_clear()
    monkeypatch.setattr("dmn4.data.samples.cache_folder", lambda: tmp_path)
    assert "fetch them with `dmn4 data fruit`" in error(client.post("/api/samples/fruit"), 422)
    assert client.get("/api/about").json()["samples"] == []


def test_the_sample_teaches_and_asks(client, monkeypatch):
    drawn = sample.Sample([picture("red", 1), picture("red", 2), picture("blue", 1)], ["red", "red", "blue"],
                          [picture("green", 1)], ["green"])
    monkeypatch.setattr("dmn4.web.routes.classifiers.fruit_sample", lambda: drawn)
    made = client.post("/api/samples/fruit").json()
    assert [one["label"] for one in made["classes"]] == ["blue", "red"]
    question, = client.get("/api/samples/fruit").json()
    assert question["answer"] == "green"
    assert client.get(question["picture"]).content == drawn.questions[0]
    assert "no photograph 1" in error(client.get("/api/samples/fruit/1"), 404)


def test_limits_can_be_read(client):
    about = client.get("/api/about").json()
    assert about["limits"]["classifiers"] == Limits().classifiers
    assert about["backbone"] == "Patches"
    assert replace(Limits(), **about["limits"]) == Limits()


# --------------------------------------------------------------------------------------------- classifiers of the owner

@pytest.fixture
def model(tmp_path):
    """A file as `dmn4 fit` writes it."""
    pictures = [picture(colour, seed) for colour in ("red", "green") for seed in range(3)]
    path = tmp_path / "my colours.dmn4"
    FewShotClassifier(backbone=Patches()).fit(pictures, ["red"] * 3 + ["green"] * 3).save(path)
    return path


def test_a_model_of_the_owner_answers_under_the_name_of_its_file(model):
    with client_of() as client:
        client.app.state.service.host(model)
        assert client.get("/api/about").json()["hosted"] == ["my-colours"]
        said = client.post("/api/classifiers/my-colours/predictions", files={"picture": picture("green", 7)}).json()
        expected = dmn4.load(model, backbone=Patches()).predict_proba([picture("green", 7)])[0]
    assert said["label"] == "green"
    assert said["probabilities"] == pytest.approx({"green": expected[0], "red": expected[1]})


def test_a_model_of_the_owner_neither_leaves_to_make_room_nor_is_deleted(model):
    with client_of(Limits(classifiers=2)) as client:
        client.app.state.service.host(model)
        for _ in range(3):
            client.post("/api/classifiers", **shots("red", "blue"))
        assert len(client.get("/api/classifiers").json()) == 3
        assert "came with the service" in error(client.delete("/api/classifiers/my-colours"), 409)
        assert client.get("/api/classifiers/my-colours").json()["state"] == "ready"


def test_who_changes_a_model_of_the_owner_gets_a_copy(model):
    with client_of() as client:
        client.app.state.service.host(model)
        before = client.get("/api/classifiers/my-colours").json()
        taught = client.post("/api/classifiers/my-colours/shots", **shots("blue")).json()
        left = client.delete(f"/api/classifiers/{taught['id']}/classes/red").json()
        forgetful = client.delete("/api/classifiers/my-colours/classes/red")
        assert client.get("/api/classifiers/my-colours").json() == before
    assert [one["label"] for one in taught["classes"]] == ["blue", "green", "red"]
    assert [one["label"] for one in left["classes"]] == ["blue", "green"]
    assert left["id"] == taught["id"] != "my-colours"
    assert "one class is left" in error(forgetful, 422)
    assert before["id"] == "my-colours"


def test_a_model_that_cannot_be_hosted_is_named(model, tmp_path):
    service = create_app(Patches()).state.service
    service.host(model)
    with pytest.raises(InputError, match="two models are called 'my-colours'"):
        service.host(model)
    with pytest.raises(InputError, match=r"there is no model file '.*none.dmn4'"):
        service.host(tmp_path / "none.dmn4")
    (tmp_path / "broken.dmn4").write_bytes(model.read_bytes()[:100])
    with pytest.raises(InputError, match=r"broken.dmn4': cannot open the model file"):
        service.host(tmp_path / "broken.dmn4")


def test_a_missing_model_ends_the_command_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", str(tmp_path / "none.dmn4")])
    said = capsys.readouterr().err
    assert said.startswith("dmn4: error: ")
    assert "none.dmn4' does not exist" in said
    assert said.count("\n") == 1
