"""A store for several machines: three replicas on PostgreSQL and one shared place for files."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import postgres
import pytest
from toy_service import Patches, picture, shots

from dmn4.web.app import create_app
from dmn4.web.limits import Limits
from dmn4.web.store import Store
from dmn4.web.store.backup import backup, check, restore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

pytest.importorskip("psycopg", reason="the store in PostgreSQL is not tested: psycopg is not installed")
if not postgres.PROGRAMS:
    pytest.skip("the store in PostgreSQL is not tested: it is not here (apt-get install postgresql)",
                allow_module_level=True)


@pytest.fixture(scope="module")
def server():
    with postgres.server() as folder:
        yield folder


@pytest.fixture
def database(server, request):
    """The URL of an empty database."""
    return postgres.database(server, f"db{abs(hash(request.node.name))}")


def test_three_replicas_serve_the_same_and_lose_no_change(database, tmp_path):
    limits = Limits(workers=1, classifiers=99)
    with ExitStack() as stack:
        stores = [Store(database, f"file://{tmp_path}/files", limits) for _ in range(3)]
        replicas = [stack.enter_context(TestClient(create_app(Patches(), limits, store=store),
                                                   "http://localhost")) for store in stores]
        path = "/api/classifiers/" + replicas[0].post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
        asked = {"picture": picture("red", 9)}
        said = [replica.post(f"{path}/predictions", files=asked).json() for replica in replicas]
        assert said[0] == said[1] == said[2]

        def add(seed):
            form = {"data": {"labels": ["red"]}, "files": {"pictures": picture("red", seed)}}
            return replicas[seed % 3].post(f"{path}/shots", **form).status_code

        with ThreadPoolExecutor(6) as crowd:
            assert list(crowd.map(add, range(9))) == [201] * 9
        states = [replica.get(path).json() for replica in replicas]
        assert states[0] == states[1] == states[2]
        assert {one["label"]: len(one["pictures"]) for one in states[0]["classes"]} == {"red": 10, "blue": 1}
        learning = replicas[1].post("/api/classifiers", params={"wait": False}, **shots("red", "green")).json()["id"]
        assert replicas[2].get(f"/api/classifiers/{learning}").json()["state"] in ("learning", "ready")
        replicas[2].delete(path)
        assert [replica.get(path).status_code for replica in replicas] == [404] * 3
        for store in stores:
            store.close()


def test_a_store_moves_from_a_folder_to_postgresql_and_back(database, tmp_path):
    with TestClient(create_app(Patches(), Limits(workers=1), store=Store(str(tmp_path / "folder"))),
                    "http://localhost") as client:
        made = client.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
        backup(client.app.state.service.store, tmp_path / "one.zip")
    store = Store(database, str(tmp_path / "files"))
    assert restore(tmp_path / "one.zip", store) == 1
    assert list(check(store)) == []
    store.tokens.add("ann")
    assert [one.id for one in store.classifiers.all(None)] == [made]
    assert backup(store, tmp_path / "two.zip") == 1
    store.close()
    again = Store(str(tmp_path / "again"))
    assert restore(tmp_path / "two.zip", again) == 1
    assert [token.name for token in again.tokens.all()] == ["ann"]
    again.close()
