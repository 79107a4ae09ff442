"""The paper's figures (Sec. 4.4.2 and supplement): first the numbers, then the pictures of them."""

from .curves import draw_clouds, draw_clutter_curves, draw_densities, draw_shares
from .numbers import Cloud, clutter_accuracies, sample_tau, true_shares, tsne_clouds

__all__ = [
    "Cloud", "clutter_accuracies", "draw_clouds", "draw_clutter_curves", "draw_densities", "draw_shares", "sample_tau",
    "true_shares", "tsne_clouds",
]
