"""A running mean of the weights, step by step, which is often better than the weights themselves."""

from typing import Generic, TypeVar, cast

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Network = TypeVar("Network", bound=nn.Module)


class Average(Generic[Network]):
    """The mean of a network's weights and batch statistics over about 1 / (1 - decay) steps; without decay, itself.

    `mean` is what a saved state must hold besides the network, or None.
    """

    def __init__(self, network: Network, decay: float) -> None:
        self.learning = network
        self.mean: AveragedModel | None = None
        if decay:
            self.mean = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)

    @property
    def network(self) -> Network:
        """What is measured and kept."""
        if self.mean is None:
            return self.learning
        return cast("Network", self.mean.module)

    def update(self) -> None:
        """Count the weights of this step."""
        if self.mean is not None:
            self.mean.update_parameters(self.learning)
