"""What people carry over from Adam works, or is refused in one clear sentence."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from adamqlr.jax import adam_qlr
from adamqlr.torch import SGDQLR, AdamQLR, Categorical, Objective
from torch_cases import batch, small_net

LEARNING_RATES = [
    lambda params: AdamQLR(params, 1e-3),
    lambda params: AdamQLR(params, lr=3e-4),
    lambda params: SGDQLR(params, lr=0.01),
    lambda params: SGDQLR(params, lr=0.1, momentum=0.9),
    lambda params: AdamQLR([{"params": params, "lr": 1e-3}]),
]


@pytest.mark.parametrize("make", LEARNING_RATES)
def test_a_learning_rate_is_refused_with_the_way_to_insist(make):
    model = small_net()
    with pytest.raises(ValueError, match=r"is not a learning rate here.*to insist"):
        make(list(model.parameters()))
    optimiser = AdamQLR(model.parameters())
    optimiser.param_groups[0]["lr"] = 1e-3  # as the message says
    optimiser.step(Objective(model, Categorical(), *batch()))


SETTINGS = {
    "learning_rate": "has no learning rate",
    "amsgrad": "has no setting amsgrad, leave it out",
    "fused": "has no setting fused, leave it out",
    "weight_decy": "it has lr, curvature, rule, weight_decay",
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", [AdamQLR, SGDQLR])
def test_a_setting_that_would_change_nothing_is_refused(kind, name):
    with pytest.raises(TypeError, match=SETTINGS[name]):
        kind(small_net().parameters(), **{name: 1e-3})


def test_the_peak_of_one_cycle_is_no_learning_rate():
    model = small_net()
    objective = Objective(model, Categorical(), *batch())
    one_cycle = torch.optim.lr_scheduler.OneCycleLR
    optimiser = AdamQLR(model.parameters())
    one_cycle(optimiser, max_lr=1e-3, total_steps=10)
    with pytest.raises(ValueError, match=r"max_lr=0.001 .* Use max_lr=1.0"):
        optimiser.step(objective)
    optimiser = AdamQLR(model.parameters())
    scheduler = one_cycle(optimiser, max_lr=1.0, total_steps=10)
    for _ in range(3):
        optimiser.step(objective)
        scheduler.step()


def test_the_rate_of_stochastic_weight_averaging_is_no_learning_rate():
    model = small_net()
    optimiser = AdamQLR(model.parameters())
    torch.optim.swa_utils.SWALR(optimiser, swa_lr=0.05)
    with pytest.raises(ValueError, match=r"swa_lr=0.05 .* Use swa_lr=1.0"):
        optimiser.step(Objective(model, Categorical(), *batch()))


def test_a_model_in_place_of_its_parameters_has_torch_s_own_error():
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        AdamQLR(small_net())


def test_groups_may_differ_in_a_small_factor():
    model = small_net()
    AdamQLR([{"params": model[0].parameters(), "lr": 0.01},
             {"params": model[2].parameters()}])  # fmt: skip


@pytest.mark.parametrize("call", [(1e-3,), {"learning_rate": 1e-3}])
def test_a_learning_rate_is_refused_in_jax(call):
    with pytest.raises(TypeError, match="adam_qlr has no learning rate, got 0.001"):
        adam_qlr(**call) if isinstance(call, dict) else adam_qlr(*call)


def by_objective(model, optimiser, x, y):
    return lambda: optimiser.step(Objective(model, Categorical(), x, y))


def by_loop(model, optimiser, x, y):
    criterion = nn.CrossEntropyLoss()
    optimiser.watch(model, criterion)

    def step():
        optimiser.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loop", [by_objective, by_loop])
def test_a_compiled_loop_makes_the_steps_of_a_plain_one(loop):
    losses = []
    for wrap in (lambda step: step, lambda step: torch.compile(step, backend="eager")):
        torch._dynamo.reset()
        model = small_net()
        step = wrap(loop(model, AdamQLR(model.parameters()), *batch()))
        losses.append([step().item() for _ in range(6)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize("missing", ["rich", "cyclopts", "jax", "msgspec"])
def test_the_study_without_its_extra_names_it(missing):
    code = f"import sys; sys.modules['{missing}'] = None; "
    code += "from qlrstudy.cli.main import main; main(['run', 'digits', 'adam'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'adamqlr[study]'" in run.stderr
    assert run.returncode != 0
