"""Whatever is sent, the service answers as its OpenAPI description says: every request of it, with generated data."""

import warnings

import pytest
from hypothesis import HealthCheck, settings
from toy_service import Patches, picture, shots

from dmn4.web.app import create_app
from dmn4.web.limits import Limits

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from fastapi.testclient import TestClient
    from schemathesis.checks import CHECKS, load_all_checks

load_all_checks()
SERVICE = create_app(Patches(), Limits(classifiers=4), hosts=("localhost", "testserver"))


async def APP(scope, receive, send):
    """The service, which does not hear that a client thinks it has started or ended: there is one client a request."""
    if scope["type"] != "lifespan":
        await SERVICE(scope, receive, send)
        return
    for moment in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{moment}.complete"})


CLIENT = TestClient(APP, "http://localhost")
SCHEMA = schemathesis.openapi.from_asgi("/api/openapi.json", APP)
NOT_MEANT = CHECKS.get_by_names(["positive_data_acceptance"])     # random bytes are "binary", but they are no picture


@SCHEMA.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_described(case):
    case.call_and_validate(excluded_checks=NOT_MEANT)


@SCHEMA.include(path_regex="classifiers/{classifier}").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_about_a_classifier_that_exists_is_described(case):
    made = CLIENT.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
    case.path_parameters["classifier"] = made
    case.call_and_validate(excluded_checks=NOT_MEANT)
    CLIENT.delete(f"/api/classifiers/{made}")


def test_what_a_client_has_to_know_is_described():
    described = CLIENT.get("/api/openapi.json").json()
    for path, methods in described["paths"].items():
        for one in methods.values():
            assert one["summary"], path
            assert one["description"], path
            for status, answer in one["responses"].items():
                if int(status) >= 400:
                    assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff", picture("red")[:60], b"RIFF\0\0\0\0WEBP", b"II*\0" * 9],
                         ids=["nothing", "jpeg", "png", "webp", "tiff"])
def test_what_begins_like_a_picture_and_is_none_is_refused(content):
    made = CLIENT.post("/api/classifiers", **shots("red", "blue", each=1)).json()["id"]
    answer = CLIENT.post(f"/api/classifiers/{made}/predictions", files={"picture": ("p", content)})
    assert answer.status_code == 422
    assert "cannot" in answer.json()["error"]
