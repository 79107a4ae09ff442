"""The solvers agree with general ones, and their gradients with finite differences."""

import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog, minimize
from torch.autograd import gradcheck
from torch.testing import assert_close

from dmn4.errors import InputError
from dmn4.methods.solvers import (
    free_direction,
    leading_directions,
    network_simplex,
    null_space,
    project_rows,
    require_transport,
    ridge,
    solve_each,
    svm_dual,
    transport,
)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shares(weights):
    return weights.abs() / weights.abs().sum(-1, keepdim=True)


# Transport


def test_equal_weights_on_an_identity_move_nothing():
    similarity, ones = torch.eye(2)[None], torch.ones(1, 2)
    assert_close(network_simplex(1 - similarity, ones, ones)[0], similarity)
    assert_close(12.5 * (1 - transport(1 - similarity, ones, ones) / 2), torch.tensor([12.5]))


def test_half_a_unit_has_to_go_to_the_wrong_place():
    similarity, supply, demand = torch.eye(2)[None], torch.tensor([[1.5, 0.5]]), torch.tensor([[1.0, 1.0]])
    assert_close(network_simplex(1 - similarity, supply, demand)[0], torch.tensor([[[1.0, 0.5], [0.0, 0.5]]]))
    assert_close(12.5 * (1 - transport(1 - similarity, supply, demand) / 2), torch.tensor([9.375]))


def test_transport_is_the_optimum_of_the_linear_program():
    cost, supply, demand = random(3, 4, 5), shares(random(3, 4)), shares(random(3, 5))
    rows, columns = np.kron(np.eye(4), np.ones(5)), np.kron(np.ones(4), np.eye(5))
    for c, s, d, value in zip(cost, supply, demand, transport(cost, supply, demand), strict=True):
        program = linprog(c.flatten().numpy(), A_eq=np.vstack([rows, columns[1:]]), b_eq=np.concatenate([s, d[1:]]))
        assert value.item() == pytest.approx(program.fun, abs=1e-10)


def test_transport_with_equal_weights_is_an_assignment():
    cost, ones = random(1, 6, 6), torch.ones(1, 6, dtype=torch.float64)
    row, column = linear_sum_assignment(cost[0])
    assert_close(transport(cost, ones, ones), cost[0, row, column].sum()[None])


def test_the_flow_meets_supply_and_demand_and_the_duals_price_it():
    cost, supply, demand = random(4, 5, 3), shares(random(4, 5)), shares(random(4, 3))
    flow, u, v = network_simplex(cost, supply, demand)
    assert_close(flow.sum(2), supply)
    assert_close(flow.sum(1), demand)
    assert (flow >= 0).all()
    assert ((u[:, :, None] + v[:, None] - cost) <= 1e-12).all()
    assert_close((u * supply).sum(1) + (v * demand).sum(1), transport(cost, supply, demand))


def test_problems_are_solved_the_same_alone_or_together():
    cost, supply, demand = random(5, 3, 3), shares(random(5, 3)), shares(random(5, 3, seed=1))
    alone = [transport(cost[i:i + 1], supply[i:i + 1], demand[i:i + 1]) for i in range(5)]
    assert_close(transport(cost, supply, demand), torch.cat(alone))
    assert transport(cost[:0], supply[:0], demand[:0]).shape == (0,)


def test_the_gradient_of_transport_is_its_flow_and_its_duals():
    inputs = [x.requires_grad_() for x in (random(2, 4, 3), random(2, 4, seed=1), random(2, 3, seed=2))]
    assert gradcheck(lambda cost, a, b: transport(cost, shares(a), shares(b)), inputs)


def test_sinkhorn_comes_down_to_the_exact_cost_as_entropy_falls():
    cost, supply, demand = random(3, 6, 6).abs(), shares(random(3, 6)), shares(random(3, 6, seed=1))
    exact = transport(cost, supply, demand)
    gaps = [transport(cost, supply, demand, "sinkhorn", entropy, 2000) - exact for entropy in (0.3, 0.1, 0.03)]
    assert (gaps[0] > gaps[1]).all()
    assert (gaps[1] > gaps[2]).all()
    assert (gaps[2] > -1e-6).all()
    assert (gaps[2] < 0.02).all()


def test_with_little_entropy_the_gradient_of_sinkhorn_is_the_exact_one():
    cost, supply, demand = random(1, 4, 4).abs(), shares(random(1, 4)), shares(random(1, 4, seed=1))
    flows = []
    for solver in ("exact", "sinkhorn"):
        free = cost.clone().requires_grad_()
        transport(free, supply, demand, solver, 0.01, 3000).sum().backward()
        flows.append(free.grad)
    assert_close(*flows, atol=1e-6, rtol=0)


def test_exact_transport_without_pot_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'dmn4\[rivals\]'"):
        require_transport("exact")
    require_transport("sinkhorn")


def test_an_unknown_transport_solver_is_refused():
    with pytest.raises(InputError, match="unknown solver 'opencv'"):
        transport(random(1, 2, 2), torch.ones(1, 2), torch.ones(1, 2), "opencv")


# Ridge regression


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_both_forms_of_ridge_regression_agree(shape):
    rows, targets, query = random(*shape), random(shape[0], 2, seed=1), random(6, shape[1], seed=2)
    primal, dual = (ridge(rows, targets, query, 0.3, form) for form in ("primal", "dual"))
    weights = np.linalg.lstsq(np.vstack([rows, 0.3 ** 0.5 * np.eye(shape[1])]),
                              np.vstack([targets, np.zeros((shape[1], 2))]), rcond=None)[0]
    assert_close(primal, dual)
    assert_close(primal, query @ torch.from_numpy(weights))
    assert_close(ridge(rows, targets, query, 0.3), dual)


@pytest.mark.parametrize("form", ["primal", "dual"])
def test_the_gradient_of_ridge_regression_is_right(form):
    inputs = [x.requires_grad_() for x in (random(3, 4), random(3, 2, seed=1), random(2, 4, seed=2),
                                           torch.tensor(0.7, dtype=torch.float64))]
    assert gradcheck(lambda rows, targets, query, strength: ridge(rows, targets, query, strength, form), inputs)


# The SVM dual


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 2))
def test_projected_rows_are_feasible_and_no_feasible_point_is_nearer(rows, label):
    rows = torch.tensor(rows, dtype=torch.float64)
    upper = torch.zeros_like(rows)
    upper[:, label] = 0.5
    nearest = project_rows(rows, upper)
    assert_close(nearest.sum(1), torch.zeros(len(rows), dtype=torch.float64))
    assert (nearest <= upper).all()
    corners = 0.5 * (torch.eye(3, dtype=torch.float64)[label] - torch.eye(3, dtype=torch.float64))    # they span it
    assert (((rows - nearest)[:, None] * (corners - nearest[:, None])).sum(2) <= 1e-9).all()          # obtuse angles


def svm_case(images=6, classes=3, width=4):
    rows, labels = random(images, width), torch.arange(images) % classes
    return rows, labels, torch.eye(classes, dtype=torch.float64)[labels]


def test_the_svm_dual_agrees_with_a_general_solver():
    rows, labels, one_hot = svm_case()
    hessian, target = (rows @ rows.T + torch.eye(6)).numpy(), one_hot.numpy()

    def value(a):
        a = a.reshape(6, 3)
        return 0.5 * (a * (hessian @ a)).sum() - (target * a).sum()

    def slope(a):
        return (hessian @ a.reshape(6, 3) - target).ravel()

    general = minimize(value, np.zeros(18), jac=slope, method="SLSQP", options={"ftol": 1e-15, "maxiter": 500},
                       bounds=[(None, 0.1 * y) for y in target.ravel()],
                       constraints={"type": "eq", "fun": lambda a: a.reshape(6, 3).sum(1),
                                    "jac": lambda a: np.kron(np.eye(6), np.ones(3))})
    dual = svm_dual(rows @ rows.T, labels)
    assert_close(dual, torch.from_numpy(general.x).view(6, 3), atol=1e-7, rtol=0)
    assert value(dual.numpy().ravel()) <= general.fun + 1e-12


def test_the_svm_dual_is_feasible_and_stationary_when_badly_conditioned():
    rows, labels, one_hot = svm_case(images=30, classes=5, width=8)
    rows = 10 * (rows + 1)
    gram = rows @ rows.T
    dual = svm_dual(gram, labels)
    assert_close(dual.sum(1), torch.zeros(30, dtype=torch.float64))
    assert (dual <= 0.1 * one_hot).all()
    step = project_rows(dual - (gram @ dual + dual - one_hot) / gram.trace(), 0.1 * one_hot)
    assert_close(step, dual, atol=1e-11, rtol=0)


def test_the_svm_dual_is_solved_in_float64_whatever_comes_in():
    rows, labels, _ = svm_case()
    exact, rounded = svm_dual(rows @ rows.T, labels), svm_dual((rows @ rows.T).float(), labels)
    assert rounded.dtype == torch.float32
    assert_close(rounded.double(), exact, atol=1e-6, rtol=0)


def test_the_gradient_of_the_svm_dual_is_that_of_its_optimum():
    rows, labels, one_hot = svm_case()
    dual = svm_dual(rows @ rows.T, labels)
    assert 0 < (dual < 0.1 * one_hot).sum() < dual.numel()                     # some bounds hold, some do not
    assert gradcheck(lambda rows: svm_dual(rows @ rows.T, labels), rows.requires_grad_(), atol=1e-7, rtol=1e-6)


def test_a_free_direction_solves_the_full_optimality_system():
    rows, right = random(4, 3), random(4, 3, seed=1)
    hessian = rows @ rows.T + torch.eye(4, dtype=torch.float64)
    free = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=torch.bool)
    places, equalities = free.flatten(), torch.kron(torch.eye(4), torch.ones(1, 3)).double()[[0, 1, 3]]
    inner = torch.kron(hessian, torch.eye(3).double())[places][:, places]
    border = equalities[:, places]
    system = torch.cat([torch.cat([inner, border.T], 1), torch.cat([border, torch.zeros(3, 3)], 1)])
    answer = torch.linalg.solve(system, torch.cat([right.flatten()[places], torch.zeros(3)]))
    direction = free_direction(hessian, free, right)
    assert_close(direction[free], answer[:int(places.sum())])
    assert not direction[~free].any()


# Subspaces


def test_a_null_space_is_orthonormal_and_at_right_angles_to_the_rows():
    rows = random(3, 7)
    basis = null_space(rows)
    assert basis.shape == (7, 4)
    assert_close(basis.T @ basis, torch.eye(4, dtype=torch.float64))
    assert_close(rows @ basis, torch.zeros(3, 4, dtype=torch.float64))


def test_a_null_space_grows_when_rows_repeat():
    rows = random(3, 7)
    assert null_space(rows[[0, 1, 1]]).shape == (7, 5)
    assert null_space(torch.zeros(2, 7)).shape == (7, 7)


def projector(rows, rank):
    directions = leading_directions(rows, rank)
    return directions.T @ directions


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_leading_directions_span_what_the_svd_spans(rank):
    rows = random(3, 5)
    expected = torch.linalg.svd(rows, full_matrices=False)[2][:rank]
    assert_close(projector(rows, rank), expected.T @ expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_gradient_of_leading_directions_is_right(rank):
    assert gradcheck(lambda rows: projector(rows, rank), random(3, 5).requires_grad_())


def test_equally_strong_directions_do_not_spoil_the_gradient():
    rows = torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]], dtype=torch.float64, requires_grad=True)
    weights = random(4, 4)
    (projector(rows, 2) * weights).sum().backward()

    def value(at):
        kept = torch.linalg.svd(at, full_matrices=False)[2][:2]
        return ((kept.T @ kept) * weights).sum().item()

    step = 1e-6 * random(3, 4, seed=3)
    slope = (value(rows.detach() + step) - value(rows.detach() - step)) / 2
    assert (rows.grad * step).sum().item() == pytest.approx(slope, rel=1e-5)


def test_repeated_rows_leave_the_span_and_the_gradient_finite():
    rows = random(2, 5)[[0, 0, 1]].requires_grad_()
    span = projector(rows - rows.mean(0), 2)
    span.sum().backward()
    direction = (rows[0] - rows[2]).detach()
    assert_close(span.detach() @ direction, direction, atol=1e-8, rtol=0)
    assert rows.grad.isfinite().all()


def test_many_large_systems_are_solved_after_the_number_of_threads_was_set():
    torch.set_num_threads(torch.get_num_threads())          # as the threads of the search do; it stays so
    matrices = (torch.eye(361) - 0.2 * torch.rand(6, 361, 361) / 361).requires_grad_()
    right = torch.rand(6, 361, 2)
    found = solve_each(matrices, right)
    assert_close(matrices @ found, right)
    found.sum().backward()
    assert matrices.grad is not None
    assert matrices.grad.isfinite().all()
