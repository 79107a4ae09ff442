"""MN4-semi (Liu et al., arXiv:2103.08160, Sec. 4.5): classes adopt the unlabelled descriptors that match theirs."""

from torch import Tensor

from .adoption import adopt
from .base import DescriptorMethod
from .descriptors import SupportPool
from .dmn4 import DMN4
from .dmn4_linear import DMN4Linear
from .mn4 import MN4
from .semi import SemiMethod


class AdoptingMethod(SemiMethod, DescriptorMethod):
    """A descriptor method whose rule first chooses among the unlabelled descriptors, then among those of a query."""

    def derive_with(self, support: Tensor, labels: Tensor, unlabelled: Tensor) -> SupportPool:
        """The support pool with what it adopts: (n, C, H, W), (n,), (U, C, H, W) -> SupportPool."""
        pool: SupportPool = super(SemiMethod, self).derive(support, labels)               # that of the rule's class
        return adopt(pool, self.describe(unlabelled, pool), self.keep, self.answers)


class MN4Semi(AdoptingMethod, MN4):
    """Adopt mutual nearest neighbours, then MN4. The rule is that of the query descriptors."""


class DMN4Semi(AdoptingMethod, DMN4):
    """Of the unlabelled rivals for one support descriptor adopt the most discriminative, then DMN4."""


class DMN4LinearSemi(AdoptingMethod, DMN4Linear):
    """The pool adopts as that of DMN4-semi does; the linear head reads the labelled pictures alone."""
