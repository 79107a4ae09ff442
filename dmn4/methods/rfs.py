"""RFS (Tian et al., ECCV 2020): a good embedding, and a logistic regression fitted to the support of every episode."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import choose
from .base import Method
from .checks import positive
from .vectors import VECTORS


class RFS(Method):
    """Multinomial logistic regression on unit vectors; the scores are its logits.

    The fit minimises the sum of cross-entropies plus ||weights||^2 / (2 C); gradients reach the queries, not the fit.
    RFS-Distill is this method on a distilled backbone.
    """

    views = ("crop",) * 4                                                   # with the image itself: five rows

    def __init__(self, channels: int | None = None, vector: str = "gap", C: float = 1.0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.C = positive("C", C)
        self.reads_means = vector == "gap"

    def derive(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and biases of the fitted model: (n, C, H, W), (n,) -> (N, d), (N,)."""
        rows = F.normalize(self.vector(support)).detach().double().cpu().numpy()            # (n, d)
        weights, bias = logistic_regression(rows, labels.cpu().numpy(), self.C)
        return torch.from_numpy(weights).to(support), torch.from_numpy(bias).to(support)

    def score(self, model: tuple[Tensor, Tensor], query: Tensor) -> Tensor:
        return F.linear(F.normalize(self.vector(query)), *model)


def logistic_regression(rows: np.ndarray, labels: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and unpenalised biases of the multinomial model: (n, d), (n,) -> (N, d), (N,).

    With two classes scikit-learn fits their difference w, and (w/2)^2 + (w/2)^2 is half of w^2: C is doubled.
    """
    from sklearn.linear_model import LogisticRegression

    classes = labels.max() + 1
    if classes == 1:
        return np.zeros((1, rows.shape[1])), np.zeros(1)                    # nothing to tell apart
    model = LogisticRegression(C=2 * C if classes == 2 else C, solver="lbfgs", max_iter=1000).fit(rows, labels)
    weights, bias = model.coef_, model.intercept_
    return (weights, bias) if classes > 2 else (np.concatenate([-weights, weights]) / 2, np.append(-bias, bias) / 2)
