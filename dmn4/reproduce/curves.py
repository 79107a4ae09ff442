"""The paper's figures as pictures: densities, clouds, shares and curves; needs matplotlib."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ..errors import InputError
from ..evaluation.intervals import Accuracy
from ..evidence.draw.sheet import PALETTE
from ..files import write_file
from .numbers import Cloud

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE[:6]]
MARKS = ("o", "s", "^", "D", "v", "P")                        # colour is never the only difference
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this many inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'dmn4[train]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Put a figure at `path`, whole or not at all; the ending says in which format."""
    out = io.BytesIO()
    figure.savefig(out, format=Path(path).suffix.lstrip(".") or "png", dpi=160)
    write_file(Path(path), out.getvalue())


def tidy(axes: "Axes", **labels: str) -> None:
    """Name the axes; leave away the frame that says nothing."""
    axes.set(**labels)
    axes.spines[["top", "right"]].set_visible(False)


def draw_densities(panels: Mapping[str, Mapping[str, Tensor]], path: str | Path) -> None:
    """Kernel density of tau, a panel for each backbone, a curve for each method: title -> method -> (n,)."""
    from scipy.stats import gaussian_kde

    figure = new_figure(4.6 * len(panels), 3.5)
    for place, (title, samples) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), place + 1, title=title)
        grid = np.linspace(0, max(float(values.quantile(0.995)) for values in samples.values()), 300)
        for number, (name, values) in enumerate(samples.items()):
            axes.plot(grid, gaussian_kde(values.numpy())(grid), color=COLOURS[number], linestyle=DASHES[number], lw=2,
                      label=f"{name} (mean {float(values.mean()):.3f})")
        tidy(axes, xlabel="τ(q), lead of the nearest class", ylabel="density")
        axes.set_xlim(0, grid[-1])
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    save_figure(figure, path)


def draw_clouds(panels: Mapping[str, Cloud], classes: Sequence[str], path: str | Path) -> None:
    """Descriptors in the plane, a panel for each set, a colour and a mark for each class."""
    figure = new_figure(4.6 * len(panels), 5.0)
    for place, (title, cloud) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), place + 1)
        size = float(np.clip(9000 / len(cloud.points), 2, 24))
        order = np.random.default_rng(0).permutation(len(cloud.points))
        for part in np.array_split(order, max(1, len(order) // 50)):             # so no class lies on top of another
            for label in range(len(classes)):
                across, down = cloud.points[part[cloud.labels[part] == label]].T
                axes.scatter(across, down, s=size, c=COLOURS[label % len(COLOURS)], marker=MARKS[label % len(MARKS)],
                             alpha=0.75, linewidths=0)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"{title}: {len(cloud.points):,} descriptors\n"
                       f"{cloud.purity:.0%} of ten nearest in other pictures are of its class", fontsize=10)
    handles = [axes.scatter([], [], s=30, c=COLOURS[label % len(COLOURS)], marker=MARKS[label % len(MARKS)])
               for label in range(len(classes))]
    figure.legend(handles, classes, loc="outside lower center", ncols=min(5, len(classes)), frameon=False)
    save_figure(figure, path)


def draw_shares(columns: Mapping[str, Mapping[str, Accuracy]], ways: int, path: str | Path) -> None:
    """Shares with their intervals, a group of bars for each data set, a bar for each method."""
    figure = new_figure(2.2 + 2.4 * len(columns), 3.6)
    axes = figure.add_subplot()
    names = list(next(iter(columns.values())))
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        accuracies = [column[name] for column in columns.values()]
        x = np.arange(len(columns)) + (number - (len(names) - 1) / 2) * width
        bars = axes.bar(x, [100 * accuracy.mean for accuracy in accuracies], 0.9 * width,
                        yerr=[100 * accuracy.half_width for accuracy in accuracies],
                        color=COLOURS[number], label=name, ecolor="#444", capsize=2)
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=3)
    axes.axhline(100 / ways, color="#888", lw=1, ls="--")
    axes.text(1.01, 100 / ways, "chance", fontsize=8, color="#666", va="center", transform=axes.get_yaxis_transform())
    tidy(axes, ylabel="kept descriptors nearest\nto the true class, %")
    axes.set_xticks(range(len(columns)), list(columns))
    axes.margins(y=0.15)
    figure.legend(loc="outside upper center", ncols=len(names), frameon=False)
    save_figure(figure, path)


def draw_clutter_curves(curves: Mapping[float, Mapping[str, Accuracy]], path: str | Path) -> None:
    """Accuracy against the share of clutter, a curve with its interval for each method."""
    figure = new_figure(5.4, 3.8)
    axes = figure.add_subplot()
    shares = 100 * np.array(list(curves))
    for number, name in enumerate(next(iter(curves.values()))):
        mean = 100 * np.array([each[name].mean for each in curves.values()])
        half = 100 * np.array([each[name].half_width for each in curves.values()])
        axes.plot(shares, mean, color=COLOURS[number], marker=MARKS[number], linestyle=DASHES[number], label=name)
        axes.fill_between(shares, mean - half, mean + half, color=COLOURS[number], alpha=0.18, linewidth=0)
    tidy(axes, xlabel="share of the picture that is clutter, %", ylabel="accuracy, %")
    axes.legend(frameon=False)
    save_figure(figure, path)
