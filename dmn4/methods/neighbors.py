"""Nearest neighbours between the descriptors of an image and the support pool (Sec. 3.2, 3.3)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.jit import is_tracing  # type: ignore[attr-defined]

from ..errors import InputError, choose
from .blocks import Chunk, align, block_shape, similarities
from .descriptors import SupportPool
from .threads import share_out

SHORT_ROW = 32


@dataclass(frozen=True)
class Matches:
    """Who is nearest to whom; found once, without a graph. Every rule, vote and picture reads this."""

    class_best: Tensor   # (Q, M, N)  cos(q, NN_{s_c}(q))
    partner: Tensor      # (Q, M, N)  place in the pool of NN_{s_c}(q); empty if not asked for
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
        return take(self.partner, self.winner)


@torch.no_grad()
def search(query: Tensor, pool: SupportPool, partners: bool = True, answers: bool = True) -> Matches:
    """Match every query image with the pool: (Q, M, C), SupportPool -> Matches. Fields nobody asked for stay empty.

    `partners` asks for the place of the nearest in every class, `answers` also whether the nearest of all is mutual.
    """
    if is_tracing():
        return search_plainly(query, pool)
    wide, stands_for = align(pool, query.shape[0] * query.shape[1])
    images, columns = block_shape(query, wide)

    def search_block(block: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nearest = [nearest_in(chunk, cosines, partners or answers)
                   for chunk, cosines in similarities(block, wide, columns, room)]
        best, partner = (torch.cat(column, dim=-1) for column in zip(*nearest, strict=True))     # (b, M, N) each
        if not answers:
            return best, partner, torch.empty(0, dtype=torch.bool, device=best.device)
        chosen = wide.descriptors[take(partner, first_argmax(best))]                         # (b, M, C)
        return best, partner, answer(block, chosen, room)

    parts = share_out(search_block, query.split(images), images * query.shape[1] * columns)
    best, partner, answered = (torch.cat(column) for column in zip(*parts, strict=True))
    return Matches(best, stands_for[partner], answered, len(pool.descriptors))


def search_plainly(query: Tensor, pool: SupportPool) -> Matches:
    """The same in a few plain steps without blocks and threads, for graphs that run elsewhere."""
    cosines = query @ pool.descriptors.T                                                     # (Q, M, S)
    best, places = zip(*(block.max(-1) for block in cosines.split(pool.counts, -1)), strict=True)
    starts = [sum(pool.counts[:label]) for label in range(len(pool.counts))]
    partner = torch.stack([place + start for place, start in zip(places, starts, strict=True)], -1)    # (Q, M, N)
    back = cosines.argmax(1).gather(1, cosines.argmax(-1))                                   # (Q, M)  NN_q(NN_S(q))
    return Matches(torch.stack(best, -1), partner, back == torch.arange(query.shape[1]), len(pool.descriptors))


@torch.no_grad()
def search_several(query: Tensor, pool: SupportPool, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest in each class, nearest first: (Q, M, C), SupportPool -> cosines, places (Q, M, N, k) each."""
    images, columns = block_shape(query, pool)

    def search_block(block: Tensor, room: Tensor) -> list[Tensor]:
        parts = [largest(chunk, cosines, k) for chunk, cosines in similarities(block, pool, columns, room)]
        return [torch.cat(column, dim=2) for column in zip(*parts, strict=True)]

    best, places = zip(*share_out(search_block, query.split(images), images * query.shape[1] * columns), strict=True)
    return torch.cat(best), torch.cat(places)


def nearest_in(chunk: Chunk, cosines: Tensor, partners: bool) -> tuple[Tensor, Tensor]:
    """The largest cosine with each class and, if asked for, its place in the pool: (b, M, n, s) -> (b, M, n) each."""
    if not partners:
        return cosines.amax(-1), torch.empty(0, dtype=torch.long, device=cosines.device)
    places = first_argmax(cosines)                                                           # (b, M, n)
    return take(cosines, places), places + chunk.starts(places.device)


def answer(images: Tensor, chosen: Tensor, room: Tensor) -> Tensor:
    """Whether q = NN_q(NN_S(q)): images (b, M, C), the NN_S(q) of each descriptor (b, M, C) -> bool (b, M)."""
    (count, places, _), back = images.shape, []
    for part in chosen.split(room.numel() // (count * places), dim=1):                       # (b, m, C)
        product = room[: count * part.shape[1] * places].view(count, -1, places)
        back.append(first_argmax(torch.bmm(part, images.mT, out=product)))                   # (b, m)
    return torch.cat(back, dim=1) == torch.arange(places, device=images.device)


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


def first_argmax(values: Tensor) -> Tensor:
    """The place of the largest value, the first on a tie: (..., n) -> (...).

    On a CPU NumPy's is vectorised and takes a sixth of the time of torch's, unless the rows are short.
    """
    if values.device.type == "cpu" and values.shape[-1] > SHORT_ROW and not is_tracing():
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
    if is_tracing():
        return settle_plainly(chosen, claim)
    itself = torch.arange(chosen.shape[1], device=chosen.device).expand_as(chosen)           # (Q, M)
    best = claim.new_full((len(claim), size), -torch.inf).scatter_reduce(1, chosen, claim, "amax")
    strongest = claim == best.gather(1, chosen)                                              # (Q, M)
    rank = torch.where(strongest, itself, chosen.shape[1])                                   # (Q, M)
    first = rank.new_full((len(claim), size), chosen.shape[1]).scatter_reduce(1, chosen, rank, "amin")
    return first.gather(1, chosen) == itself


def settle_plainly(chosen: Tensor, claim: Tensor) -> Tensor:
    """The same by comparing every descriptor with every other: (Q, M), (Q, M) -> bool (Q, M)."""
    places = torch.arange(chosen.shape[1])                                                   # (M,)
    rivals = chosen[:, :, None] == chosen[:, None]                                           # (Q, M, M)
    equal_but_earlier = (claim[:, None] == claim[:, :, None]) & (places < places[:, None])   # (Q, M, M)
    beaten = rivals & ((claim[:, None] > claim[:, :, None]) | equal_but_earlier)             # (Q, M, M)
    return ~beaten.any(-1)


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
        matches = search(F.normalize(query, dim=-1), everyone, answers=rule == "mnn")
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
