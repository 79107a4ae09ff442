"""The service as a process: killed at any moment it loses nothing that was finished; told to end it ends."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from toy_service import picture, shots

from dmn4.web.store import Store
from dmn4.web.store.backup import check

HERE = Path(__file__).parent
START = """
from dmn4.web.limits import Limits
from dmn4.web.server import serve

class InWorkers:
    # The service itself does without torch: what takes its place in a worker is made there.
    def __reduce__(self):
        return eval, ({backbone!r},)

limits = Limits(workers=2, revisions=5, classifiers=99)
serve(port=0, backbone=InWorkers(), store={store!r}, limits=limits)
"""
TOY = "__import__('toy_service').Patches()"
SLOW = "__import__('test_web').Slow(__import__('pathlib').Path({hold!r}))"


@contextmanager
def process(store, backbone=TOY, temporary=None):
    """A service in a process of its own: the process, and a client. It is killed at the end if it still runs."""
    code = START.format(backbone=backbone, store=store and str(store))
    more = {"PYTHONPATH": f"{HERE}:{HERE.parent}", "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary or "")}
    found = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=os.environ | more)
    try:
        address = found.stdout.readline().split()[2]
        with httpx.Client(base_url=address, timeout=60) as client:
            yield found, client
    finally:
        found.kill()
        found.wait()


@pytest.mark.parametrize("changes", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_in_the_middle_of_random_changes_loses_none_that_was_finished(tmp_path, changes):
    chance, known, doubt = random.Random(7), {}, set()
    with process(tmp_path / "store") as (service, client):
        for number in range(changes):
            if number == changes * 6 // 10:
                threading.Timer(0.02, service.kill).start()
            try:
                known |= change(client, chance, known, doubt)
            except httpx.HTTPError:
                break
            doubt.clear()
        assert number < changes - 1, "it was to be killed in the middle"
    with process(tmp_path / "store") as (_, client):
        there = {one["id"]: state(one) for one in client.get("/api/classifiers").json() if one["revision"]}
        for identity, expected in known.items():
            if identity not in doubt:
                assert there.get(identity) == expected
        assert len(set(there) - set(known)) <= 1              # at most the change that nobody was told the end of
        for identity in there:
            asked = client.post(f"/api/classifiers/{identity}/predictions", files={"picture": picture("red", 9)})
            assert asked.status_code == 200
        assert change(client, chance, {}, set())
    store = Store(str(tmp_path / "store"))
    assert list(check(store)) == []
    store.close()


def change(client, chance, known, doubt):
    """Make a random change; the classifiers it changed as they are afterwards. `doubt` holds what is being changed."""
    kind = chance.choice(["create", "add", "add", "forget", "back", "delete"]) if len(known) > 2 else "create"
    living = [identity for identity, one in known.items() if one is not None]
    if kind == "create" or not living:
        made = client.post("/api/classifiers", **shots(*chance.sample(["red", "green", "blue"], 2), each=1)).json()
        return {made["id"]: state(made)}
    identity = chance.choice(living)
    doubt.add(identity)
    path = f"/api/classifiers/{identity}"
    if kind == "delete":
        assert client.delete(path).status_code == 204
        return {identity: None}
    if kind == "add":
        form = {"data": {"labels": ["lime"]}, "files": {"pictures": picture("green", chance.randrange(99))}}
        answer = client.post(f"{path}/shots", **form)
    elif kind == "forget":
        answer = client.delete(f"{path}/classes/lime")
        if answer.status_code == 404:
            return {}
    else:
        answer = client.post(f"{path}/revisions/{client.get(f'{path}/revisions').json()[-1]['revision']}")
    assert answer.is_success, answer.text
    return {identity: state(answer.json())}


def state(one):
    """What has to be the same after a restart."""
    assert one["state"] == "ready"
    return one["revision"], [(label["label"], label["pictures"]) for label in one["classes"]]


@pytest.mark.parametrize(("number", "lasting"),
                         [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)])
def test_told_to_end_it_ends_within_ten_seconds_whatever_it_computes(tmp_path, number, lasting):
    hold = tmp_path / "hold"
    store = tmp_path / "store" if lasting else None
    slow = SLOW.format(hold=str(hold))
    with (TemporaryDirectory() as temporary,                  # the path of a socket below it must be short
          process(store, slow, temporary) as (service, client), ThreadPoolExecutor() as threads):
        hold.touch()
        learning = {"url": "/api/classifiers", "params": {"wait": False}, **shots("red", "blue", each=1)}
        client.post(**learning)
        waiting = threads.submit(httpx.post, client.base_url.join("/api/classifiers"), timeout=60,
                                 **shots("red", "blue", each=1))
        client.post(**learning)
        children = below(service.pid)
        assert len(children) >= 2                             # a worker, and the process that it was copied from
        start = time.monotonic()
        service.send_signal(number)
        service.wait(30)
        assert time.monotonic() - start < 10
        while any(alive(child) for child in children):
            assert time.monotonic() - start < 30, "a worker outlived the service"
            time.sleep(0.05)
        assert waiting.result(30).status_code == 503
        assert not list(Path(temporary).glob("dmn4-*"))


def below(process):
    """The numbers of all processes that a process started, and of those that they started."""
    lines = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.split("\n")
    children = [int(line.split()[0]) for line in lines if line.split()[1:] == [str(process)]]
    return children + [further for child in children for further in below(child)]


def alive(process):
    """Whether a process still runs."""
    status = Path(f"/proc/{process}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except OSError:
        return False
