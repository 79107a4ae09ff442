"""A client of the load test, light enough that the service is what is measured."""

import http.client
import io
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from ..data.samples import draw_clutter

MIX = {"predict": 55, "explain": 20, "look": 15, "grow": 4, "create": 4, "page": 2}      # requests in a hundred
ANSWERS = {"predict": 100}
BOUNDARY = "dmn4-load-test"
TRIES = 20                                                    # of a request whose replica is gone
UNANSWERED = 599


class Server(Protocol):
    """What can be asked."""

    address: str


@dataclass(frozen=True)
class Outcome:
    """How a request went."""

    status: int                                               # the worst one, if it took several
    seconds: float
    wrong: bool = False
    retried: int = 0


class Client:
    """One client with a connection of its own; where a replica does not answer it goes on to the next."""

    def __init__(self, servers: Sequence[Server], token: str | None, pictures: list[bytes], labels: list[str],
                 seed: int, known: str = "", expected: dict[int, Any] | None = None) -> None:
        self.servers, self.pictures, self.labels, self.known = servers, pictures, labels, known
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.chance, self.place, self.retried = random.Random(seed), seed % len(servers), 0
        self.connection: http.client.HTTPConnection | None = None
        self.expected: dict[int, Any] = expected or {}
        self.worst = 0

    def run(self, mix: dict[str, int], end: float) -> list[Outcome]:
        """Requests of these kinds until the end, at least one."""
        outcomes: list[Outcome] = []
        while not outcomes or time.monotonic() < end:
            kind, = self.chance.choices(list(mix), list(mix.values()))
            start, self.retried, self.worst = time.monotonic(), 0, 0
            right = self.request(kind, self.chance.randrange(len(self.pictures)))
            outcomes.append(Outcome(self.worst, time.monotonic() - start, not right, self.retried))
        return outcomes

    def request(self, kind: str, number: int) -> bool:
        """Make a request of one kind; whether the answer is right, if that can be told."""
        if kind == "predict":
            reply = self.call("POST", f"{self.known}/predictions", [("picture", self.pictures[number])])
            return number not in self.expected or self.worst >= 400 or json.loads(reply) == self.expected[number]
        if kind == "explain":
            self.call("POST", f"{self.known}/explanations", [("picture", self.pictures[number])])
        elif kind == "look":
            self.call("GET", f"{self.known}/shots/{number}")
        elif kind == "page":
            self.call("GET", "/")
        else:
            self.teach(kind, number)
        return True

    def teach(self, kind: str, number: int) -> None:
        """Make a classifier, perhaps enlarge and save it, and delete it again."""
        created = self.create()
        if created and kind == "grow":
            self.call("POST", f"{created}/shots", [("labels", self.labels[number].encode()),
                                               ("pictures", self.pictures[number])])
            self.call("GET", f"{created}/model")
        if created:
            self.call("DELETE", created)                      # 404: the replica that was killed had done it already

    def create(self) -> str:
        """The path of a new classifier; nothing if it was refused."""
        fields = [("labels", label.encode()) for label in self.labels]
        made = self.call("POST", "/api/classifiers", fields + [("pictures", picture) for picture in self.pictures])
        return f"/api/classifiers/{json.loads(made)['id']}" if self.worst < 400 else ""

    def expect(self, known: str) -> None:
        """Note what each picture is answered when nobody else asks."""
        for number, picture in enumerate(self.pictures):
            self.expected[number] = json.loads(self.call("POST", f"{known}/predictions", [("picture", picture)]))

    def call(self, method: str, path: str, fields: Sequence[tuple[str, bytes]] = ()) -> bytes:
        """The body of an answer; its status counts if it is the worst so far."""
        headers = dict(self.headers)
        if fields:
            headers["Content-Type"] = f"multipart/form-data; boundary={BOUNDARY}"
        status, content, before = UNANSWERED, b"", self.retried
        for _ in range(TRIES):
            try:
                status, content = self.once(method, path, form(fields) if fields else None, headers)
                break
            except (OSError, http.client.HTTPException):
                self.connection = None
                self.place = (self.place + 1) % len(self.servers)
                self.retried += 1
                time.sleep(0.05)
        if not (method == "DELETE" and status == 404 and self.retried > before):
            self.worst = max(self.worst, status)
        return content

    def once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of a request to the replica whose turn it is."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(urlsplit(self.servers[self.place].address).netloc, timeout=60)
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def form(fields: Sequence[tuple[str, bytes]]) -> bytes:
    """Fields as multipart/form-data; pictures are files."""
    out = io.BytesIO()
    for name, value in fields:
        file = '; filename="p"\r\nContent-Type: image/jpeg' if name.startswith("picture") else ""
        out.write(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode())
        out.write(value + b"\r\n")
    out.write(f"--{BOUNDARY}--\r\n".encode())
    return out.getvalue()


def drawn_pictures() -> tuple[list[bytes], list[str]]:
    """Two drawn pictures of each of three classes, as JPEG, with their labels."""
    drawn = draw_clutter(3, 2, size=224)
    return [jpeg(picture) for picture in drawn.pixels], [drawn.classes[label] for label in drawn.labels]


def jpeg(pixels: np.ndarray) -> bytes:
    """A picture as the bytes of a JPEG file: (h, w, 3)."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()
