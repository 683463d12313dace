"""What torch users rely on: groups, checkpoints, schedulers, micro-batches."""

import copy
import dataclasses
import io

import pytest
import torch
from torch import nn

from adamqlr.measurements import Look, Trial
from adamqlr.memory import Memory
from adamqlr.torch import (
    PAPER,
    SGDQLR,
    Accumulated,
    AdamQLR,
    Categorical,
    Damping,
    Fisher,
    GaussNewton,
    KLBudget,
    Limit,
    Objective,
    Probe,
    Rule,
)
from torch_cases import batch, set_reach, small_net, trained

each_curvature = pytest.mark.parametrize("curvature", [Probe(), Fisher()], ids=repr)
SMALL = Rule(budget=KLBudget(1e-3))


def test_a_frozen_part_stays():
    model, (x, y) = small_net(), batch()
    model[0].requires_grad_(False)
    frozen = model[0].weight.clone()
    trained(model, AdamQLR(model.parameters()), x, y)
    assert model[0].weight.equal(frozen) and model[0].weight.grad is None


@each_curvature
def test_a_group_with_a_rate_of_zero_stays_and_the_others_do_not_notice(curvature):
    x, y = batch()
    nets = small_net(), small_net()
    groups = [
        {"params": nets[0][0].parameters(), "lr": 0.0},
        {"params": nets[0][2].parameters()},
    ]
    optimisers = AdamQLR(groups, curvature=curvature), AdamQLR(
        nets[1][2].parameters(), curvature=curvature
    )  # fmt: skip
    for optimiser in optimisers:  # A first probe's is by the size of all parameters.
        set_reach(optimiser, 1e-3)
    losses = [trained(net, o, x, y) for net, o in zip(nets, optimisers, strict=True)]
    assert nets[0][0].weight.equal(small_net()[0].weight)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_weight_decay_by_group_enters_the_direction_and_not_the_slope():
    model, (x, y) = small_net(), batch()
    groups = [
        {"params": [model[0].weight, model[2].weight], "weight_decay": 0.1},
        {"params": [model[0].bias, model[2].bias]},
    ]
    optimiser = SGDQLR(groups)
    loss = Objective(model, Categorical(), x, y)()
    grads = torch.autograd.grad(loss, list(model.parameters()))
    slope = sum(g.square().sum() for g in grads)
    slope += 0.1 * sum((grads[i] * model[i].weight).sum() for i in (0, 2))
    optimiser.step(Objective(model, Categorical(), x, y))
    assert optimiser.info.slope == pytest.approx(slope.item(), rel=1e-5)


def test_a_group_added_later_joins_the_step():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model[2].parameters())
    trained(model, optimiser, x, y)
    optimiser.add_param_group({"params": model[0].parameters()})
    first, second = optimiser.param_groups
    assert second["memory_damping"] == first["memory_damping"]
    assert second["memory_steps"] == 5
    trained(model, optimiser, x, y)
    assert optimiser.state[model[0].weight]["step"] == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_checkpoint_goes_on_where_it_stopped(dtype):
    x, y = batch()
    x = x.to(dtype)
    model = small_net().to(dtype)
    optimiser = AdamQLR(model.parameters(), rule=SMALL)
    trained(model, optimiser, x, y)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "rule": optimiser.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)  # plain numbers and tensors alone
    other = small_net().to(dtype)
    other.load_state_dict(saved["model"])
    again = AdamQLR(other.parameters(), rule=SMALL)
    again.load_state_dict(saved["rule"])
    names = [name for name in again.param_groups[0] if name.startswith("memory_")]
    assert len(names) == len(Memory._fields)
    for name in names:
        assert again.param_groups[0][name] == optimiser.param_groups[0][name]
    assert trained(model, optimiser, x, y) == trained(other, again, x, y)


@pytest.mark.parametrize("lacking", Memory._fields)
def test_what_an_earlier_checkpoint_lacks_begins_anew(lacking):
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters())
    trained(model, optimiser, x, y)
    saved = optimiser.state_dict()
    for group in saved["param_groups"]:
        del group[f"memory_{lacking}"]
    again = AdamQLR(model.parameters())
    fresh = again.param_groups[0][f"memory_{lacking}"]
    again.load_state_dict(saved)
    assert again.param_groups[0][f"memory_{lacking}"] == fresh
    assert all(loss == loss for loss in trained(model, again, x, y))


def memory(optimiser):
    group = optimiser.param_groups[0]
    return {name: value for name, value in group.items() if name.startswith("memory_")}


@pytest.mark.parametrize("at_hand", [True, False])
def test_memory_goes_from_devices_to_a_cpu_and_back(at_hand, monkeypatch):
    """On a CPU it is plain numbers, elsewhere tensors, as in earlier checkpoints."""
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters())
    trained(model, optimiser, x, y)
    assert {type(value) for value in memory(optimiser).values()} == {float}
    saved = copy.deepcopy(optimiser.state_dict())
    monkeypatch.setattr("adamqlr.torch.scalars.is_at_hand", lambda device: at_hand)
    if at_hand:
        for name, value in memory(optimiser).items():
            number = torch.tensor(value, dtype=torch.float64)
            saved["param_groups"][0][name] = number
    other = copy.deepcopy(model)
    again = AdamQLR(other.parameters())
    again.load_state_dict(saved)
    expected = trained(other, again, x, y)
    kind = float if at_hand else torch.Tensor
    assert {type(value) for value in memory(again).values()} == {kind}
    monkeypatch.undo()
    assert trained(model, optimiser, x, y) == expected
    assert memory(again) == pytest.approx(memory(optimiser), rel=1e-12)


@dataclasses.dataclass(frozen=True)
class Halved:
    """Somebody's curvature, which answers with tensors in 32 bits."""

    def look(self, point, direction, reach):
        found = Probe().look(point, direction, reach)
        assert isinstance(reach, float)
        halved = torch.tensor(found.curvature / 2, dtype=torch.float32)
        return Look(halved, Trial(*map(torch.tensor, found.trial)))


def test_a_curvature_may_answer_with_tensors():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters(), curvature=Halved())
    trained(model, optimiser, x, y)
    assert {type(value) for value in memory(optimiser).values()} == {float}
    kinds = [type(value) for value in optimiser.info]
    assert kinds == [float] * 9 + [Limit, bool, int]


def test_damping_survives_a_checkpoint_in_another_type():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters(), rule=Rule(Damping(0.1234567)))
    trained(model, optimiser, x, y)
    other = small_net().bfloat16()
    again = AdamQLR(other.parameters())
    again.load_state_dict(optimiser.state_dict())
    found, expected = again.param_groups[0], optimiser.param_groups[0]
    assert found["memory_damping"] == expected["memory_damping"]
    assert isinstance(found["memory_damping"], float)
    trained(other, again, x.bfloat16(), y)


def test_a_scheduler_multiplies_the_step_size_also_of_a_limited_step():
    sizes, (x, y) = [], batch()
    for factor in (1.0, 0.25):
        model = small_net()
        rule = Rule(budget=KLBudget(1e-5))
        optimiser = AdamQLR(model.parameters(), rule=rule, curvature=Fisher())
        torch.optim.lr_scheduler.LambdaLR(optimiser, lambda _, f=factor: f)
        optimiser.step(Objective(model, Categorical(), x, y))
        assert optimiser.info.limit == Limit.KL_BUDGET
        sizes.append(optimiser.info.step_size)
    assert sizes[1] == pytest.approx(sizes[0] / 4)


def test_a_warm_up_from_zero_moves_nothing_at_first():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: step / 10)
    optimiser.step(Objective(model, Categorical(), x, y))
    scheduler.step()
    assert model[0].weight.equal(small_net()[0].weight)
    assert optimiser.param_groups[0]["memory_reach"] == 0
    trained(model, optimiser, x, y)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_is_allowed_and_not_needed(set_to_none):
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters())
    plain = small_net()
    expected = trained(plain, AdamQLR(plain.parameters()), x, y, steps=3)
    losses = []
    for _ in range(3):
        optimiser.zero_grad(set_to_none=set_to_none)
        losses.append(optimiser.step(Objective(model, Categorical(), x, y)).item())
    assert losses == expected


def test_clipping_shapes_the_direction_and_leaves_the_slope_raw():
    x, y = batch()
    clip = lambda params: nn.utils.clip_grad_norm_(params, 1e-3)
    infos = []
    for hook in (None, clip):
        model = small_net()
        settings = dict(curvature=Fisher(), rule=PAPER)
        optimiser = SGDQLR(model.parameters(), clip=hook, **settings)
        optimiser.step(Objective(model, Categorical(), x, y))
        infos.append(optimiser.info)
    length = infos[0].slope ** 0.5
    assert infos[1].slope == pytest.approx(1e-3 * length, rel=1e-3)
    # The step itself does not depend on the direction's length.
    assert infos[1].trial_loss == pytest.approx(infos[0].trial_loss, rel=1e-5)


@pytest.mark.parametrize("curvature", [Probe(), Fisher(), GaussNewton()], ids=repr)
def test_micro_batches_of_unequal_size_make_the_step_of_the_whole_batch(curvature):
    infos, (x, y) = [], batch()
    weights = torch.linspace(0, 2, 16)
    for cuts in ([16], [3, 8, 5]):
        model = small_net().double()
        parts = [
            Objective(model, Categorical(), a.double(), b, w)
            for a, b, w in zip(x.split(cuts), y.split(cuts), weights.split(cuts),
                               strict=True)
        ]  # fmt: skip
        optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=SMALL)
        set_reach(optimiser, 0.01)
        for _ in range(4):
            optimiser.step(Accumulated(parts))
        infos.append(optimiser.info)
    assert infos[0] == pytest.approx(infos[1], rel=1e-6, nan_ok=True)


def test_objectives_of_several_models_do_not_accumulate():
    x, y = batch()
    with pytest.raises(ValueError, match="of one model, got several"):
        Accumulated([Objective(small_net(), Categorical(), x, y) for _ in range(2)])


def test_grad_scaler_is_refused_with_the_cure():
    model, (x, y) = small_net(), batch()
    optimiser, scaler = AdamQLR(model.parameters()), torch.amp.GradScaler("cpu")
    objective = Objective(model, Categorical(), x, y)
    scaler.scale(objective()).backward()
    for arguments in ((), (objective,)):
        with pytest.raises(RuntimeError, match="dtype=torch.bfloat16, which needs no"):
            scaler.step(optimiser, *arguments)
    torch.amp.GradScaler("cpu", enabled=False).step(optimiser, objective)
