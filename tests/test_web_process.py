"""The service as a process: killed at any moment it loses nothing that was finished; told to end it ends."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from test_web import Slow
from toy_service import Patches, picture, shots

from dmn4.web.store import Store
from dmn4.web.store.backup import check

HERE = Path(__file__).parent
START = """
from pathlib import Path
from test_web import Slow
from toy_service import Patches
from dmn4.web.limits import Limits
from dmn4.web.server import serve
limits = Limits(workers=2, revisions=5, drain_seconds=2, classifiers=99)
serve(port=0, backbone={backbone}, store={store!r}, limits=limits)
"""


@contextmanager
def process(store, backbone="Patches()"):
    """A service in a process of its own: the process, and a client. It is killed at the end if it still runs."""
    code = START.format(backbone=backbone, store=str(store))
    found = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=os.environ | {"PYTHONPATH": f"{HERE}:{HERE.parent}", "PYTHONUNBUFFERED": "1"})
    try:
        address = found.stdout.readline().split()[2]
        with httpx.Client(base_url=address, timeout=60) as client:
            yield found, client
    finally:
        found.kill()
        found.wait()


def test_the_processes_run_the_same_toy():
    assert issubclass(Slow, Patches)


@pytest.mark.parametrize("changes", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_in_the_middle_of_random_changes_loses_none_that_was_finished(tmp_path, changes):
    chance, known, doubt = random.Random(7), {}, set()
    with process(tmp_path / "store") as (service, client):
        for number in range(changes):
            if number == changes * 6 // 10:
                kill_soon(service, 0.02)
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


def kill_soon(service, seconds):
    """Kill a process from another one, in a moment."""
    subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep({seconds}); os.kill({service.pid}, 9)"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_within_ten_seconds_whatever_it_computes(tmp_path, number):
    hold = tmp_path / "hold"
    with process(tmp_path / "store", f"Slow(Path({str(hold)!r}))") as (service, client):
        hold.touch()
        client.post("/api/classifiers", params={"wait": False}, **shots("red", "blue", each=1))
        children = below(service.pid)
        assert len(children) >= 2                             # a worker, and the process that it was copied from
        start = time.monotonic()
        service.send_signal(number)
        service.wait(20)
        assert time.monotonic() - start < 10
        while any(alive(child) for child in children):
            assert time.monotonic() - start < 30, "a worker outlived the service"
            time.sleep(0.05)


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
