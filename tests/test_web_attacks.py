"""What was found by attack, and that it does no harm any more: memory, time, crashes, crowds, strange requests."""

import asyncio
import json
import socket
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from urllib.parse import urlsplit

import httpx
import pytest
import torch
from PIL import Image
from toy_models import taken_apart
from toy_service import COLOURS, Patches, picture, running, shots

from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.modelfile import write_modelfile
from dmn4.classify.pictures import Pictures
from dmn4.web import server
from dmn4.web.app import create_app
from dmn4.web.guard import Guard, hostname
from dmn4.web.limits import Limits

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient


def client_of(limits=None, backbone=None):
    return TestClient(create_app(backbone or Patches(), limits or Limits(workers=1)), "http://localhost")


@pytest.fixture(scope="module")
def client():
    with client_of(Limits(workers=1, shots=500)) as one:
        yield one


@pytest.fixture
def model(tmp_path):
    """A model file of red and blue, and a function that rewrites it and returns its content."""
    path = tmp_path / "model.dmn4"
    pictures = [picture(colour, seed) for colour in ("red", "blue") for seed in (1, 2)]
    FewShotClassifier(backbone=Patches()).fit(pictures, ["red", "red", "blue", "blue"]).save(path)

    def rewritten(tensors=lambda held: None, description=lambda about: None):
        held, about = taken_apart(path)
        tensors(held)
        description(about)
        write_modelfile(path, held, about)
        return path.read_bytes()

    return rewritten


def jpeg(width, height):
    out = BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "JPEG")
    return out.getvalue()


def packed(pictures):
    """Pictures as the tensors of a model file."""
    return {"pictures.bytes": torch.frombuffer(bytearray(b"".join(pictures)), dtype=torch.uint8),
            "pictures.ends": Pictures(pictures).ends}


def peak(client):
    """The most memory that a worker has had, in bytes."""
    worker, = client.app.state.service.pool.workers()
    with open(f"/proc/{worker.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def refused(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


# ---------------------------------------------------------------------------------------------- 1, 2, 4, 5: model files

def test_a_small_model_file_of_very_many_pictures_takes_no_memory(client, model):
    def many(held):
        count, small = 20_000, jpeg(2, 2)
        held |= packed([small] * count)
        held["shots.patches"] = held["shots.patches"][:1, :1, :1].expand(count, -1, -1, -1).contiguous()
        held["shots.means"] = held["shots.means"][:1].expand(count, -1).contiguous()
        for name in ("labels", "look", "image"):
            held[f"shots.{name}"] = torch.zeros(count, dtype=torch.int64)

    client.app.state.service.pool.start()
    before = peak(client)
    assert "would hold 20000 pictures; 500 are the most" in refused(
        client.post("/api/models", files={"model": model(many)}), 413)
    assert peak(client) - before < 100_000_000


def test_a_picture_in_a_model_file_is_no_larger_than_those_that_are_learnt(client, model):
    def large(held):
        held |= packed([jpeg(6000, 5000)] * 4)

    start = time.monotonic()
    assert "has 6000 x 5000 pixels, not 32 x 32" in refused(
        client.post("/api/models", files={"model": model(large)}), 422)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("number", ["1e9999", "-1e999", "NaN   "])
def test_a_calibration_that_is_not_finite_is_refused(client, model, number):
    content = model(description=lambda about: about["calibration"].update(temperature=123456))
    assert content.count(b"123456") == 1
    answer = client.post("/api/models", files={"model": content.replace(b"123456", number.encode())})
    assert "cannot open the model file: " in refused(answer, 422)


def test_a_label_of_a_million_letters_is_refused_before_an_array_is_made(client, model):
    client.app.state.service.pool.start()
    before = peak(client)
    content = model(description=lambda about: about["classes"].update(values=["r" * 1_000_000, "b"]))
    assert len(refused(client.post("/api/models", files={"model": content}), 422)) < 300
    form = shots("red", "blue", each=1) | {"data": {"labels": ["r" * 500_000, "b"]}}
    assert "a label is 1 to 60 printable letters" in refused(client.post("/api/classifiers", **form), 422)
    assert peak(client) - before < 100_000_000


# ------------------------------------------------------------------------------------ limits of a worker, and its death

def test_what_takes_too_much_memory_is_refused_and_the_service_goes_on():
    large = BytesIO()
    Image.new("RGBA", (5000, 5000)).save(large, "PNG")
    with client_of(Limits(workers=1, worker_bytes=150_000_000)) as client:
        known = "/api/classifiers/" + client.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
        answer = client.post(f"{known}/predictions", files={"picture": large.getvalue()})
        assert "more than 150 MB of memory" in refused(answer, 413)
        assert client.post(f"{known}/predictions", files={"picture": picture("red", 9)}).json()["label"] == "red"


class Deadly(Patches):
    """A backbone that ends its process when it sees something grey."""

    def forward(self, images):
        colours = super().forward(images).mean((2, 3))
        grey = torch.tensor(COLOURS["grey"]) / 127.5 - 1
        if ((colours - grey).abs().amax(1) < 0.05).any():
            import os

            os._exit(11)
        return super().forward(images)


def test_a_picture_that_kills_a_worker_harms_nobody_else():
    with client_of(Limits(workers=1), Deadly()) as client, ThreadPoolExecutor(8) as crowd:
        known = "/api/classifiers/" + client.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
        colours = ["red", "grey", "blue", "red", "blue", "red"]
        answers = list(crowd.map(lambda one: client.post(f"{known}/predictions", files={"picture": picture(one, 9)}),
                                 colours))
        for colour, answer in zip(colours, answers, strict=True):
            assert answer.status_code == (413 if colour == "grey" else 200), (colour, answer.text)
            assert colour == "grey" or answer.json()["label"] == colour
        assert client.app.state.service.pool.counts.killed >= 1


# --------------------------------------------------------------------------------------------------------- 3, 6: crowds

def test_what_is_still_learning_does_not_leave_to_make_room(tmp_path):
    from test_web import Slow

    hold = tmp_path / "hold"
    with client_of(Limits(workers=1, classifiers=1), Slow(hold)) as client:
        client.app.state.service.pool.start()
        hold.touch()
        first = client.post("/api/classifiers", params={"wait": False}, **shots("red", "blue")).json()["id"]
        second = client.post("/api/classifiers", params={"wait": False}, **shots("red", "blue"))
        assert "still learning; try again" in refused(second, 503)
        assert second.headers["retry-after"] == "2"
        assert client.get(f"/api/classifiers/{first}").json()["state"] == "learning"
        hold.unlink()


def test_answers_in_a_crowd_are_those_given_alone_to_the_bit():
    with client_of(Limits(workers=2)) as client, ThreadPoolExecutor(8) as crowd:
        known = ["/api/classifiers/" + client.post("/api/classifiers", **shots(*colours, each=2)).json()["id"]
                 for colours in (("red", "blue"), ("green", "blue", "red"))]
        asked = [(path, picture(colour, seed)) for path in known for colour in COLOURS for seed in range(10, 14)]

        def ask(one):
            return client.post(f"{one[0]}/predictions", files={"picture": one[1]}).json()

        def change(seed):
            client.post("/api/classifiers", **shots("green", "grey", each=1))

        alone = [ask(one) for one in asked]
        changes = [crowd.submit(change, seed) for seed in range(3)]
        assert list(crowd.map(ask, asked)) == alone
        assert [one.result() for one in changes] == [None] * 3
        counts = client.app.state.service.pool.counts
        assert counts.batches < counts.pictures                # some went through the network together


# ------------------------------------------------------------------------------------------------ 7: strange requests

@pytest.mark.parametrize("host", ["me@localhost", "me:secret@localhost:8000", "localhost/", "localhost?x", "a b"])
def test_a_host_that_is_more_than_a_name_is_none(host):
    assert hostname(host) is None
    assert hostname("localhost:8000") == "localhost"


def test_headers_are_limited_and_answers_say_what_a_page_may_do(client):
    assert refused(client.get("/api/about", headers={"x": "y" * 90_000}), 431)
    policy = client.get("/").headers["content-security-policy"]
    assert "base-uri 'none'" in policy
    assert "form-action 'self'" in policy


def test_one_client_with_endless_bodies_does_not_block_the_others():
    limits = Limits(workers=1, requests=64, client_requests=8)
    with running(Patches(), limits=limits) as address:
        port = int(address.rsplit(":", 1)[1])
        greedy = [endless(port) for _ in range(20)]
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=20) as other:
            start = time.monotonic()
            assert other.get(f"{address}/api/about").status_code == 200
            assert time.monotonic() - start < 5
        answer = httpx.get(f"{address}/api/about", timeout=20)
        assert "of your requests are being served" in refused(answer, 429)
        for one in greedy:
            one.close()


def endless(port):
    """A connection with a request whose body does not come."""
    one = socket.create_connection(("127.0.0.1", port))
    one.sendall(b"POST /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
                b"Content-Length: 1000000\r\n\r\n--b\r\n")
    return one


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_headers_that_dribble_are_cut_off_on_a_connection_new_or_used(before, monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with running(Patches(), http=server.PatientProtocol) as address, socket.create_connection(
            (urlsplit(address).hostname, urlsplit(address).port), timeout=20) as one:
        one.sendall(before)
        answer = b""
        while before and b"alive" not in answer:
            answer += one.recv(9999)
        start = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - start < 20:
                one.sendall(b"G")
                one.settimeout(0.05)
                with suppress(TimeoutError):
                    if not one.recv(9999):
                        break
        assert time.monotonic() - start < 20


def test_a_body_that_hardly_moves_is_cut_off():
    async def ask():
        async def drop():
            await asyncio.sleep(0.02)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def read(scope, receive, send):
            while True:
                await receive()

        scope = {"type": "http", "headers": [(b"host", b"localhost")]}
        await Guard(read, Limits(upload_seconds=0.1))(scope, drop, None)

    with pytest.raises(Exception, match="the upload took over"):
        asyncio.run(ask())


def test_work_for_a_client_that_went_away_is_stopped():
    stopped = threading.Event()

    async def ask():
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])

        async def receive():
            return next(messages)

        async def app(scope, receive, send):
            await receive()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped.set()
                raise

        scope = {"type": "http", "method": "POST", "headers": [(b"host", b"localhost")]}
        await asyncio.wait_for(Guard(app, Limits())(scope, receive, None), 10)

    asyncio.run(ask())
    assert stopped.is_set()


def test_requests_have_numbers_and_are_logged(client, caplog):
    with caplog.at_level("INFO", "dmn4.access"):
        answer = client.get("/api/classifiers/none", headers={"x-request-id": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    line = json.loads(caplog.messages[-1])
    assert (line["request"], line["status"], line["path"]) == ("abc-1", 404, "/api/classifiers/none")
    assert client.get("/healthz", headers={"x-request-id": "no\tnumber"}).headers["x-request-id"] != "no\tnumber"
    metrics = client.get("/metrics").text
    assert 'dmn4_requests_total{method="GET",route="/api/classifiers/{classifier}",status="404"} 1.0' in metrics
    assert client.get("/readyz").json() == {"status": "ready"}
