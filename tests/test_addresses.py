import pytest

from dmn4 import InputError
from dmn4.bulk import addresses
from dmn4.bulk.addresses import fetch, harmless, patiently, public


@pytest.mark.parametrize(("address", "shown"), [
    ("s3://bucket/a b/1.jpg", "s3://bucket/a b/1.jpg"),
    ("s3://AKIA:wJalr@bucket/1.jpg", "s3://bucket/1.jpg"),
    ("https://me:pass@host:8443/1.jpg?id=7", "https://host:8443/1.jpg?id=7"),
    ("https://b.s3.amazonaws.com/1.jpg?X-Amz-Credential=AKIA&X-Amz-Signature=ab&versionId=2",
     "https://b.s3.amazonaws.com/1.jpg?versionId=2"),
    ("https://x.blob.core.windows.net/c/1.jpg?sv=2024&se=2026&sp=r&sig=ab%3D&size=9",
     "https://x.blob.core.windows.net/c/1.jpg?size=9"),
    ("gs://b/1.jpg?access_token=ya29", "gs://b/1.jpg"),
    ("photos/what?key=1.jpg", "photos/what?key=1.jpg"),
    ("a\udcff.jpg", "a\\udcff.jpg"),
])
def test_an_address_is_shown_without_credentials(address, shown):
    assert public(address) == shown


def test_a_message_is_one_line_without_credentials():
    error = OSError("403 for\nhttps://u:p@host/1.jpg?X-Amz-Signature=ab, and s3://k:s@b/2")
    assert harmless(error) == "403 for https://host/1.jpg and s3://b/2"


def test_what_fails_for_a_moment_is_read_again(monkeypatch):
    monkeypatch.setattr(addresses, "PAUSES", (0, 0))
    answers = iter([TimeoutError("slow"), OSError("reset"), b"picture"])

    def read():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(read, "s3://bucket/1.jpg") == b"picture"


def test_what_stays_away_is_an_error_without_credentials(monkeypatch):
    monkeypatch.setattr(addresses, "PAUSES", (0, 0))
    tries = []

    def read():
        tries.append(1)
        raise OSError("cannot reach https://me:pass@host/1.jpg?sig=ab")

    with pytest.raises(InputError, match=r"^cannot read 'https://host/1.jpg': cannot reach https://host/1.jpg$"):
        patiently(read, "https://me:pass@host/1.jpg?sig=ab")
    assert len(tries) == 3


def test_a_file_that_is_missing_where_its_folder_is_there_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(addresses.time, "sleep", lambda seconds: pytest.fail("waited"))
    with pytest.raises(InputError, match="no such file"):
        fetch(str(tmp_path / "1.jpg"))


def test_a_mounted_share_that_vanishes_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(addresses.time, "sleep", lambda seconds: (tmp_path / "share").mkdir(exist_ok=True) or
                        (tmp_path / "share" / "1.jpg").write_bytes(b"x"))
    assert fetch(str(tmp_path / "share" / "1.jpg")).read_bytes() == b"x"
