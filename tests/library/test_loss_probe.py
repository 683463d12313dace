"""Any scalar loss, at one more evaluation, in both front ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from adamqlr import jax as in_jax
from adamqlr import torch as in_torch
from adamqlr.torch import ANY_LOSS, AdamQLR, Hessian, Limit, LossProbe
from torch_cases import batch, set_reach, small_net

ANY = {"curvature": LossProbe(), "rule": ANY_LOSS}


def contrastive(model, x):
    """A loss that is no mean over examples: each is told from all the others."""
    z = nn.functional.normalize(model(x), dim=1)
    return nn.functional.cross_entropy(5 * z @ z.T.flip(1), torch.arange(len(x)))


def test_the_curvature_is_the_hessian_s():
    found = []
    for curvature in (LossProbe(limit=10), Hessian()):
        model, (x, _) = small_net().double(), batch()
        optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=ANY_LOSS)
        set_reach(optimiser, 1e-4)
        optimiser.step(lambda net=model, x=x: contrastive(net, x.double()))
        found.append(optimiser.info.curvature)
    assert found[0] == pytest.approx(found[1], rel=0.02)


def test_a_closure_is_called_twice_and_falls():
    model, (x, _), calls = small_net(), batch(), []
    optimiser = AdamQLR(model.parameters(), **ANY)

    def closure():
        calls.append(torch.is_grad_enabled())
        return contrastive(model, x)

    losses = [optimiser.step(closure).item() for _ in range(40)]
    # The first step calls it once more, to see whether it answers the same.
    assert calls == [True, False, False] + 39 * [True, False]
    assert losses[-1] < 0.8 * losses[0]


def test_a_closure_that_draws_its_batch_is_refused():
    model, (x, _) = small_net(), batch()
    optimiser, batches = AdamQLR(model.parameters(), **ANY), iter(x.split(4))
    with pytest.raises(RuntimeError, match="from a data loader, must be drawn before"):
        optimiser.step(lambda: contrastive(model, next(batches)))
    assert optimiser.info is None


def test_no_step_is_longer_than_a_part_of_the_parameters():
    model, (x, _) = small_net(), batch()
    probe = LossProbe(limit=1e-3)
    optimiser = AdamQLR(model.parameters(), curvature=probe, rule=ANY_LOSS)
    length = lambda tensors: torch.cat([t.flatten() for t in tensors]).norm().item()
    limits = set()
    for _ in range(20):
        before = [param.detach().clone() for param in model.parameters()]
        numbers = sum(param.numel() for param in before)
        optimiser.step(lambda: contrastive(model, x))
        moves = [a - b for a, b in zip(model.parameters(), before, strict=True)]
        assert length(moves) <= 0.00101 * (length(before) + 0.01 * numbers**0.5)
        limits.add(optimiser.info.limit)
    assert Limit.LOOK in limits


def test_batch_norm_counts_one_batch_a_step_and_masks_are_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
    )
    x, seen = batch()[0], []
    model[2].register_forward_hook(lambda *hook: seen.append(hook[2] == 0))
    optimiser = AdamQLR(model.parameters(), **ANY)
    for number in range(1, 4):
        optimiser.step(lambda: contrastive(model, x))
        assert model[1].num_batches_tracked == number
        here, there = seen[-2:]
        assert here.equal(there)
    assert not seen[0].equal(seen[-1])


def rosenbrock(x, y):
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def test_both_front_ends_make_the_same_steps():
    jax.config.update("jax_enable_x64", True)
    try:
        optimiser = in_jax.adam_qlr(curvature=in_jax.LossProbe(), rule=in_jax.ANY_LOSS)
        params = jnp.array([1.0, -1.0])
        state, start = optimiser.init(params), torch.tensor([1.0, -1.0])
        param = nn.Parameter(start.double())
        theirs = AdamQLR([param], **ANY)
        for _ in range(100):
            params, state, loss, _ = in_jax.train_step(
                optimiser, lambda p: rosenbrock(p[0], p[1]), params, state
            )
            other = theirs.step(lambda: rosenbrock(param[0], param[1]))
            np.testing.assert_allclose(loss, other.item(), rtol=1e-6)
        np.testing.assert_allclose(params, param.detach(), rtol=1e-6)
        assert loss < 300
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("library", [in_jax, in_torch])
def test_a_limit_of_zero_is_refused(library):
    with pytest.raises(ValueError, match="limit must lie in"):
        library.LossProbe(limit=0.0)


@pytest.mark.parametrize("library", [in_jax, in_torch])
def test_a_rule_with_steps_that_do_not_look_is_refused(library):
    """The limit would not hold there; and half a batch's loss is not the batch's."""
    make = in_jax.adam_qlr if library is in_jax else lambda **own: AdamQLR([w], **own)
    w = nn.Parameter(torch.zeros(1))
    with pytest.raises(ValueError, match="give rule=ANY_LOSS"):
        make(curvature=library.LossProbe(), rule=library.Rule(budget=None))
    with pytest.raises(ValueError, match="cannot cut LossProbe"):
        library.Subsampled(library.LossProbe(), 2)


@pytest.mark.parametrize("library", [in_jax, in_torch])
def test_what_is_no_curvature_or_no_rule_is_refused_at_once(library):
    make = in_jax.adam_qlr if library is in_jax else lambda **own: AdamQLR([w], **own)
    w = nn.Parameter(torch.zeros(1))
    with pytest.raises(TypeError, match=r"write Hessian\(\)"):
        make(curvature=library.Hessian)
    with pytest.raises(TypeError, match="must have a method look"):
        make(curvature="hessian")
    with pytest.raises(TypeError, match=r"is Rule\(budget="):
        make(rule=library.KLBudget())
