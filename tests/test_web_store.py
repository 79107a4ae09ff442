"""What the service was told to keep: revisions, restarts, two services at once, backups."""

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import fsspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from toy_service import Patches, picture, shots

from dmn4.cli import main
from dmn4.errors import InputError
from dmn4.web.app import create_app
from dmn4.web.limits import Limits
from dmn4.web.store import Store
from dmn4.web.store.backup import backup, check, restore
from dmn4.web.store.tables import metadata

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

ASKED = {"picture": picture("red", 9)}


@contextmanager
def served(place, files=None, **limits):
    """A client of a service over a store; the service ends with the block."""
    limits = Limits(workers=1, **limits)
    store = Store(str(place), files, limits)
    with TestClient(create_app(Patches(), limits, store=store), "http://localhost") as client:
        yield client
    store.close()


def learn(client, *colours):
    return "/api/classifiers/" + client.post("/api/classifiers", **shots(*colours, each=1)).json()["id"]


def add(client, path, colour="red", seed=5):
    form = {"data": {"labels": [colour]}, "files": {"pictures": picture(colour, seed)}}
    return client.post(f"{path}/shots", **form)


def counts(answer):
    return {one["label"]: len(one["pictures"]) for one in answer.json()["classes"]}


def test_what_was_taught_is_there_after_a_restart(tmp_path):
    with served(tmp_path / "store") as client:
        path = learn(client, "red", "green", "blue")
        add(client, path)
        before = client.get(path).json(), client.post(f"{path}/predictions", files=ASKED).json()
        model = client.get(f"{path}/model").content
        assert client.get("/api/about").json()["lasting"]
    with served(tmp_path / "store") as client:
        assert (client.get(path).json(), client.post(f"{path}/predictions", files=ASKED).json()) == before
        assert client.get(f"{path}/model").content == model


def test_every_change_can_be_gone_back_to(tmp_path):
    with served(tmp_path / "store") as client:
        path = learn(client, "red", "green", "blue")
        first = client.post(f"{path}/predictions", files=ASKED).json()
        add(client, path, "grey")
        client.delete(f"{path}/classes/green")
        changes = client.get(f"{path}/revisions").json()
        assert [(one["revision"], one["what"], one["classes"]) for one in changes] == [
            (3, "forgot green", 3), (2, "added grey", 4), (1, "learnt red, green, blue", 3)]
        back = client.post(f"{path}/revisions/1")
        assert (back.status_code, back.json()["revision"]) == (201, 4)
        assert counts(back) == {"red": 1, "green": 1, "blue": 1}
        assert client.post(f"{path}/predictions", files=ASKED).json() == first
        assert counts(client.post(f"{path}/revisions/3")) == {"red": 1, "blue": 1, "grey": 1}
        assert client.post(f"{path}/revisions/9").json() == {"error": "there is no revision 9; the newest is 5"}


def test_old_revisions_leave_with_their_files(tmp_path):
    with served(tmp_path / "store", revisions=2) as client:
        path = learn(client, "red", "blue")
        for seed in (5, 6, 7):
            add(client, path, seed=seed)
        assert [one["revision"] for one in client.get(f"{path}/revisions").json()] == [4, 3]
        assert len(list((tmp_path / "store" / "files").rglob("*.dmn4"))) == 2
        client.delete(path)
        assert not list((tmp_path / "store" / "files").iterdir())
        assert not list((tmp_path / "store" / "scratch").glob("*.dmn4"))


def test_two_services_on_one_store_lose_no_change(tmp_path):
    with served(tmp_path / "store") as one, served(tmp_path / "store") as other:
        path = learn(one, "red", "blue")
        with ThreadPoolExecutor(4) as crowd:
            answers = list(crowd.map(lambda seed: add((one, other)[seed % 2], path, seed=seed), range(8)))
        assert [answer.status_code for answer in answers] == [201] * 8
        assert counts(one.get(path)) == counts(other.get(path)) == {"red": 9, "blue": 1}
        assert one.get(path).json()["revision"] == 9
        other.delete(path)
        assert one.get(path).status_code == 404


def test_a_backup_restores_everything(tmp_path, capsys):
    with served(tmp_path / "store") as client:
        path = learn(client, "red", "blue")
        token = client.app.state.service.store.tokens.add("ann")
        add_as = {"authorization": f"Bearer {token}"}
        form = shots("green", "red", each=1)
        own = "/api/classifiers/" + client.post("/api/classifiers", headers=add_as, **form).json()["id"]
        said = client.post(f"{own}/predictions", headers=add_as, files=ASKED).json()
        assert backup(client.app.state.service.store, tmp_path / "all.zip") == 2
    main(["store", "restore", str(tmp_path / "all.zip"), "--store", str(tmp_path / "again")])
    assert "2 files and the database restored" in capsys.readouterr().out
    with served(tmp_path / "again") as client:
        assert client.post(f"{own}/predictions", headers=add_as, files=ASKED).json() == said
        assert client.get(path, headers=add_as).status_code == 404
    store = Store(str(tmp_path / "again"))
    with pytest.raises(InputError, match="not empty"):
        restore(tmp_path / "all.zip", store)
    store.close()
    (tmp_path / "bad.zip").write_bytes((tmp_path / "all.zip").read_bytes()[:500])
    store = Store(str(tmp_path / "third"))
    with pytest.raises(InputError, match="no backup of a store, or damaged"):
        restore(tmp_path / "bad.zip", store)
    store.close()


def test_damage_is_found(tmp_path, capsys):
    with served(tmp_path / "store") as client:
        learn(client, "red", "blue")
        path = learn(client, "red", "green")
    place = ["--store", str(tmp_path / "store")]
    main(["store", "check", *place])
    assert capsys.readouterr().out == "all files are whole\n"
    broken, missing = sorted((tmp_path / "store" / "files").rglob("*.dmn4"))
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    missing.unlink()
    with pytest.raises(SystemExit, match="1"):
        main(["store", "check", *place])
    said = capsys.readouterr().out
    assert f"{broken.parent.name}/{broken.name}\tis damaged" in said
    assert f"{missing.parent.name}/{missing.name}\tis missing" in said
    with served(tmp_path / "store") as client:
        assert client.post(f"{path}/predictions", files=ASKED).status_code == 500


def test_files_that_belong_to_nothing_are_found_and_removed(tmp_path, monkeypatch):
    store = Store(str(tmp_path / "store"))
    lost = store.files.folder / "someone" / "lost.dmn4"
    lost.parent.mkdir()
    lost.write_bytes(b"x")
    assert list(check(store)) == []                           # it may be on its way to a revision
    monkeypatch.setattr("dmn4.web.store.backup.YOUNG", -1)
    assert [one.problem for one in check(store, repair=True)] == ["belongs to no revision; removed"]
    assert not lost.exists()
    store.close()


def test_migrations_lead_to_the_tables_that_are_used(tmp_path):
    store = Store(str(tmp_path / "store"))
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    store.close()


def test_a_store_of_a_newer_version_is_refused_in_one_line(tmp_path):
    Store(str(tmp_path / "store")).close()
    with sqlite3.connect(tmp_path / "store" / "store.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(InputError, match="written by a newer dmn4"):
        Store(str(tmp_path / "store"))


def test_a_folder_with_something_else_is_no_store(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match="neither a store nor empty"):
        Store(str(tmp_path))
    with pytest.raises(InputError, match="give --files"):
        Store("postgresql://localhost/none")


@pytest.mark.parametrize("place", ["file://{folder}/shared", "memory://bucket{folder}"])
def test_files_may_lie_anywhere_that_fsspec_reaches(tmp_path, place):
    place = place.format(folder=tmp_path)
    elsewhere, root = fsspec.core.url_to_fs(place)
    with served(tmp_path / "store", place) as client:
        path = learn(client, "red", "blue")
        said = client.post(f"{path}/predictions", files=ASKED).json()
    [kept] = elsewhere.find(root)
    for copy in (tmp_path / "store" / "files").rglob("*.dmn4"):
        copy.unlink()
    with served(tmp_path / "store", place) as client:
        assert client.post(f"{path}/predictions", files=ASKED).json() == said
        store = client.app.state.service.store
        assert list(check(store)) == []
        elsewhere.pipe_file(kept, b"something else")
        for copy in (tmp_path / "store" / "files").rglob("*.dmn4"):
            copy.unlink()
        [finding] = check(store)
        assert finding.problem.startswith("is damaged: its checksum is another (classifier")
        client.delete(path)
    assert elsewhere.find(root) == []


def test_without_a_store_nothing_is_left_behind():
    with TestClient(create_app(Patches(), Limits(workers=1)), "http://localhost") as client:
        learn(client, "red", "blue")
        store = client.app.state.service.store
        assert list(store.files.folder.rglob("*.dmn4"))
        assert not client.get("/api/about").json()["lasting"]
    assert not store.files.folder.exists()
