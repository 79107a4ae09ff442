"""Small pictures that tell their class by colour, and a backbone without weights that sees colours."""

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (40, 60, 220), "grey": (128, 128, 128)}


class Eye(nn.Module):
    """Mean colours of a 3 x 3 grid, and their products: (B, 3, h, w) -> (B, 6, 3, 3)."""

    image_size = 12
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def forward(self, images: Tensor) -> Tensor:
        cells = F.adaptive_avg_pool2d(images, 3)
        return F.pad(cells.square(), (0, 0, 0, 0, 3, 0)) + F.pad(cells, (0, 0, 0, 0, 0, 3))


def painted(colour: str, count: int, seed: int = 0, noise: float = 40) -> list[np.ndarray]:
    """`count` pictures of mixed sizes in one colour with coarse noise: (h, w, 3) bytes each."""
    rng = np.random.default_rng([seed, *COLOURS[colour]])
    pictures = []
    for _ in range(count):
        height, width = rng.integers(10, 24, 2)
        cells = rng.normal(COLOURS[colour], noise, (3, 3, 3)).clip(0, 255)
        rows, columns = np.arange(height) * 3 // height, np.arange(width) * 3 // width
        pictures.append(cells[rows][:, columns].astype(np.uint8))
    return pictures


def labelled(shots: int, colours: tuple[str, ...] = ("red", "green", "blue"), seed: int = 0,
             noise: float = 40) -> tuple[list[np.ndarray], list[str]]:
    """`shots` pictures of each colour, and their labels."""
    pictures = [picture for colour in colours for picture in painted(colour, shots, seed, noise)]
    return pictures, [colour for colour in colours for _ in range(shots)]
