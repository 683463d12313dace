"""The average of the iterates: what it is, and that nobody can lose what is trained."""

import copy
import io

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

from adamqlr import rules
from adamqlr.jax import Average, Gaussian, Objective, Rule, adam_qlr, evaluation_params
from adamqlr.jax import train_step as jax_step
from adamqlr.torch import AdamQLR, Categorical
from adamqlr.torch import Objective as TorchObjective
from adamqlr.torch import Rule as TorchRule


def weighted_mean(iterates, power):
    """The slow obvious answer: weights that grow like the power of the step."""
    weights = np.cumprod([1.0] + [(t + power) / t for t in range(1, len(iterates))])
    return np.tensordot(weights / weights.sum(), np.stack(iterates), axes=1)


@pytest.mark.parametrize("power", [0.0, 3.0, 8.0])
def test_the_running_mean_weighs_late_iterates_like_a_power(power):
    iterates, mean = np.random.default_rng(0).normal(size=20), 0.0
    for count, iterate in enumerate(iterates, start=1):
        mean += rules.averaging_weight(count, power) * (iterate - mean)
    assert mean == pytest.approx(weighted_mean(iterates, power))


X = jnp.linspace(-1, 1, 8)[:, None]
REGRESSION = Objective(lambda w, x: x * w, Gaussian(), X, 3 * X)


def test_evaluation_params_are_the_mean_of_what_was_trained():
    optimiser = optax.chain(optax.identity(), adam_qlr(rule=Rule(average=Average(3.0))))
    params, iterates = jnp.zeros(1), []
    state = optimiser.init(params)
    for _ in range(12):
        params, state, *_ = jax_step(optimiser, REGRESSION, params, state)
        iterates.append(np.asarray(params))
    found = evaluation_params(state, params)
    np.testing.assert_allclose(found, weighted_mean(iterates, 3.0), rtol=1e-5)


def test_iterates_that_are_worse_than_a_constant_hardly_count():
    """A network that starts far off is evaluated where it is, not where it was."""
    optimiser, params = adam_qlr(), jnp.full(1, 1e3)
    state = optimiser.init(params)
    step = jax.jit(lambda params, state: jax_step(optimiser, REGRESSION, params, state))
    for _ in range(100):
        params, state, *_ = step(params, state)
        error, shown = params - 3, evaluation_params(state, params) - 3
        if abs(error) > 30:
            np.testing.assert_allclose(shown, error, rtol=1e-3)
    assert abs(shown) < 0.1


def test_without_an_average_the_params_are_evaluated():
    optimiser, params = adam_qlr(rule=Rule(average=None)), jnp.ones(1)
    assert evaluation_params(optimiser.init(params), params) is params


def test_state_and_params_are_told_apart():
    optimiser, params = adam_qlr(), jnp.ones(1)
    with pytest.raises(TypeError, match="takes the state first"):
        evaluation_params(params, optimiser.init(params))
    plain, params = adam_qlr(rule=Rule(average=None)), {"memory": params}
    assert evaluation_params(plain.init(params), params) is params


def test_parameters_may_be_called_average():
    optimiser = optax.chain(optax.clip(1.0), adam_qlr())
    params = {"average": jnp.ones(2), "w": jnp.zeros(1)}
    found = evaluation_params(optimiser.init(params), params)
    jax.tree.map(np.testing.assert_array_equal, found, params)


def test_a_setting_may_be_called_average():
    make = lambda average: adam_qlr(rule=Rule(average=Average(average)))
    optimiser = optax.inject_hyperparams(make)(average=8.0)
    params = jnp.ones(3)
    mean = evaluation_params(optimiser.init(params), params)
    np.testing.assert_array_equal(mean, params)


def test_params_of_another_structure_are_refused():
    state = adam_qlr().init({"w": jnp.ones(3)})
    with pytest.raises(ValueError, match="structure of those that were trained"):
        evaluation_params(state, {"v": jnp.ones(3)})


def test_averages_of_half_precision_are_kept_in_float32():
    params = {"w": jnp.ones(3, jnp.bfloat16)}
    state = adam_qlr().init(params)
    assert state.average["w"].dtype == jnp.float32
    assert evaluation_params(state, params)["w"].dtype == jnp.bfloat16


def test_a_refused_batch_leaves_the_average():
    optimiser, params = adam_qlr(), jnp.zeros(1)
    params, state, *_ = jax_step(optimiser, REGRESSION, params, optimiser.init(params))
    bad = Objective(lambda w, x: x * w, Gaussian(), X, X * jnp.nan)
    _, after, *_ = jax_step(optimiser, bad, params, state)
    assert after.info.rejected
    jax.tree.map(np.testing.assert_array_equal, after.average, state.average)


def problem(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)
    for param in model[2].parameters():
        nn.init.zeros_(param)  # One that is worse than guessing would not count.
    x = torch.randn(32, 4, dtype=dtype)
    return model, TorchObjective(model, Categorical(), x, x[:, :3].argmax(1))


def contents(model):
    return [param.detach().clone() for param in model.parameters()]


def same(a, b):
    return all(x.equal(y) for x, y in zip(a, b, strict=True))


def test_eval_shows_the_mean_and_train_what_is_trained():
    model, objective = problem()
    optimiser, iterates = AdamQLR(model.parameters()), []
    for _ in range(12):
        optimiser.step(objective)
        iterates.append(contents(model))
    trained = contents(model)
    with optimiser.averaged():
        for number, param in enumerate(model.parameters()):
            expected = weighted_mean([np.asarray(i[number]) for i in iterates], 8.0)
            np.testing.assert_allclose(param.detach(), expected, rtol=1e-4, atol=1e-6)
        optimiser.eval()  # twice is once
    assert same(contents(model), trained)


def test_the_mean_goes_on_to_what_is_frozen_along_the_way():
    model, objective = problem()
    optimiser, iterates = AdamQLR(model.parameters()), []
    for number in range(12):
        model[0].weight.requires_grad_(number < 4)
        optimiser.step(objective)
        iterates.append(model[0].weight.detach().numpy().copy())
    with optimiser.averaged():
        expected = weighted_mean(iterates, 8.0)
        np.testing.assert_allclose(model[0].weight.detach(), expected, atol=1e-6)


def test_inside_of_eval_the_mean_stays_in_place():
    """`averaged()` within an evaluation that `eval()` began does not end that."""
    model, objective = problem()
    optimiser = AdamQLR(model.parameters())
    for _ in range(3):
        optimiser.step(objective)
    trained = contents(model)
    optimiser.eval()
    mean = contents(model)
    with optimiser.averaged():
        assert same(contents(model), mean)
    assert same(contents(model), mean)
    optimiser.train()
    assert same(contents(model), trained)


def test_weights_loaded_since_the_last_step_are_replaced_with_a_warning():
    model, objective = problem()
    optimiser = AdamQLR(model.parameters())
    first = copy.deepcopy(model.state_dict())
    for _ in range(3):
        optimiser.step(objective)
    for _ in range(2):  # what eval() and train() write is no surprise
        optimiser.eval()
        optimiser.train()
    model.load_state_dict(first)
    with pytest.warns(UserWarning, match="to evaluate what was loaded, leave eval"):
        optimiser.eval()
    optimiser.train()
    assert same(contents(model), first.values())
    optimiser.step(objective)
    optimiser.eval()


def test_forgetting_train_changes_no_training():
    runs = []
    for forgetful in (False, True):
        model, objective = problem()
        optimiser = AdamQLR(model.parameters())
        for _ in range(12):
            optimiser.step(objective)
            if forgetful:
                optimiser.eval()
        optimiser.train()
        runs.append(contents(model))
    assert same(*runs)


def test_a_gradient_taken_at_the_average_is_refused():
    model, objective = problem()
    criterion = nn.CrossEntropyLoss()
    optimiser = AdamQLR(model.parameters()).watch(model, criterion)
    for number in range(2):
        optimiser.zero_grad()
        criterion(model(objective.inputs), objective.targets).backward()
        if number == 0:
            optimiser.step()
            optimiser.eval()
    with pytest.raises(RuntimeError, match=r"call optimizer.train\(\) before"):
        optimiser.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_checkpoint_of_either_mode_holds_both(mode, dtype):
    model, objective = problem(dtype)
    optimiser = AdamQLR(model.parameters())
    for _ in range(6):
        optimiser.step(objective)
    getattr(optimiser, mode)()
    file = io.BytesIO()
    torch.save([model.state_dict(), optimiser.state_dict()], file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    other = copy.deepcopy(model)
    other.load_state_dict(weights)
    again = AdamQLR(other.parameters())
    again.load_state_dict(state)
    there = TorchObjective(other, Categorical(), objective.inputs, objective.targets)
    for _ in range(3):
        optimiser.step(objective)
        again.step(there)
    assert same(contents(model), contents(other))
    optimiser.eval()
    again.eval()
    assert same(contents(model), contents(other))


def test_a_rule_without_average_keeps_none():
    model, objective = problem()
    optimiser = AdamQLR(model.parameters(), rule=TorchRule(average=None))
    optimiser.step(objective)
    before = contents(model)
    optimiser.eval()
    assert same(contents(model), before)
    assert all("average" not in state for state in optimiser.state.values())


def normalised(steps=6):
    """A network with batch norm and dropout after some steps, and its batches."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 3)
    )
    x = torch.randn(32, 4)
    objective = TorchObjective(model, Categorical(), x, x[:, :3].argmax(1))
    optimiser = AdamQLR(model.parameters())
    for _ in range(steps):
        optimiser.step(objective)
    return model, optimiser, objective


def everything(model):
    return [tensor.clone() for tensor in model.state_dict().values()]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_statistics_are_measured_for_the_average_and_then_the_former_again(mode):
    model, optimiser, objective = normalised()
    getattr(model, mode)()
    before, random = everything(model), torch.get_rng_state()
    modes = [module.training for module in model.modules()]
    loader = [(part, None) for part in objective.inputs.split(16)]
    with optimiser.averaged(loader):
        seen = torch.stack([model[0](part) for part, _ in loader])
        torch.testing.assert_close(model[1].running_mean, seen.mean((0, 1)))
        torch.testing.assert_close(model[1].running_var, seen.var(1).mean(0))
        assert [module.training for module in model.modules()] == modes
        assert not same(everything(model), before)
    assert same(everything(model), before) and model[1].momentum == 0.1
    assert torch.get_rng_state().equal(random)


def test_an_error_while_statistics_are_measured_leaves_what_was_trained():
    model, optimiser, objective = normalised()
    before = everything(model)
    for batches, error in [
        ([objective.inputs, objective.inputs[:1]], "more than 1 value per channel"),
        (iter(()), "batches has none"),
    ]:
        with pytest.raises(ValueError, match=error), optimiser.averaged(batches):
            pass
        assert same(everything(model), before) and model[1].momentum == 0.1
        assert all(module.training for module in model.modules())


def test_a_norm_that_is_frozen_keeps_its_statistics():
    model, optimiser, objective = normalised()
    before = model[1].eval().running_mean.clone()
    with optimiser.averaged([{"input": objective.inputs}]):
        assert model[1].running_mean.equal(before)


def test_statistics_of_no_known_model_are_refused_with_the_cure():
    model, optimiser, objective = normalised(steps=0)
    batches = [{"input": objective.inputs}]
    with pytest.raises(RuntimeError, match=r"call optimizer.watch\(model, loss\)"):
        with optimiser.averaged(batches):
            pass
    optimiser.watch(model, nn.CrossEntropyLoss())
    with optimiser.averaged(batches):
        assert model[1].num_batches_tracked == 1
