"""MN4 (Liu et al., arXiv:2103.08160): a query descriptor counts if its nearest neighbour chooses it back."""

from torch import Tensor

from ..errors import choose
from .base import DescriptorMethod
from .neighbors import RULES, Matches


class MN4(DescriptorMethod):
    """Keep mutual nearest neighbours: "mnn" as the paper says, "mnn-relaxed" as its code does on deep backbones."""

    def __init__(self, channels: int | None = None, vote: str = "nbnn", shots: str = "union", temperature: float = 1.0,
                 pyramid: str = "", rule: str = "mnn", centre: str = "none") -> None:
        super().__init__(channels, vote, shots, temperature, pyramid, centre)
        self.rule = choose("rule", rule, RULES)
        self.answers = rule == "mnn"

    def keep(self, matches: Matches) -> Tensor:
        return RULES[self.rule](matches)
