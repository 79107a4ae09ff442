"""DMN4 (Liu et al., arXiv:2103.08160): rivals for one support descriptor are settled by tau."""

from torch import Tensor

from .base import DescriptorMethod
from .neighbors import Matches, discriminative_mutual


class DMN4(DescriptorMethod):
    """Keep, for each support descriptor, the most discriminative query descriptor that chose it."""

    def keep(self, matches: Matches) -> Tensor:
        return discriminative_mutual(matches)
