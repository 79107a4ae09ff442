"""The paper in plain loops: slow, obvious, the truth that the package has to agree with."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine_rows(maps: Tensor) -> list[list[Tensor]]:
    """The unit descriptors of each image, row by row of its map."""
    images = []
    for image in maps:
        places = [image[:, row, column] for row in range(image.shape[1]) for column in range(image.shape[2])]
        images.append([place / max(float(place.norm()), 1e-12) for place in places])
    return images


def similarity_table(support: Tensor, labels: Tensor, image: Tensor) -> tuple[list[list[float]], list[int]]:
    """Cosines of one image's descriptors with the class-major pool, and the owner of each pool descriptor."""
    pool, owner = [], []
    for label in range(int(labels.max()) + 1):
        for row in range(len(labels)):
            if labels[row] == label:
                for descriptor in cosine_rows(support[row : row + 1])[0]:
                    pool.append(descriptor)
                    owner.append(label)
    return [[float(q @ s) for s in pool] for q in cosine_rows(image[None])[0]], owner


def mean_descriptor(support: Tensor, labels: Tensor) -> Tensor:
    """The mean over places, then over the pictures of a class, then over the classes."""
    classes = []
    for label in range(int(labels.max()) + 1):
        pictures = [image.flatten(1).sum(1) / image[0].numel() for image, own in zip(support, labels, strict=True)
                    if own == label]
        classes.append(sum(pictures) / len(pictures))
    return sum(classes) / len(classes)


def first_largest(values: list[float]) -> int:
    best = 0
    for place, value in enumerate(values):
        if value > values[best]:
            best = place
    return best


def class_maxima(row: list[float], owner: list[int]) -> list[float]:
    return [max(value for value, label in zip(row, owner, strict=True) if label == c) for c in range(owner[-1] + 1)]


def tau(row: list[float], owner: list[int]) -> float:
    best, second = sorted(class_maxima(row, owner), reverse=True)[:2]
    return best - second


def keep_all(table: list[list[float]], owner: list[int]) -> list[bool]:
    return [True] * len(table)


def keep_strict(table: list[list[float]], owner: list[int]) -> list[bool]:
    """q is kept if q = NN_q(NN_S(q))."""
    kept = []
    for place, row in enumerate(table):
        chosen = first_largest(row)
        kept.append(first_largest([other[chosen] for other in table]) == place)
    return kept


def keep_best_claim(table: list[list[float]], claims: list[float]) -> list[bool]:
    """Of the descriptors that chose one partner, the first with the largest claim."""
    chosen = [first_largest(row) for row in table]
    kept = []
    for place in range(len(table)):
        rivals = [other for other in range(len(table)) if chosen[other] == chosen[place]]
        kept.append(rivals[first_largest([claims[rival] for rival in rivals])] == place)
    return kept


def keep_relaxed(table: list[list[float]], owner: list[int]) -> list[bool]:
    return keep_best_claim(table, [max(row) for row in table])


def keep_discriminative(table: list[list[float]], owner: list[int]) -> list[bool]:
    return keep_best_claim(table, [tau(row, owner) for row in table])


def keep_top(table: list[list[float]], owner: list[int], share: float) -> list[bool]:
    order = sorted(range(len(table)), key=lambda place: -tau(table[place], owner))
    top = order[: max(1, round(share * len(table)))]
    return [place in top for place in range(len(table))]


KEEP = {"mnn": keep_strict, "mnn-relaxed": keep_relaxed, "dmnn": keep_discriminative}


def vote_nbnn(table: list[list[float]], owner: list[int], kept: list[bool]) -> list[float]:
    maxima = [class_maxima(row, owner) for row, keep in zip(table, kept, strict=True) if keep]
    return [math.fsum(row[c] for row in maxima) for c in range(owner[-1] + 1)]


def vote_log_odds(table: list[list[float]], owner: list[int], kept: list[bool]) -> list[float]:
    maxima = [class_maxima(row, owner) for row, keep in zip(table, kept, strict=True) if keep]
    ways = range(owner[-1] + 1)
    return [math.fsum(row[c] - max(row[d] for d in ways if d != c) for row in maxima) for c in ways]


def vote_rank(table: list[list[float]], owner: list[int], kept: list[bool]) -> list[float]:
    winners = [first_largest(class_maxima(row, owner)) for row, keep in zip(table, kept, strict=True) if keep]
    counts = [winners.count(c) for c in range(owner[-1] + 1)]
    sums = vote_nbnn(table, owner, kept)
    smaller = [sum(other < mine for other in sums) for mine in sums]
    return [count + behind / (2 * len(sums)) for count, behind in zip(counts, smaller, strict=True)]


VOTE = {"nbnn": vote_nbnn, "log-odds": vote_log_odds, "rank": vote_rank}


def scores(support: Tensor, labels: Tensor, query: Tensor, keep, vote) -> Tensor:
    """Scores of each query image by a rule and a vote: (n, C, H, W), (n,), (Q, C, H, W) -> (Q, N)."""
    rows = []
    for image in query:
        table, owner = similarity_table(support, labels, image)
        rows.append(vote(table, owner, keep(table, owner)))
    return torch.tensor(rows, dtype=query.dtype)


def nearest_sum(support: Tensor, labels: Tensor, query: Tensor, k: int) -> Tensor:
    """DN4's own score: for each descriptor the sum of its k largest cosines in each class."""
    rows = []
    for image in query:
        table, owner = similarity_table(support, labels, image)
        rows.append([sum(sum(sorted((v for v, o in zip(row, owner, strict=True) if o == c), reverse=True)[:k])
                         for row in table) for c in range(owner[-1] + 1)])
    return torch.tensor(rows, dtype=query.dtype)


def dense_scores(support: Tensor, labels: Tensor, query: Tensor, rule: str) -> Tensor:
    """phi(x, c) through the whole similarity tensor, differentiable: the plain reading of the paper (equal shots)."""
    ways = int(labels.max()) + 1
    order = labels.argsort(stable=True)
    pool = F.normalize(support[order].flatten(2).transpose(1, 2), dim=-1).flatten(0, 1)       # (S, C)
    similarity = F.normalize(query.flatten(2).transpose(1, 2), dim=-1) @ pool.T               # (Q, M, S)
    class_best = similarity.unflatten(2, (ways, -1)).max(-1).values                           # (Q, M, N)
    nearest = similarity.argmax(2)                                                            # (Q, M)
    itself = torch.arange(similarity.shape[1])
    if rule == "mnn":
        kept = similarity.argmax(1).gather(1, nearest) == itself
    elif rule == "all":
        kept = torch.ones_like(nearest, dtype=torch.bool)
    else:
        first, second = class_best.topk(2, dim=-1).values.unbind(-1)
        claim = first - second if rule == "dmnn" else first
        column = torch.where(F.one_hot(nearest, len(pool)).bool(), claim[..., None], -torch.inf)   # (Q, M, S)
        kept = column.argmax(1).gather(1, nearest) == itself
    return (class_best * kept[..., None]).sum(1)


def katz_full(similarity: Tensor, gamma: float, gamma_back: float, alpha: float) -> Tensor:
    """MCL's centralities by the inverse of the whole graph: (M, S) -> (S,)."""
    places, size = similarity.shape
    to_support = torch.softmax(gamma * similarity, dim=1).T                                   # (S, M)
    to_query = torch.softmax(gamma_back * similarity, dim=0)                                  # (M, S)
    graph = similarity.new_zeros(size + places, size + places)
    graph[:size, size:], graph[size:, :size] = to_support, to_query
    identity = torch.eye(size + places, dtype=similarity.dtype)
    return ((identity - alpha * graph).inverse() - identity).sum(1)[:size]
