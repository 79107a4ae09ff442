"""Who is let in: nobody without a token, nobody to what belongs to others, on any route there is."""

import warnings

import pytest
from toy_service import Patches, picture, shots

from dmn4.cli import main
from dmn4.errors import InputError
from dmn4.web.app import create_app
from dmn4.web.limits import Limits
from dmn4.web.server import check_access
from dmn4.web.store import Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

FREE = ("/healthz", "/readyz")
ASKED = {"picture": picture("red", 9)}
BODIES = {"/api/classifiers": shots("red", "blue"), "/api/models": {"files": {"model": b"none"}},
          "/api/classifiers/{classifier}/shots": {"data": {"labels": ["red"]}, "files": {"pictures": ASKED["picture"]}},
          "/api/classifiers/{classifier}/ruled-out": {"data": {"labels": ["red"]},
                                                      "files": {"pictures": ASKED["picture"]}},
          "/api/classifiers/{classifier}/shots/{number}": {"data": {"label": "lime"}},
          "/api/classifiers/{classifier}/suggestions": {"files": {"pictures": ASKED["picture"]}},
          "/api/classifiers/{classifier}/predictions": {"files": ASKED},
          "/api/classifiers/{classifier}/explanations": {"files": ASKED},
          "/api/classifiers/{classifier}/shares/{token}": {"data": {"may": "teach"}}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with a store, and the headers of ann, bob and the admin."""
    store = Store(str(tmp_path_factory.mktemp("tokens") / "store"))
    headers = {name: {"authorization": f"Bearer {store.tokens.add(name, name == 'admin')}"}
               for name in ("ann", "bob", "admin")}
    with TestClient(create_app(Patches(), Limits(workers=1, revisions=3), store=store),
                    "http://localhost") as client:
        yield client, headers
    store.close()


@pytest.fixture(scope="module")
def routes(service):
    """Method and path of everything that the description names."""
    client, headers = service
    paths = client.get("/api/openapi.json", headers=headers["ann"]).json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.fixture
def anns(service):
    """The id of a classifier that belongs to ann."""
    client, headers = service
    made = client.post("/api/classifiers", headers=headers["ann"], **shots("red", "green", "blue", each=1)).json()["id"]
    yield made
    client.delete(f"/api/classifiers/{made}", headers=headers["admin"])


def filled(path, classifier="0123456789abcdef"):
    """A path with something in its places."""
    for place, value in (("classifier", classifier), ("number", "1"), ("label", "red"), ("token", "bob")):
        path = path.replace(f"{{{place}}}", value)
    return path


def test_strangers_are_let_in_nowhere_but_to_the_page_and_to_health(service, routes):
    client, _ = service
    assert len(routes) > 20
    for method, path in [*routes, ("GET", "/api/openapi.json"), ("GET", "/nowhere")]:
        for headers in ({}, {"authorization": "Bearer dmn4_0123456789ab_" + "x" * 43}, {"cookie": "dmn4_token=x"}):
            answer = client.request(method, filled(path), headers=headers)
            assert answer.status_code == (200 if path in FREE else 401), (method, path)
    assert client.get("/").status_code == client.get("/page/main.js").status_code == 200


def test_a_token_reaches_nothing_of_another_by_any_route(service, routes, anns):
    client, headers = service
    before = client.get(f"/api/classifiers/{anns}", headers=headers["ann"]).json()
    for method, path in routes:
        answer = client.request(method, filled(path, anns), headers=headers["bob"], **BODIES.get(path, {}))
        assert anns not in answer.text, (method, path)
        assert anns not in str(answer.headers), (method, path)
        if "{classifier}" in path:
            assert answer.status_code == 404, (method, path, answer.text)
    assert client.get(f"/api/classifiers/{anns}", headers=headers["ann"]).json() == before
    assert client.get(f"/api/classifiers/{anns}/shares", headers=headers["ann"]).json() == []
    for mine in client.get("/api/classifiers", headers=headers["bob"]).json():
        client.delete(f"/api/classifiers/{mine['id']}", headers=headers["bob"])


def test_what_is_shared_to_be_read_can_be_asked_and_not_changed(service, anns):
    client, headers = service
    path = f"/api/classifiers/{anns}"
    assert client.put(f"{path}/shares/bob", headers=headers["ann"]).json() == {"token": "bob", "may": "read"}
    assert client.get(path, headers=headers["bob"]).json()["access"] == "read"
    assert client.post(f"{path}/predictions", headers=headers["bob"], files=ASKED).json()["label"] == "red"
    for method, rest in (("POST", "/shots"), ("POST", "/ruled-out"), ("DELETE", "/ruled-out/{number}"),
                         ("PUT", "/shots/{number}"), ("DELETE", "/shots/{number}"),
                         ("DELETE", "/classes/red"), ("DELETE", ""), ("GET", "/shares"),
                         ("PUT", "/shares/bob"), ("POST", "/revisions/1")):
        body = BODIES.get(f"/api/classifiers/{{classifier}}{rest}", {})
        assert client.request(method, path + filled(rest), headers=headers["bob"], **body).status_code == 403, rest
    assert client.delete(f"{path}/shares/bob", headers=headers["ann"]).status_code == 204
    assert client.get(path, headers=headers["bob"]).status_code == 404


def test_what_is_shared_to_be_taught_can_be_changed_and_not_deleted(service, anns):
    client, headers = service
    path = f"/api/classifiers/{anns}"
    client.put(f"{path}/shares/bob", headers=headers["ann"], data={"may": "teach"})
    assert client.get(f"{path}/shares", headers=headers["ann"]).json() == [{"token": "bob", "may": "teach"}]
    grown = client.post(f"{path}/shots", headers=headers["bob"], data={"labels": ["lime"]},
                        files={"pictures": picture("green", 4)})
    assert grown.json()["revision"] == 2
    assert client.get(f"{path}/revisions", headers=headers["ann"]).json()[0]["who"] == "bob"
    assert client.delete(path, headers=headers["bob"]).status_code == 403


def test_an_admin_reaches_everything_and_others_see_no_log(service, anns):
    client, headers = service
    assert anns in [one["id"] for one in client.get("/api/classifiers", headers=headers["admin"]).json()]
    newest = client.get("/api/audit", headers=headers["admin"]).json()[0]
    assert (newest["who"], newest["classifier"], newest["address"]) == ("ann", anns, "testclient")
    assert newest["what"] == "learnt red, green, blue"
    assert b"dmn4_requests_total" in client.get("/metrics", headers=headers["admin"]).content
    assert client.get("/api/audit", headers=headers["ann"]).status_code == 403
    assert client.get("/metrics", headers=headers["ann"]).status_code == 403


def test_the_page_keeps_a_token_where_no_script_finds_it(service):
    client, headers = service
    answer = client.post("/api/session", headers=headers["bob"])
    assert answer.json() == {"token": "bob", "admin": False}
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/api/about").json()["token"] == "bob"
    client.delete("/api/session")
    assert client.get("/api/about").status_code == 401


def test_a_token_is_worth_nothing_once_it_was_revoked(service):
    client, _ = service
    store = client.app.state.service.store
    text = store.tokens.add("carl")
    assert client.get("/api/about", headers={"authorization": f"Bearer {text}"}).status_code == 200
    store.tokens.revoke("carl")
    assert client.get("/api/about", headers={"authorization": f"Bearer {text}"}).status_code == 401
    with pytest.raises(InputError, match="no token 'carl' to revoke"):
        store.tokens.revoke("carl")
    with pytest.raises(InputError, match="there is a token 'carl' already"):
        store.tokens.add("carl")


@pytest.mark.parametrize(("quota", "message"), [({"classifiers": 0}, "you have 0 classifiers; 0 are the most"),
                                                ({"pictures": 3}, "would keep 4 pictures; 3 are the most"),
                                                ({"bytes": 9}, "bytes; 9 are the most")])
def test_a_token_keeps_no_more_than_it_may(service, quota, message):
    client, _ = service
    store = client.app.state.service.store
    text = store.tokens.add(f"small-{next(iter(quota))}", **quota)
    headers = {"authorization": f"Bearer {text}"}
    answer = client.post("/api/classifiers", headers=headers, **shots("red", "blue", each=2))
    assert answer.status_code == 413
    assert message in answer.json()["error"]
    assert client.get("/api/classifiers", headers=headers).json() == []


def test_no_token_can_be_read_from_the_store(tmp_path):
    store = Store(str(tmp_path / "store"))
    text = store.tokens.add("ann")
    store.close()
    everything = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert text.encode() not in everything
    assert text.split("_", 2)[2].encode() not in everything


def test_the_world_is_let_in_only_if_that_was_said(tmp_path, capsys):
    store = Store(str(tmp_path / "store"))
    check_access(store, "127.0.0.1", False)
    check_access(store, "0.0.0.0", True)
    with pytest.raises(InputError, match=r"can be reached from other machines.*dmn4 token add NAME.*--open"):
        check_access(store, "0.0.0.0", False)
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--host", "0.0.0.0", "--port", "0"])
    assert "dmn4: error: 0.0.0.0 can be reached from other machines" in capsys.readouterr().err
    store.tokens.add("ann")
    check_access(store, "0.0.0.0", False)
    store.close()


def test_tokens_are_made_listed_and_revoked_at_the_command_line(tmp_path, capsys):
    place = ["--store", str(tmp_path / "store")]
    main(["token", "add", "ann", "--admin", *place])
    assert capsys.readouterr().out.startswith("dmn4_")
    main(["token", "revoke", "ann", *place])
    main(["token", "list", *place])
    assert capsys.readouterr().out.startswith("ann\trevoked\t")
    main(["store", "log", *place])
    assert "token ann revoked" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["token", "list"])
    assert "name the store" in capsys.readouterr().err


