"""The tables that training and evaluation alone can measure, cell by cell."""

from collections.abc import Mapping
from dataclasses import replace

from ..backbones.resnet12 import ABLATIONS
from ..methods import METHODS
from .plans import plan_for
from .published import DESCRIPTOR_SIZE, FINE_GRAINED, ODM, RANK, SOTA_CONV4, SOTA_RESNET12
from .sheets import Cell, Sheet

COMMON = "every method has the same backbone, data and schedule, not its own paper's"
NOTES = {"tiny": COMMON, "cpu": COMMON, "paper": "rivals have the backbone form and schedule of their own papers"}
NARROW = {"cpu": "ResNet-12 a quarter as wide, without episodes", "tiny": "networks a quarter as wide, 32-pixel images",
          "paper": ""}


def sota_mini(budget: str) -> Sheet:
    """Table 1, miniImageNet."""
    return sota("miniImageNet: comparison with other methods", budget, "miniimagenet", 0)


def sota_tiered(budget: str) -> Sheet:
    """Table 1, tieredImageNet."""
    return sota("tieredImageNet: comparison with other methods", budget, "tieredimagenet", 2)


def sota(title: str, budget: str, data: str, first: int) -> Sheet:
    """The half of Table 1 whose two columns begin at `first`."""
    cells = []
    for backbone, numbers in (("conv4", SOTA_CONV4), ("resnet12", SOTA_RESNET12)):
        for row, papers in numbers.items():
            method = row.removesuffix("-distill")
            for shots, paper in zip((1, 5), papers[first : first + 2], strict=True):
                plan = plan_for(budget, data, method, shots, backbone)
                plan = replace(plan, teacher=plan) if row != method else plan
                cells.append(Cell(row, f"{backbone} {shots}-shot", paper, plan, tested(method, backbone, shots), shots))
    return Sheet(title, cells, f"{NOTES[budget]}; {NARROW[budget]}".rstrip("; "))


def tested(method: str, backbone: str, shots: int) -> str:
    """The method as a cell tests it: with ResNet-12 the paper takes the mean map of several shots (Sec. 3.1)."""
    averages = backbone == "resnet12" and shots > 1 and METHODS[method].compares_descriptors
    return f"{method}:shots=mean" if averages else method


def fine_grained(budget: str) -> Sheet:
    """Table 2: CUB, meta-iNat and tiered meta-iNat with Conv-4."""
    places = [(data, shots) for data in ("cub", "meta-inat", "tiered-meta-inat") for shots in (1, 5)]
    cells = [Cell(method, f"{data} {shots}-shot", paper, plan_for(budget, data, method, shots), method, shots)
             for method, numbers in FINE_GRAINED.items()
             for (data, shots), paper in zip(places, numbers, strict=True)]
    return Sheet("Fine-grained data sets, Conv-4", cells, NOTES[budget])


def descriptor_size(budget: str) -> Sheet:
    """Table 3: more or fewer descriptors from networks made of ResNet-12."""
    cells = [Cell(method, label, paper, plan_for(budget, "miniimagenet", method, 1, "resnet12", as_text(options)),
                  method)
             for method, numbers in DESCRIPTOR_SIZE.items()
             for (label, options), paper in zip(ABLATIONS.items(), numbers, strict=True)]
    return Sheet("miniImageNet 1-shot: r descriptors x d dimensions", cells,
                 f"r as the paper counts it; 84-pixel images give 441 where it says 400; {NARROW[budget]}".rstrip("; "))


def as_text(options: Mapping[str, object]) -> str:
    """Options of a backbone as a setting: "blocks=64-160,pools=2"."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def odm(budget: str) -> Sheet:
    """Table 4: DN4 with online discriminative mining at four shares, and MN4."""
    cells = []
    for data, numbers in ODM.items():
        for share, paper in zip((0.30, 0.25, 0.20, 0.15), numbers, strict=False):
            method = f"odm:share={share:g}"
            trained = method if budget == "paper" else "dn4"
            cells.append(Cell(data, f"ODM {share:.0%}", paper, plan_for(budget, data, trained), method))
        cells.append(Cell(data, "MN4", numbers[-1], plan_for(budget, data, "mn4"), "mn4"))
    mined = "mined in training as well" if budget == "paper" else "all shares on the weights of DN4, from one search"
    return Sheet("Conv-4 1-shot: mining by tau against mutual neighbours", cells, mined)


def rank(budget: str) -> Sheet:
    """Table 5: votes by similarity against votes by count."""
    places = [(data, shots) for data in ("miniimagenet", "cub") for shots in (1, 5)]
    cells = [Cell(f"{method} {vote}", f"{data} {shots}-shot", paper, plan_for(budget, data, method, shots),
                  f"{method}:vote={vote}", shots)
             for method, votes in RANK.items() for vote, numbers in votes.items()
             for (data, shots), paper in zip(places, numbers, strict=True)]
    return Sheet("Conv-4: NBNN against rank accuracy", cells, "odm keeps 25 %; the paper does not say its share")
