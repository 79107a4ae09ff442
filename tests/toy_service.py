"""A service small enough for tests: its backbone is the mean colour of each of 16 patches."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from PIL import Image
from torch import Tensor, nn

from dmn4.web.app import create_app
from dmn4.web.limits import Limits
from dmn4.web.store import Store

COLOURS = {"red": (220, 30, 40), "green": (30, 200, 60), "blue": (40, 60, 210), "grey": (150, 140, 120)}


class Patches(nn.Module):
    """Mean colours of 4 x 4 patches, as directions away from grey: (B, 3, 32, 32) -> (B, 3, 4, 4)."""

    image_size, mean, std, out_channels = 32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 3

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(images, 8)


def picture(colour: str, seed: int = 0, size: tuple[int, int] = (40, 48)) -> bytes:
    """A noisy picture of one colour, as the bytes of a file."""
    noise = np.random.default_rng([seed, *COLOURS[colour]]).normal(0, 25, (*size, 3))
    out = io.BytesIO()
    Image.fromarray((noise + COLOURS[colour]).clip(0, 255).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


@contextmanager
def running(backbone: Any, *models: Path, limits: Limits | None = None,
            store: Store | None = None, http: Any = "auto") -> Iterator[str]:
    """The address of a service in a thread of this process, with the classifiers of these files."""
    app = create_app(backbone, limits, store=store)
    app.state.service.pool.start()                            # the first worker takes a while; browsers do not wait
    for path in models:
        app.state.service.host(path)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", http=http))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def shots(*colours: str, each: int = 3) -> dict[str, list]:
    """The form that teaches these colours, as arguments of a request."""
    labels = [colour for colour in colours for _ in range(each)]
    files = [("pictures", (f"../../{colour}.png", picture(colour, seed))) for colour in colours for seed in range(each)]
    return {"data": {"labels": labels}, "files": files}
