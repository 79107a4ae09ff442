"""The load test itself: it counts what it asks, and sees what goes wrong."""

import os

import httpx
from toy_service import Patches, running

from dmn4.benchmark.service import MIX, drawn_pictures, measure, memory_of, request
from dmn4.web.engine import Engine


def test_a_short_load_is_borne_without_an_error():
    with running(Engine(Patches())) as address:
        found = measure(address, os.getpid(), clients=3, seconds=1.0)
    assert found.requests >= 3
    assert found.errors == found.refused == 0
    assert 0 < found.median <= found.p95 <= found.p99 < found.seconds
    assert found.memory_end > 50
    assert f"{found.requests:,} requests, 0 errors, 0 refused" in found.text


def test_every_kind_of_request_is_answered():
    pictures, labels = drawn_pictures()
    with running(Engine(Patches())) as address, httpx.Client(base_url=address) as client:
        form = {"data": {"labels": labels}, "files": [("pictures", one) for one in pictures]}
        known = client.post("/api/classifiers", **form).json()["id"]
        for kind in MIX:
            assert request(client, kind, known, 1, pictures, labels) < 300, kind
        assert request(client, "predict", "gone", 1, pictures, labels) == 404
        assert [one["id"] for one in client.get("/api/classifiers").json()] == [known]


def test_the_mix_is_a_hundred_and_memory_can_be_read():
    assert sum(MIX.values()) == 100
    assert memory_of(os.getpid()) > 10
    assert memory_of(2**30) == 0
