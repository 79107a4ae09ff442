"""The small exact solvers inside the rival methods: transport, ridge regression, the SVM dual, subspaces.

All are differentiable where a method trains through them, and the delicate ones work in float64 whatever comes in.
"""

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError, choose

Solver = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]   # cost, supply, demand -> flow and dual variables

# Transport: P problems at once, each of moving a supply (m,) onto a demand (n,) at the least total cost


def transport(cost: Tensor, supply: Tensor, demand: Tensor, solver: str = "exact",
              entropy: float = 0.02, iterations: int = 200) -> Tensor:
    """The least total cost of each problem: (P, m, n), (P, m), (P, n) -> (P,).

    Supply and demand are positive and have equal sums. Gradients come from the flow and the dual variables, which
    hold at any optimum: the duals are fixed up to a constant, which a weight rescaled to a fixed sum does not see.
    `solver`: "exact", POT's network simplex; "sinkhorn", entropic and batched, for GPUs.
    """
    if not len(cost):
        return cost.sum((1, 2))                                             # no problem, no cost
    solve = {"exact": network_simplex, "sinkhorn": partial(sinkhorn, entropy=entropy, iterations=iterations)}
    chosen = solve[choose("solver", solver, solve)]
    costs: Tensor = Transport.apply(cost, supply, demand, chosen)  # type: ignore[no-untyped-call]
    return costs


class Transport(torch.autograd.Function):
    """V = min <flow, cost>: dV/dcost is the flow, dV/dsupply and dV/ddemand are the dual variables."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, supply: Tensor, demand: Tensor, solve: Solver) -> Tensor:
        flow, *duals = solve(cost, supply, demand)
        ctx.save_for_backward(flow, *duals)
        costs: Tensor = (flow * cost).sum((-2, -1))
        return costs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        flow, potential_supply, potential_demand = ctx.saved_tensors
        gradient = gradient[:, None]
        return gradient[:, None] * flow, gradient * potential_supply, gradient * potential_demand, None


def require_transport(solver: str) -> None:
    """Raise an InputError if the exact solver was asked for and POT is not installed."""
    if solver == "exact" and importlib.util.find_spec("ot") is None:
        raise InputError("exact transport needs POT: pip install 'dmn4[rivals]', or choose solver='sinkhorn'")


def network_simplex(cost: Tensor, supply: Tensor, demand: Tensor) -> list[Tensor]:
    """The optimal flow and both dual variables of each problem, by POT -> (P, m, n), (P, m), (P, n).

    POT's inner routine is called because `ot.emd` triples the time of a 25 x 25 problem; it lets other threads run.
    """
    from ot.lp.emd_wrap import check_result, emd_c

    supplies, demands, costs = (x.detach().double().cpu() for x in (supply, demand, cost))
    demands = demands * (supplies.sum(1) / demands.sum(1))[:, None]         # equal to the last digit, or infeasible
    problems = list(zip(*(x.contiguous().numpy() for x in (supplies, demands, costs)), strict=True))
    workers = min(torch.get_num_threads(), len(problems))

    def solve(part: int) -> list[tuple[Any, ...]]:
        return [emd_c(*problem, 10_000_000, 1) for problem in problems[part::workers]]

    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(solve, range(workers)))
    solutions = [parts[i % workers][i // workers] for i in range(len(problems))]
    flows, _, u, v, codes = zip(*solutions, strict=True)
    for code in set(codes):
        check_result(code)                                                  # warns of one that is not optimal
    return [torch.from_numpy(np.stack(x)).to(cost) for x in (flows, u, v)]


def sinkhorn(cost: Tensor, supply: Tensor, demand: Tensor, entropy: float, iterations: int) -> list[Tensor]:
    """The flow of greatest entropy-regularised gain and its potentials, in logarithms -> (P, m, n), (P, m), (P, n)."""
    log_supply, log_demand, kernel = supply.log(), demand.log(), -cost / entropy
    v = torch.zeros_like(demand)
    for _ in range(iterations):                                             # u, v in units of `entropy`
        u = log_supply - (kernel + v[:, None]).logsumexp(2)                 # (P, m)
        v = log_demand - (kernel + u[:, :, None]).logsumexp(1)              # (P, n)
    return [(kernel + u[:, :, None] + v[:, None]).exp(), entropy * u, entropy * v]


# Ridge regression


def ridge(rows: Tensor, targets: Tensor, query: Tensor, strength: Tensor | float, form: str = "cheaper") -> Tensor:
    """What a ridge regression from `rows` to `targets` predicts for `query`: (n, d), (n, t), (q, d) -> (q, t).

    The two forms are equal: "primal" solves for weights (d x d), "dual" for one coefficient a row (n x n).
    """
    form = choose("form of ridge regression", form, ("cheaper", "primal", "dual"))
    if form == "primal" or (form == "cheaper" and rows.shape[1] <= rows.shape[0]):
        return query @ solve_positive(rows.T @ rows, rows.T @ targets, strength)
    return (query @ rows.T) @ solve_positive(rows @ rows.T, targets, strength)


def solve_positive(matrix: Tensor, right: Tensor, strength: Tensor | float) -> Tensor:
    """X of (matrix + strength I) X = right, by Cholesky: (n, n), (n, t) -> (n, t)."""
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix + strength * identity))


def solve_each(matrices: Tensor, right: Tensor) -> Tensor:
    """X of A X = B for each of many systems: (..., n, n), (..., n, t) -> (..., n, t).

    On a CPU one after another: once anything has set torch's number of threads, MKL fails at the LU of a whole batch of
    matrices with some hundred rows.
    """
    if matrices.is_cuda or matrices.ndim == 2:
        solution: Tensor = torch.linalg.solve(matrices, right)
        return solution
    systems = zip(matrices.flatten(0, -3), right.flatten(0, -3), strict=True)
    return torch.stack([torch.linalg.solve(*system) for system in systems]).view_as(right)


# Crammer and Singer's multi-class SVM: the dual variables A (n, N), one row a support image


def svm_dual(gram: Tensor, labels: Tensor, bound: float = 0.1, identity: float = 1.0) -> Tensor:
    """A that minimises <A, (gram + identity I) A> / 2 - <Y, A>, with A <= bound Y and rows of sum 0 -> (n, N).

    Y is one-hot. Solved in float64; the gradient towards `gram` is that of the optimum itself.
    """
    one_hot = F.one_hot(labels).double()
    dual: Tensor = SVMDual.apply(gram.double(), one_hot, bound, identity)  # type: ignore[no-untyped-call]
    return dual.to(gram.dtype)


class SVMDual(torch.autograd.Function):
    """The dual's optimum; backwards through its optimality conditions on the entries below their bounds."""

    @staticmethod
    def forward(ctx: Any, gram: Tensor, one_hot: Tensor, bound: float, identity: float) -> Tensor:
        hessian = gram + identity * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        dual = minimise_on_rows(hessian, one_hot, bound * one_hot)
        ctx.save_for_backward(hessian, dual, dual < bound * one_hot)
        return dual

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hessian, dual, free = ctx.saved_tensors
        product = free_direction(hessian, free, gradient) @ dual.T          # (n, n)
        return -(product + product.T) / 2, None, None, None


def minimise_on_rows(hessian: Tensor, linear: Tensor, upper: Tensor, tolerance: float = 1e-13) -> Tensor:
    """The minimum of <A, hessian A> / 2 - <linear, A> over A <= upper with rows of sum 0 -> (n, N).

    Projected gradient with the momentum of a strongly convex function: the error falls as (1 - condition^-1/2)^t.
    """
    spectrum = torch.linalg.eigvalsh(hessian).sqrt()                        # (n,)
    momentum = (spectrum[-1] - spectrum[0]) / (spectrum[-1] + spectrum[0])
    dual = ahead = torch.zeros_like(linear)
    for _ in range(20_000):
        last, dual = dual, project_rows(ahead - (hessian @ ahead - linear) / spectrum[-1] ** 2, upper)
        ahead = dual + momentum * (dual - last)
        if (dual - last).abs().max() <= tolerance * upper.max():
            break
    return dual


def project_rows(rows: Tensor, upper: Tensor) -> Tensor:
    """The nearest rows that sum to 0 below `upper`, each min(row - t, upper) for one t: (n, N) -> (n, N)."""
    order = (rows - upper).argsort(1)                                       # the k smallest are below their bounds
    ordered, bounds = rows.gather(1, order), upper.gather(1, order)
    sizes = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device)
    shifts = (ordered.cumsum(1) + bounds.sum(1, keepdim=True) - bounds.cumsum(1)) / sizes      # (n, N)  t, if k are
    below = (ordered - bounds <= shifts).sum(1, keepdim=True).clamp(min=1)                     # (n, 1)  k
    return torch.minimum(rows - shifts.gather(1, below - 1), upper)


def free_direction(hessian: Tensor, free: Tensor, right: Tensor) -> Tensor:
    """D with (hessian D + nu)_free = right_free for some nu (n, 1), rows of sum 0, D = 0 elsewhere -> (n, N).

    Given nu every class has its own system, among its free rows; the row sums then give nu.
    """
    mask = free.T.to(hessian.dtype)                                         # (N, n)
    blocks = hessian * mask[:, :, None] * mask[:, None]                     # (N, n, n)
    factors = torch.linalg.cholesky(blocks + torch.diag_embed(1 - mask))
    inverses = torch.cholesky_inverse(factors) * mask[:, :, None]           # (N, n, n)  0 where not free
    alone = (inverses @ (right.T * mask)[:, :, None]).squeeze(2)            # (N, n)     D, were nu = 0
    nobody = torch.diag((mask.sum(0) == 0).to(hessian.dtype))               # rows with all entries at their bounds
    nu = torch.linalg.solve(inverses.sum(0) + nobody, alone.sum(0))         # (n,)
    direction: Tensor = (alone - inverses @ nu).T
    return direction


# Subspaces


@torch.no_grad()
def null_space(rows: Tensor) -> Tensor:
    """An orthonormal basis of the vectors at right angles to all rows, without gradients: (n, d) -> (d, d - rank)."""
    _, strengths, directions = torch.linalg.svd(rows.double())              # directions (d, d)
    rank = int((strengths > strengths.amax() * max(rows.shape) * torch.finfo(rows.dtype).eps).sum())
    basis: Tensor = directions[rank:].T.to(rows.dtype)
    return basis


def leading_directions(rows: Tensor, rank: int) -> Tensor:
    """Orthonormal directions of the `rank` largest singular values, rank = K - 1 or K: (K, d) -> (rank, d), float64.

    Only their span is meant, and its gradient is exact for whatever depends on the span alone: kept directions trade
    with the dropped one, at a rate that needs the gap between those two, never a gap among the kept ones.
    """
    rows = rows.double()
    gram = rows @ rows.T                                                    # (K, K)
    smallest = gram.diagonal().sum().detach() * 1e-10 + 1e-30
    values, vectors = torch.linalg.eigh(gram.detach())                      # ascending
    dropped, kept = vectors.split([len(rows) - rank, rank], dim=1)          # (K, K - rank), (K, rank)
    gaps = values[len(rows) - rank:] - values[:len(rows) - rank, None]       # (K - rank, rank)
    kept = kept + dropped @ (dropped.T @ gram @ kept / gaps.clamp(min=smallest))       # adds 0, and the gradient
    span = kept.T @ rows                                                    # (rank, d)
    factor = torch.linalg.cholesky(span @ span.T + smallest * torch.eye(rank, dtype=rows.dtype, device=rows.device))
    orthonormal: Tensor = torch.linalg.solve_triangular(factor, span, upper=False)
    return orthonormal
