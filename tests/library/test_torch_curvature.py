"""Curvature along a direction, against dense matrices made of whole Jacobians."""

import numpy as np
import pytest
import torch
from torch import nn

from adamqlr.torch import (
    Accumulated,
    Categorical,
    Fisher,
    Gaussian,
    GaussNewton,
    Hessian,
    Objective,
    Probe,
    Subsampled,
)
from adamqlr.torch.point import gradient
from torch_cases import PAIRS, torch_objective

each_case = pytest.mark.parametrize("case", PAIRS)


def start(objective):
    """The point of an objective, and a direction from it."""
    point = gradient(objective, list(objective.model.parameters()))
    noise = torch.Generator().manual_seed(5)
    return point, [
        torch.randn(p.shape, generator=noise, dtype=p.dtype) for p in point.params
    ]


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def jacobian(objective, params):
    """Outputs by parameters, one backward pass for each output."""
    outputs = objective.predict(objective.model)
    rows = [
        flat(torch.autograd.grad(z, params, retain_graph=True, materialize_grads=True))
        for z in outputs.reshape(-1)
    ]
    return outputs.detach(), torch.stack(rows).reshape(*outputs.shape, -1)


def dense(objective, params):
    """Sum of w_i J_i' H_i J_i, with H_i the loss's dense Hessian by the outputs.

    For these canonical links it is the Fisher matrix and Gauss-Newton's alike.
    """
    outputs, jacobians = jacobian(objective, params)
    values = objective.losses(outputs)
    if objective.weights is None:
        weights = torch.full_like(values, 1 / values.numel())
    else:
        weights = objective.weights.reshape(
            objective.weights.shape + (1,) * (values.ndim - objective.weights.ndim)
        ).expand_as(values)
        weights = weights / weights.sum()
    loss = lambda z: (weights * objective.losses(z)).sum()
    width = outputs.numel()
    hessian = torch.autograd.functional.hessian(loss, outputs).reshape(width, width)
    flat_jacobian = jacobians.reshape(width, -1)
    return flat_jacobian.T @ hessian @ flat_jacobian


@each_case
@pytest.mark.parametrize("curvature", [Fisher(), GaussNewton()], ids=repr)
def test_curvature_is_the_dense_matrix_along_the_direction(case, curvature):
    point, direction = start(objective := torch_objective(case))
    found = curvature.look(point, direction, 1.0).curvature
    d = flat(direction)
    expected = d @ dense(objective, point.params) @ d
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# Of ReLU's kinks differences see something and derivatives nothing.
@pytest.mark.parametrize("case", [case for case in PAIRS if "conv" not in case])
def test_hessian_is_the_loss_s_second_difference(case):
    point, direction = start(torch_objective(case))
    found = Hessian(signed=True).look(point, direction, 1.0).curvature
    h = 1e-4
    there, back = [
        point.means(point.loss_sums(point.outputs_at(direction, s)))[0] for s in (h, -h)
    ]
    np.testing.assert_allclose(
        found, (there - 2 * point.loss + back) / h**2, rtol=1e-4, atol=1e-5
    )
    assert Hessian().look(point, direction, 1.0).curvature == abs(found)


@each_case
def test_the_probe_converges_to_the_exact_product(case):
    point, direction = start(torch_objective(case))
    exact = Fisher().look(point, direction, 1.0).curvature
    errors = []
    for reach in (1e-3, 1e-4, 1e-5):
        look = Probe().look(point, direction, reach)
        assert look.trial is not None and look.trial.distance == reach
        errors.append(abs(look.curvature / exact - 1))
    # Forward differences: the error falls with the distance.
    assert errors[2] < errors[1] / 5 < errors[0] / 25 or errors[0] < 1e-6
    assert errors[2] < 1e-2


def test_a_look_leaves_the_parameters_to_the_last_bit():
    point, direction = start(torch_objective("transformer, padded"))
    before = [param.clone() for param in point.params]
    for curvature in (Fisher(), Probe(), Hessian(), Subsampled(Probe(), 2, least=1)):
        curvature.look(point, direction, 0.3)
    assert all(a.equal(b) for a, b in zip(before, point.params, strict=True))


def test_weights_average_loss_gradient_and_curvature_alike():
    model, x, y = nn.Linear(3, 4), torch.randn(8, 3), torch.arange(8) % 4
    mask = torch.tensor([1, 0, 1, 1, 0, 1, 0, 0])
    spoilt = torch.where(mask == 0, -100, y)
    answers = []
    for objective in (
        Objective(model, Categorical(), x, spoilt, mask),
        Objective(model, Categorical(), x[mask == 1], y[mask == 1]),
    ):
        model.zero_grad()
        point, direction = start(objective)
        bend = Fisher().look(point, direction, 1.0).curvature
        grads = [param.grad.clone() for param in point.params]
        answers.append((point.loss, point.batch().examples, bend, *grads))
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_batch_of_masked_examples_has_loss_and_curvature_zero():
    model, x = nn.Linear(3, 4), torch.randn(8, 3)
    objective = Objective(model, Gaussian(), x, torch.zeros(8, 4), torch.zeros(8))
    point, direction = start(objective)
    assert point.loss == 0 and point.batch().examples == 0
    assert Fisher().look(point, direction, 1.0).curvature == 0


def test_weights_of_another_length_are_refused():
    model = nn.Linear(3, 4)
    data = torch.randn(8, 3), torch.zeros(8, 4), torch.ones(5)
    with pytest.raises(ValueError, match=r"weights must have .* got \(5,\)"):
        Objective(model, Gaussian(), *data)()


@pytest.mark.parametrize("examples, stride", [(24, 3), (15, 1)])
def test_a_part_has_its_least_in_all_micro_batches_together(examples, stride):
    model, x, y = nn.Linear(3, 4), torch.randn(24, 3), torch.arange(24) % 4
    of = lambda rows: Objective(model, Categorical(), x[rows], y[rows])
    parts = Accumulated([of(slice(0, 9)), of(slice(9, examples))])
    params = list(model.parameters())
    direction = [torch.linspace(0, 1, p.numel()).view_as(p) for p in params]

    def bend(curvature, objective):
        model.zero_grad()
        return curvature.look(gradient(objective, params), direction, 1.0).curvature

    expected = bend(Fisher(), of(slice(0, examples, stride)))
    found = bend(Subsampled(Fisher(), 4, least=8), parts)
    torch.testing.assert_close(found, expected)


def test_a_stride_below_one_is_refused():
    with pytest.raises(ValueError, match="every must lie in"):
        Subsampled(Fisher(), 0)
