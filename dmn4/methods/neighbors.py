"""Nearest neighbours between the descriptors of an image and the support pool (Sec. 3.2, 3.3)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError, choose
from .descriptors import SupportPool
from .threads import share_out

CPU_BLOCK = 4 << 20      # bytes of similarities at a time: what stays in the cache
CACHE_LINE = 16          # numbers
WORTHWHILE = 20          # columns that may pay for one more
SHORT_ROW = 32


@dataclass(frozen=True)
class Matches:
    """Who is nearest to whom; found once, without a graph. Every rule, vote and picture reads this."""

    class_best: Tensor   # (Q, M, N)  cos(q, NN_{s_c}(q))
    partner: Tensor      # (Q, M, N)  place in the pool of NN_{s_c}(q); (Q, M, 1) that of NN_S(q) alone; or empty
    answered: Tensor     # (Q, M)     whether NN_q(NN_S(q)) = q; empty if not asked for
    size: int            # S          descriptors in the pool

    @property
    def nearest(self) -> Tensor:
        """cos(q, NN_S(q)) -> (Q, M)."""
        return self.class_best.amax(-1)

    @property
    def winner(self) -> Tensor:
        """c*, the class of NN_S(q) (Eq. 11) -> (Q, M)."""
        return first_argmax(self.class_best)

    @property
    def chosen(self) -> Tensor:
        """The place in the pool of NN_S(q) -> (Q, M)."""
        if self.partner.shape[-1] == 1:
            return self.partner.squeeze(-1)
        return self.partner.gather(-1, self.winner[..., None]).squeeze(-1)


class Chunk(NamedTuple):
    """Consecutive classes with equally many descriptors: a block of columns of the similarities."""

    classes: int   # how many
    size: int      # descriptors of each
    start: int     # place of the first in the pool

    def starts(self, device: torch.device) -> Tensor:
        """The place of each class's first descriptor -> (n,)."""
        return self.start + self.size * torch.arange(self.classes, device=device)


class Lead(NamedTuple):
    """The nearest of a chunk to every descriptor of a few images."""

    nearest: Tensor    # (b, M, 1)  its cosine
    choice: Tensor     # (b, M, 1)  its place in the pool
    answered: Tensor   # (b, M, 1)  whether it answers; empty if not asked for


@torch.no_grad()
def search(query: Tensor, pool: SupportPool, partners: bool = True, choices: bool = True,
           answers: bool = True) -> Matches:
    """Match every query image with the pool: (Q, M, C), SupportPool -> Matches. Fields nobody asked for stay empty.

    `partners` asks for the nearest in every class, `choices` for the nearest of all, `answers` whether it is mutual.
    """
    wide, stands_for = align(pool)
    images, columns = block_shape(query, wide)

    def one(block: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return search_block(similarities(block, wide, columns, room), partners, choices or answers, answers)

    parts = share_out(one, query.split(images), images * query.shape[1] * columns)
    best, partner, answered = (torch.cat(column) for column in zip(*parts, strict=True))
    return Matches(best, stands_for[partner.long()], answered, len(pool.descriptors))


@torch.no_grad()
def search_several(query: Tensor, pool: SupportPool, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest in each class, nearest first: (Q, M, C), SupportPool -> cosines, places (Q, M, N, k) each."""
    images, columns = block_shape(query, pool)

    def one(block: Tensor, room: Tensor) -> list[Tensor]:
        parts = [largest(chunk, cosines, k) for chunk, cosines in similarities(block, pool, columns, room)]
        return [torch.cat(column, dim=2) for column in zip(*parts, strict=True)]

    best, places = zip(*share_out(one, query.split(images), images * query.shape[1] * columns), strict=True)
    return torch.cat(best), torch.cat(places)


def align(pool: SupportPool) -> tuple[SupportPool, Tensor]:
    """The pool with whole cache lines for each class, filled up with its last descriptor -> and whom each stands for.

    On a CPU the rows of a product are written and read faster if they begin where a cache line begins. Of equals the
    first is found, so that a repeated descriptor never is. Small classes would grow too much and stay as they are.
    """
    counts = torch.tensor(pool.counts, device=pool.descriptors.device)                       # (N,)
    gaps = -counts % CACHE_LINE                                                              # (N,)
    if pool.descriptors.is_cuda or (gaps * WORTHWHILE > counts).any():
        gaps = torch.zeros_like(gaps)
    itself = torch.arange(len(pool.descriptors), device=counts.device)                       # (S,)
    last = itself.new_zeros(len(itself)).index_fill_(0, counts.cumsum(0) - 1, 1)             # (S,)
    stands_for = itself.repeat_interleave(1 + last * gaps.repeat_interleave(counts))         # (S',)
    return SupportPool(pool.descriptors[stands_for], (counts + gaps).tolist(), pool.rows[stands_for],
                       pool.places[stands_for]), stands_for


def block_shape(query: Tensor, pool: SupportPool) -> tuple[int, int]:
    """How many query images and pool descriptors to compare at a time: (Q, M, C) -> images, columns.

    A block holds as many images as fit the cache, or a share of a GPU's memory; an image that does not fit is matched
    a few classes at a time. So the (Q, M, S) tensor never exists.
    """
    budget = torch.cuda.mem_get_info(query.device)[0] // 8 if query.is_cuda else CPU_BLOCK
    pairs = budget // query.element_size()
    size = len(pool.descriptors)
    images = min(max(1, pairs // (query.shape[1] * size)), max(1, len(query)))
    return images, min(size, max(*pool.counts, pairs // (images * query.shape[1])))


def similarities(query: Tensor, pool: SupportPool, columns: int, room: Tensor) -> Iterator[tuple[Chunk, Tensor]]:
    """Cosines of a few images with a few classes at a time, all in the same room: (b, M, C) -> (b, M, n, s)."""
    rows = query.flatten(0, 1)                                                               # (b*M, C)
    for chunk in chunks(pool.counts, columns):
        width = chunk.classes * chunk.size
        product = room[: len(rows) * width].view(len(rows), width)
        torch.mm(rows, pool.descriptors[chunk.start : chunk.start + width].T, out=product)
        yield chunk, product.view(*query.shape[:2], chunk.classes, chunk.size)


def search_block(blocks: Iterable[tuple[Chunk, Tensor]], partners: bool, choices: bool,
                 answers: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Best cosines, partners and answers of a few images -> (b, M, N), (b, M, N or 1), (b, M)."""
    best, found = [], []
    leads: list[Lead] = []
    peak: Tensor | float = -inf                                                              # (b, M, 1)  nearest so far
    for chunk, cosines in blocks:
        if not (partners or choices):
            best.append(cosines.amax(-1))                                                    # (b, M, n)
            continue
        places = first_argmax(cosines)                                                       # (b, M, n)
        best.append(take(cosines, places))                                                   # (b, M, n)
        if partners:
            found.append(places + chunk.starts(places.device))                               # (b, M, n)
        if choices:
            leads.append(lead_of(chunk, cosines, best[-1], places, peak, answers))
            peak = leads[-1].nearest.clamp(min=peak)
    nothing = best[0].new_empty(0)
    lead = first_lead(leads) if choices else Lead(nothing, nothing, nothing)
    return joined(best), joined(found) if partners else lead.choice, lead.answered.squeeze(-1)


def first_lead(leads: list[Lead]) -> Lead:
    """Of the nearest in each chunk the nearest of all, the first on a tie."""
    if len(leads) == 1:
        return leads[0]
    nearest, choice, answered = (torch.cat(column, -1) for column in zip(*leads, strict=True))
    first = nearest.argmax(-1, keepdim=True)                                                 # (b, M, 1)
    return Lead(nearest.gather(-1, first), choice.gather(-1, first),
                answered.gather(-1, first) if answered.numel() else answered)


def joined(parts: list[Tensor]) -> Tensor:
    """The parts side by side; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def lead_of(chunk: Chunk, cosines: Tensor, best: Tensor, places: Tensor, peak: Tensor | float,
            answers: bool) -> Lead:
    """Who is nearest in a chunk: cosines (b, M, n, s), the best of them and their places (b, M, n) -> Lead.

    Those that were nearer to an earlier chunk, `peak` (b, M, 1), need not ask for an answer here.
    """
    nearest, winner = best.max(-1, keepdim=True)                                             # (b, M, 1) each
    choice = winner * chunk.size + places.gather(-1, winner)                                 # (b, M, 1)
    answered = search_back(cosines.flatten(2), choice, nearest, nearest > peak) if answers else nearest.new_empty(0)
    return Lead(nearest, chunk.start + choice, answered)


def take(values: Tensor, places: Tensor) -> Tensor:
    """The value at one place of each row: (..., s), (...) -> (...)."""
    return values.gather(-1, places[..., None]).squeeze(-1)


def largest(chunk: Chunk, cosines: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest cosines in each class and their places in the pool: (b, M, n, s) -> (b, M, n, k) each.

    The largest is found and struck out, k times over: ties go to the first, and for a small k it beats sorting.
    """
    values, places = [], []
    for _ in range(k):
        place = first_argmax(cosines)[..., None]                                             # (b, M, n, 1)
        values.append(cosines.gather(-1, place))
        places.append(place)
        cosines.scatter_(-1, place, -torch.inf)
    return torch.cat(values, -1), torch.cat(places, -1) + chunk.starts(cosines.device)[:, None]


def chunks(counts: list[int], columns: int) -> Iterator[Chunk]:
    """The classes of a pool in runs of equal size, none wider than `columns` unless a class is."""
    first, start = 0, 0
    while first < len(counts):
        size, last = counts[first], first + 1
        while last < len(counts) and counts[last] == size and (last + 1 - first) * size <= columns:
            last += 1
        yield Chunk(last - first, size, start)
        first, start = last, start + (last - first) * size


def search_back(similarity: Tensor, choice: Tensor, nearest: Tensor, asks: Tensor) -> Tensor:
    """Whether each one that asks is the nearest of its image to its choice: (b, M, S), (b, M, 1) thrice -> (b, M, 1).

    Column maxima are cheap and rule most descriptors out; the first of several equals is looked up for the rest.
    """
    answered = asks & (nearest == similarity.amax(1)[..., None].gather(1, choice))           # (b, M, 1)
    image, row, _ = answered.nonzero(as_tuple=True)                                          # (P,), (P,)
    columns = similarity[image, :, choice[image, row, 0]]                                    # (P, M)
    answered[image, row, 0] = first_argmax(columns) == row
    return answered


def first_argmax(values: Tensor) -> Tensor:
    """The place of the largest value, the first on a tie: (..., n) -> (...).

    On a CPU NumPy's is vectorised and takes a sixth of the time of torch's, unless the rows are short.
    """
    if values.device.type == "cpu" and values.shape[-1] > SHORT_ROW:
        return torch.from_numpy(values.numpy().argmax(-1))
    return values.argmax(-1)


def relative_closeness(class_best: Tensor) -> Tensor:
    """tau(q), the lead of the nearest class over the next one (Eq. 11, 12): (Q, M, N) -> (Q, M)."""
    if class_best.shape[-1] < 2:
        raise InputError("relative closeness compares two classes; the support set holds one")
    first, second = class_best.topk(2, dim=-1).values.unbind(-1)
    return first - second


def settle(chosen: Tensor, claim: Tensor, size: int) -> Tensor:
    """Of the descriptors that chose the same partner keep the strongest claim, the first on a tie.

    (Q, M) places, (Q, M) claims, number of places -> bool (Q, M).
    """
    itself = torch.arange(chosen.shape[1], device=chosen.device).expand_as(chosen)           # (Q, M)
    best = claim.new_full((len(claim), size), -torch.inf).scatter_reduce(1, chosen, claim, "amax")
    strongest = claim == best.gather(1, chosen)                                              # (Q, M)
    rank = torch.where(strongest, itself, chosen.shape[1])                                   # (Q, M)
    first = rank.new_full((len(claim), size), chosen.shape[1]).scatter_reduce(1, chosen, rank, "amin")
    return first.gather(1, chosen) == itself


def mutual(matches: Matches) -> Tensor:
    """MNN (Sec. 3.2): kept if the chosen support descriptor chooses it back -> bool (Q, M)."""
    return matches.answered


def relaxed_mutual(matches: Matches) -> Tensor:
    """MNN among rivals: the most similar of those that chose one support descriptor -> bool (Q, M)."""
    return settle(matches.chosen, matches.nearest, matches.size)


def discriminative_mutual(matches: Matches) -> Tensor:
    """DMNN (Sec. 3.3): rivals for one support descriptor are settled by tau -> bool (Q, M)."""
    return settle(matches.chosen, relative_closeness(matches.class_best), matches.size)


RULES = {"mnn": mutual, "mnn-relaxed": relaxed_mutual, "dmnn": discriminative_mutual}


def keep_mutual(query: Tensor, pool: Tensor, owner: Tensor, rule: str = "dmnn") -> Tensor:
    """The query descriptors that a rule keeps: (Q, M, C), (S, C), (S,) class-major -> bool (Q, M).

    Descriptors need not have unit length; nothing here has gradients.
    """
    choose("rule", rule, RULES)
    counts = check_descriptors(query, pool, owner)
    with torch.no_grad():
        everyone = SupportPool(F.normalize(pool, dim=-1), counts, owner, torch.arange(len(pool), device=pool.device))
        matches = search(F.normalize(query, dim=-1), everyone, partners=False, answers=rule == "mnn")
        return RULES[rule](matches)


def check_descriptors(query: Tensor, pool: Tensor, owner: Tensor) -> list[int]:
    """The number of pool descriptors of each class, or an InputError that names what is wrong."""
    if query.ndim != 3 or pool.ndim != 2 or query.shape[-1] != pool.shape[-1]:
        raise InputError(f"query descriptors have shape {tuple(query.shape)}, the pool {tuple(pool.shape)}; "
                         "(Q, M, C) and (S, C) are needed")
    if owner.shape != pool.shape[:1] or owner.is_floating_point() or not len(owner):
        raise InputError(f"owner has shape {tuple(owner.shape)} and type {owner.dtype}; an integer for each of the "
                         f"{len(pool)} pool descriptors is needed")
    if int(owner[0]) < 0 or (owner.diff() < 0).any():
        raise InputError("the pool is not class-major: owner must run from 0 to N-1 in ascending order")
    counts: list[int] = owner.bincount().tolist()
    if 0 in counts:
        raise InputError(f"class {counts.index(0)} has no descriptor in the pool")
    for name, values in (("query", query), ("pool", pool)):
        if not values.isfinite().all():
            raise InputError(f"{name} descriptors hold NaN or infinite values")
    return counts
