"""Stored pictures in batches, as a network sees them: scale, crop, flip, jitter, normalise. Bytes in, floats out."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dmn4.errors import InputError

from .files import Cut, Size

DMN4_MEAN, DMN4_STD = (125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)


def normalise(batch: Tensor, mean: tuple[float, ...] = DMN4_MEAN, std: tuple[float, ...] = DMN4_STD) -> Tensor:
    """Values 0..255 as (value / 255 - mean) / std: (B, h, w, 3) -> float (B, 3, h, w)."""
    middle = 255 * torch.tensor(mean, device=batch.device).view(3, 1, 1)
    scale = 1 / (255 * torch.tensor(std, device=batch.device)).view(3, 1, 1)
    planes = batch.permute(0, 3, 1, 2).contiguous().float()                                      # (B, 3, h, w)
    return planes.sub(middle).mul_(scale)


def resize_batch(batch: Tensor, height: int, width: int) -> Tensor:
    """Pictures scaled to exactly (height, width), bilinear with antialias: (B, h, w, 3) -> (B, height, width, 3)."""
    if batch.shape[1:3] == (height, width):
        return batch
    planes = batch.permute(0, 3, 1, 2)                                                           # (B, 3, h, w)
    planes = planes if planes.is_cpu else planes.float()           # only the CPU scales bytes
    return F.interpolate(planes, (height, width), mode="bilinear", antialias=True).permute(0, 2, 3, 1)


def crop_batch(batch: Tensor, top: Tensor, left: Tensor, size: int, flipped: Tensor, reflect: bool = False) -> Tensor:
    """One window of each picture, mirrored where `flipped`: (B, h, w, 3), (B,), (B,), bool (B,) -> (B, size, size, 3).

    A window may reach over the border: there the picture is reflected, or black.
    """
    steps = torch.arange(size, device=batch.device)                                              # (size,)
    rows, columns = top[:, None] + steps, left[:, None] + steps                                  # (B, size)
    columns = torch.where(flipped[:, None], columns.flip(1), columns)
    height, width = batch.shape[1:3]
    places = zip(batch, _fold(rows, height), _fold(columns, width), strict=True)
    windows = torch.stack([picture.index_select(0, row).index_select(1, column) for picture, row, column in places])
    shown = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]              # (B, size, size)
    return windows if reflect or shown.all() else windows * shown[..., None]


def _fold(places: Tensor, length: int) -> Tensor:
    """Places beyond the border reflected into 0..length-1, the border itself not repeated."""
    return (length - 1) - (places.abs() - (length - 1)).abs()


def _within(places: Tensor, length: int) -> Tensor:
    return (places >= 0) & (places < length)


def jitter_batch(batch: Tensor, strength: float, generator: Generator | None = None) -> Tensor:
    """Brightness, contrast and saturation each changed by a factor in 1 -+ strength, in random order.

    (B, h, w, 3) -> float (B, h, w, 3). Every picture draws its own factors; the order is drawn once for the batch.
    """
    values = batch.float()
    factors = 1 + strength * (2 * torch.rand(3, len(batch), 1, 1, 1, generator=generator) - 1)
    factors = factors.to(batch.device)
    for change in torch.randperm(3, generator=generator).tolist():
        if change == 0:                                                                          # brightness
            values = values * factors[0]
        elif change == 1:                                                                        # contrast
            mean = _grey(values).mean((1, 2, 3), keepdim=True)                                   # (B, 1, 1, 1)
            values = torch.lerp(mean, values, factors[1])
        else:                                                                                    # saturation
            values = torch.lerp(_grey(values).expand_as(values), values, factors[2])
        values = values.clamp_(0, 255)
    return values


def _grey(values: Tensor) -> Tensor:
    """Luma of ITU-R 601: (B, h, w, 3) -> (B, h, w, 1)."""
    return values @ values.new_tensor([[0.299], [0.587], [0.114]])


def random_boxes(count: int, height: int, width: int, generator: Generator | None = None) -> list[list[int]]:
    """Top, left, height, width of `count` random windows: 8 to 100 % of the area, aspect 3/4 to 4/3.

    Of ten tries the first that fits counts; where none fits, the whole picture.
    """
    area = height * width * (0.08 + 0.92 * torch.rand(count, 10, generator=generator))           # (count, 10)
    aspect = torch.exp(math.log(4 / 3) * (2 * torch.rand(count, 10, generator=generator) - 1))
    tall, wide = (area / aspect).sqrt().round(), (area * aspect).sqrt().round()
    fits = (tall <= height) & (wide <= width)
    first = fits.float().argmax(1, keepdim=True)                                                 # (count, 1)
    tall = torch.where(fits.any(1), tall.gather(1, first)[:, 0], height)                         # (count,)
    wide = torch.where(fits.any(1), wide.gather(1, first)[:, 0], width)
    corner = torch.rand(2, count, generator=generator)
    top, left = (corner[0] * (height - tall + 1)).floor(), (corner[1] * (width - wide + 1)).floor()
    return torch.stack([top, left, tall, wide], dim=1).long().tolist()


@dataclass(frozen=True)
class Transform:
    """From stored bytes to what a network sees: resize, crop, flip, jitter, normalise; a batch at a time.

    `resize`: (h, w) is exact and may distort, a number scales the shorter side, None leaves the pictures as stored.
    `crop`: "none", "centre", "random" (may reach `padding` pixels over the border), "resized" (random window, scaled).
    """

    size: int = 84
    resize: int | tuple[int, int] | None = None
    crop: Literal["none", "centre", "random", "resized"] = "none"
    padding: int = 0
    reflect: bool = False
    flip: bool = False
    jitter: float = 0.0
    mean: tuple[float, float, float] = DMN4_MEAN
    std: tuple[float, float, float] = DMN4_STD

    def __call__(self, batch: Tensor, generator: Generator | None = None) -> Tensor:
        """Stored pictures as network input: bytes (B, h, w, 3) -> float (B, 3, size, size)."""
        batch = resize_batch(batch, *self._resized(*batch.shape[1:3]))
        flipped = torch.rand(len(batch), generator=generator) < (0.5 if self.flip else 0.0)      # (B,)
        batch = self._cropped(batch, flipped.to(batch.device), generator)
        if self.jitter:
            batch = jitter_batch(batch, self.jitter, generator)
        return normalise(batch, self.mean, self.std)

    @property
    def stored_size(self) -> Size:
        """The size at which pictures are stored, so that nothing is left to resize.

        A crop in the middle of a picture that was scaled by its shorter side lies in the square that Cut leaves.
        Random windows are taken from pictures that were scaled to a square of `size`, whatever their aspect.
        """
        if isinstance(self.resize, int):
            return Cut(self.resize, self.resize)
        return self.size if self.resize is None else self.resize

    def scaled_to(self, size: int) -> "Transform":
        """The same for pictures of another size, padding and resizing in proportion."""
        if size == self.size:
            return self
        factor, resize = size / self.size, self.resize
        if isinstance(resize, int):
            resize = round(resize * factor)
        elif resize is not None:
            resize = round(resize[0] * factor), round(resize[1] * factor)
        return replace(self, size=size, resize=resize, padding=round(self.padding * factor))

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if self.resize is None:
            return height, width
        if isinstance(self.resize, tuple):
            return self.resize
        scale = self.resize / min(height, width)
        return max(self.resize, int(height * scale)), max(self.resize, int(width * scale))

    def _cropped(self, batch: Tensor, flipped: Tensor, generator: Generator | None) -> Tensor:
        count, height, width = batch.shape[:3]
        if self.crop == "resized":
            boxes = random_boxes(count, height, width, generator)
            parts = [batch[i : i + 1, t : t + h, l : l + w] for i, (t, l, h, w) in enumerate(boxes)]
            batch = torch.cat([resize_batch(part, self.size, self.size) for part in parts])
            return torch.where(flipped[:, None, None, None], batch.flip(2), batch)
        room = torch.tensor([[height + 2 * self.padding - self.size], [width + 2 * self.padding - self.size]])
        if room.amin() < 0 or (self.crop == "none" and room.any()):
            raise InputError(f"pictures of {height} x {width} pixels give no {self.size} x {self.size}; set resize")
        share = torch.rand(2, count, generator=generator) if self.crop == "random" else torch.full((2, count), 0.5)
        top, left = (share * (room + (self.crop == "random"))).floor().long().to(batch.device) - self.padding
        return crop_batch(batch, top, left, self.size, flipped, self.reflect)
