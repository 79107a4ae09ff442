""""None of these", and probabilities one can trust: both calibrated on the labelled pictures alone.

In each of a few rounds every class gives up one picture. The classes as they are then judge the picture: that is how a
picture of a known class looks (leave-one-out). Without its own class they judge it again: that is how a stranger looks
(leave-class-out). Where all classes have a single picture, flipped and cropped views of it take its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..methods.vectors import class_means, cosines, pooled
from .shots import Shots

START, BY_WAYS, BY_SHOTS = -0.90, 0.08, -0.31                 # the line through all that was measured
FAR = 0.35                                                    # how far others are from it: a Cauchy scale
STRANGE = 1.75                                                # what the own class adds to the spread, in classes
STRANGERS = 10                                                # pictures judged without their class, at most
Score = Callable[[Shots, Tensor], Tensor]                     # support, query maps (Q, C, H, W) -> scores (Q, N)
ROUNDS = 10                                                   # at most; each costs one scoring of N pictures
UNCALIBRATED = "uncalibrated"


@dataclass(frozen=True)
class Calibration:
    """What turns scores into probabilities and evidence into "one of these"; plain numbers, stored with the model."""

    source: str = UNCALIBRATED                                # "leave-one-out", "views" or UNCALIBRATED
    held_out: int = 0                                         # pictures that were judged without themselves
    temperature: float = 1.0                                  # of the scores
    weights: tuple[float, float] = (0.0, 0.0)                 # of lead and likeness
    bias: float = 0.0

    @property
    def rejects(self) -> bool:
        """Whether "none of these" was calibrated at all."""
        return self.source != UNCALIBRATED

    def probabilities(self, scores: Tensor) -> Tensor:
        """The probability of each class, given that it is one of them: (Q, N) -> (Q, N)."""
        return (scores.double() / self.temperature).softmax(1)

    def known(self, found: Tensor) -> Tensor:
        """The probability that a picture is of any of the classes: evidence (Q, 2) -> (Q,); NaN if uncalibrated."""
        if not self.rejects:
            return torch.full((len(found),), torch.nan, dtype=torch.float64)
        return (found.double() @ torch.tensor(self.weights, dtype=torch.float64) + self.bias).sigmoid()


def evidence(scores: Tensor, alike: Tensor, own: Tensor | None = None) -> Tensor:
    """How well each picture fits the classes at all, from scores and likeness: (Q, N), (Q, N) -> (Q, 2).

    Lead: how far the best class is before the next one. Likeness: the largest. Beside one class alone there is no
    lead: 0. With `own` (Q,) every picture is judged as if that class did not exist, so that one answer of the method
    shows how a picture of a known class looks and how a stranger does.
    """
    if own is not None:
        others = torch.ones_like(scores, dtype=torch.bool).scatter(1, own[:, None], False)
        scores, alike = (values[others].view(len(values), -1) for values in (scores, alike))      # (Q, N - 1)
    best = alike.amax(1)                                                                          # (Q,)
    if scores.shape[1] < 2:
        return torch.stack([torch.zeros_like(best), best], dim=1)
    first, second = scores.topk(2, dim=1).values.unbind(1)
    return torch.stack([first - second, best], dim=1)


def likeness(support: Shots, query: Tensor) -> Tensor:
    """The cosine of each picture's mean descriptor with that of each class: (Q, C, H, W) -> (Q, N)."""
    plain = support.rows(support.look == 0)
    return cosines(pooled(query), class_means(plain.maps.means, plain.labels))


@dataclass(frozen=True)
class Trial:
    """A round: support that is left, pictures that it judges, and their classes."""

    support: Shots
    query: Tensor                                             # (Q, C, H, W)
    labels: Tensor                                            # (Q,)


@torch.inference_mode()
def calibrate(score: Score, shots: Shots) -> Calibration:
    """Temperature and rejection of a classifier, from its labelled pictures alone."""
    shots = shots.distinct()
    source = "leave-one-out" if bool((shots.counts > 1).any()) else "views"
    trials = rounds(shots) if source == "leave-one-out" else [views(shots)]
    labels = torch.cat([trial.labels for trial in trials])
    if not len(labels):
        return Calibration()
    scores = torch.cat([score(trial.support, trial.query) for trial in trials])                   # (Q, N)
    alike = torch.cat([likeness(trial.support, trial.query) for trial in trials])                 # (Q, N)
    known, strangers = evidence(scores, alike), evidence(scores, alike, labels)                   # (Q, 2) each
    lead = source == "leave-one-out" and len(shots.counts) > 2          # the lead of a view is far above a picture's
    weights, bias = fit_rejection(known.numpy(), strangers.numpy(), lead)
    return Calibration(source, len(labels), temperature(score, shots, trials, scores), weights, bias)


def temperature(score: Score, shots: Shots, trials: list[Trial], scores: Tensor) -> float:
    """The temperature of a classifier's scores: from its trials or, beside views alone, from strangers."""
    ways, single = len(shots.counts), bool((shots.counts == 1).all())
    if single and ways > 2:
        return single_shot_temperature(strange_scores(score, shots), ways)
    labels = torch.cat([trial.labels for trial in trials])
    before, after = (usual_power(ways, float(some.counts.float().mean())) for some in (trials[0].support, shots))
    return fit_temperature(scores, labels, before, after)


def rounds(shots: Shots) -> list[Trial]:
    """Trials in which every class of several pictures gives up one: in round r its r-th, counted round and round."""
    plain = shots.rows(shots.look == 0)
    members = [plain.image[plain.labels == label] for label in range(len(plain.counts))]
    trials = []
    for number in range(min(ROUNDS, int(plain.counts.max()))):
        out = torch.stack([pictures[number % len(pictures)] for pictures in members if len(pictures) > 1])
        given = plain.rows(torch.isin(plain.image, out))
        trials.append(Trial(shots.rows(~torch.isin(shots.image, out)), given.maps.float(), given.labels))
    return trials


def views(shots: Shots) -> Trial:
    """The one trial of single pictures: flipped and cropped views are judged by the pictures themselves."""
    seen = shots.rows(shots.look != 0)
    return Trial(shots, seen.maps.float(), seen.labels)


def fit_rejection(known: np.ndarray, strangers: np.ndarray, lead: bool) -> tuple[tuple[float, float], float]:
    """Weights and bias of a balanced logistic regression, known pictures against strangers: (Q, 2), (P, 2).

    Without `lead` likeness decides alone.
    """
    from sklearn.linear_model import LogisticRegression

    rows = np.concatenate([known, strangers]).astype(np.float64) * [lead, True]
    truth = np.repeat([1, 0], [len(known), len(strangers)])
    middle, scale = rows.mean(0), rows.std(0)
    scale[scale < 1e-9] = 1.0
    model = LogisticRegression(class_weight="balanced").fit((rows - middle) / scale, truth)
    weights = model.coef_[0] / scale
    return (float(weights[0]), float(weights[1])), float(model.intercept_[0] - weights @ middle)


# -------------------------------------------------------------------------------------------- the temperature of scores
# Whatever the pictures and the method, the best temperature turned out to be nearly the same multiple of the spread of
# the scores, by ways and shots (docs/results/temperature-law.md, from examples/temperature_law.py). A handful of
# held-out pictures then has to say only how far this classifier is from that.

def usual_power(ways: int, shots: float) -> float:
    """Log of the usual temperature over the spread of the scores; `shots`: pictures of a class, on average."""
    return START + BY_WAYS * float(np.log(ways)) + BY_SHOTS * float(np.log(shots))


def fit_temperature(scores: Tensor, labels: Tensor, before: float, after: float) -> float:
    """The temperature of a classifier from scores of held-out pictures: (Q, N), (Q,) -> above 0.

    With as many shots as judged them `before` is the usual power, with all shots `after`.
    """
    spread = spread_of(scores)
    return spread * float(np.exp(after + best_power(scores / spread, labels, before, FAR) - before))


def single_shot_temperature(scores: Tensor, ways: int) -> float:
    """The temperature of a classifier with one picture a class, from `strange_scores`: (P, N - 1) -> above 0."""
    return spread_of(scores) / (1 - STRANGE / ways) * float(np.exp(usual_power(ways, 1)))


def best_power(scores: Tensor, labels: Tensor, usual: float = 0.0, far: float = np.inf) -> float:
    """Log of the temperature that makes the scores the best probabilities: (Q, N), (Q,) -> number.

    By their likelihood, times that of a power which is usually `usual`, give or take `far`: a Cauchy distribution, so
    that an unusual classifier can still convince.
    """
    from scipy.optimize import minimize_scalar

    scores = scores.double()

    def loss(power: float) -> float:
        said = (scores / np.exp(power)).log_softmax(1)                                            # (Q, N)
        return float(np.log1p(((power - usual) / far) ** 2) - said.gather(1, labels[:, None]).sum())

    return float(minimize_scalar(loss, bounds=(-6, 6), method="bounded").x)


def spread_of(scores: Tensor) -> float:
    """How far apart the scores of a picture are, on average: (Q, N) -> above 0."""
    return float(scores.double().std(1).mean()) or 1.0


def strange_scores(score: Score, shots: Shots) -> Tensor:
    """The scores of some pictures, each without its own class: (P, N - 1)."""
    plain = shots.rows(shots.look == 0)
    classes = torch.linspace(0, len(shots.counts) - 1, min(STRANGERS, len(shots.counts))).long().tolist()
    return torch.cat([score(shots.without(label)[0], plain.maps[plain.labels == label].float()) for label in classes])
