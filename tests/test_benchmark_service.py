"""The load test itself: it counts what it asks, and sees what goes wrong."""

import os
from types import SimpleNamespace

from toy_service import Patches, running

from dmn4.benchmark.crowd import MIX, Client, drawn_pictures
from dmn4.benchmark.service import measure, memory_of, memory_with_children


def served(address):
    """A replica that runs in this process."""
    return SimpleNamespace(address=address, memory=memory_of(os.getpid()))


def test_a_short_load_is_borne_without_an_error():
    with running(Patches()) as address:
        found = measure([served(address)], None, clients=3, seconds=1.0, floor=lambda seconds: 100.0)
    assert found.requests >= 3
    assert found.errors == found.refused == found.wrong == found.retried == found.killed == 0
    assert 0 < found.median <= found.p95 <= found.p99
    assert found.ratio == found.answers / found.floor > 0
    assert found.memory_end > 50
    assert f"{found.requests:,} requests, 0 errors, 0 wrong answers, 0 refused" in found.text


def test_every_kind_of_request_is_answered_and_a_wrong_answer_is_seen():
    pictures, labels = drawn_pictures()
    with running(Patches()) as address:
        client = Client([served(address)], None, pictures, labels, seed=1)
        client.known = client.create()
        client.expect(client.known)
        for kind in MIX:
            assert client.request(kind, 1), kind
            assert client.worst < 400, kind
        client.expected[1] = client.expected[1] | {"label": "another"}
        assert not client.request("predict", 1)
        client.known = "/api/classifiers/gone"
        client.request("look", 1)
        assert client.worst == 404


def test_a_replica_that_is_gone_is_passed_over():
    pictures, labels = drawn_pictures()
    with running(Patches()) as address:
        client = Client([served("http://127.0.0.1:9"), served(address)], None, pictures, labels, seed=0)
        client.call("GET", "/")
        assert (client.worst, client.retried) == (200, 1)
        client.connection, client.place = None, 0
        client.call("DELETE", "/api/classifiers/gone")        # perhaps the replica that is gone had done it
        assert (client.worst, client.retried) == (200, 2)
        client.call("DELETE", "/api/classifiers/gone")
        assert client.worst == 404


def test_the_mix_is_a_hundred_and_memory_can_be_read():
    assert sum(MIX.values()) == 100
    assert memory_with_children(os.getpid()) >= memory_of(os.getpid()) > 10
    assert memory_of(2**30) == memory_with_children(2**30) == 0
