"""Random choices that depend on their place in a run alone, so that nothing has to be remembered to go on."""

import numpy as np
from torch import Generator


def mixed_seed(*numbers: int) -> int:
    """One seed for a place in a run such as (seed, use, step): equal for equal numbers, unrelated for others."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def generator(*numbers: int) -> Generator:
    """A fresh generator for a place in a run."""
    return Generator().manual_seed(mixed_seed(*numbers))
