"""Requests to a small service: whole ones to start from, and what a damaged one must be answered with."""

import atexit
import json
import re
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toy_service import picture

from dmn4.errors import InputError

KNOWN = "/api/classifiers/colours"
BOUNDARY = b"part-of-a-form"
PATIENCE = 1.0                                                # seconds for an answer; then the client hangs up
HANG = 10.0


@cache
def service() -> tuple[int, Path]:
    """The port of a service in a process of its own, and the file that its log goes to."""
    log = Path(tempfile.mkdtemp()) / "log"
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("service.py"))], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)
    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(process.communicate)                      # closes its input: it ends
    return int(process.stdout.readline()), log


def requests() -> list[bytes]:
    """One request of every kind, as bytes."""
    service()
    red, label = (b'name="picture"; filename="a.png"', picture("red", 9)), b'name="labels"'
    taught = [(label, b"red"), (label, b"blue"), (b'name="pictures"; filename="a"', picture("red", 1)),
              (b'name="pictures"; filename="b"', picture("blue", 1))]
    return [request("GET", "/api/about"), request("GET", "/"), request("GET", "/page/page.js"),
            request("GET", "/api/classifiers"), request("GET", KNOWN), request("GET", f"{KNOWN}/shots/0"),
            request("GET", f"{KNOWN}/model"), request("GET", "/api/openapi.json"), request("GET", "/metrics"),
            request("DELETE", f"{KNOWN}/classes/red"), request("POST", f"{KNOWN}/predictions", form(red)),
            request("POST", f"{KNOWN}/explanations?rule=dmn4", form(red)),
            request("POST", "/api/classifiers?wait=true", form(*taught)),
            request("POST", f"{KNOWN}/shots", form(*taught)),
            request("POST", "/api/models", form((b'name="model"; filename="a.dmn4"', b"\x08" + b"\0" * 30)))]


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """A request without anything but what is needed."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def form(*parts: tuple[bytes, bytes]) -> bytes:
    """The body of a form."""
    fields = [b"--" + BOUNDARY + b"\r\nContent-Disposition: form-data; " + name + b"\r\n\r\n" + held + b"\r\n"
              for name, held in parts]
    return b"".join(fields) + b"--" + BOUNDARY + b"--\r\n"


def use_request(path: Path) -> None:
    """Send the bytes of a file to the service; a refusal is an InputError, no answer in time a TimeoutError."""
    port, log = service()
    before = log.stat().st_size
    answer = b""
    with socket.create_connection(("127.0.0.1", port), HANG) as line:
        try:
            line.sendall(path.read_bytes())
            line.settimeout(PATIENCE)
            try:
                answer = line.recv(1 << 16)
            except TimeoutError:                              # it waits for the rest of the request
                line.shutdown(socket.SHUT_WR)
            line.settimeout(HANG)
            while more := line.recv(1 << 16):
                answer += more
        except (ConnectionResetError, BrokenPipeError):       # refused before all of it was sent
            pass
    said = log.read_bytes()[before:]
    assert b"Traceback" not in said, f"the log has {said[-300:]!r}"
    check_answer(answer)


def check_answer(answer: bytes) -> None:
    """Refuse an answer that is none, or that blames the service; a polite refusal is an InputError."""
    if not answer:
        raise InputError("the service hung up")
    first = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    assert first, f"this is no answer: {answer[:100]!r}"
    status = int(first[1])
    assert status < 500 or status in (503, 504), f"answered with {answer[:300]!r}"
    if status >= 400:
        body = answer.partition(b"\r\n\r\n")[2]
        if body.startswith(b"{"):                             # behind it may follow the answer to what was no body
            raise InputError(json.JSONDecoder().raw_decode(body.decode())[0]["error"])
        raise InputError(body.decode())
