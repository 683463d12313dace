"""What torch users rely on: groups, checkpoints, schedulers, modes, wrappers."""

import io
import shutil
import types
import warnings

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    SGDQLR,
    Accumulated,
    AdamQLR,
    Categorical,
    Fisher,
    Gaussian,
    GaussNewton,
    Limit,
    Objective,
    Probe,
)
from torch_cases import MLP, ConvNet, torch_objective

each_curvature = pytest.mark.parametrize("curvature", [Probe(), Fisher()], ids=repr)


def batch(classes=3, features=4, examples=16):
    torch.manual_seed(0)
    return torch.randn(examples, features), torch.arange(examples) % classes


def small_net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(model, optimiser, x, y, steps=5, likelihood=None):
    losses = [
        optimiser.step(Objective(model, likelihood or Categorical(), x, y)).item()
        for _ in range(steps)
    ]
    assert losses[-1] < losses[0]
    return losses


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
    losses = [trained(net, o, x, y) for net, o in zip(nets, optimisers, strict=True)]
    assert nets[0][0].weight.equal(small_net()[0].weight)
    # A first probe's distance is by the size of all parameters.
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


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


def test_the_rule_s_settings_are_one_for_all_groups():
    model = small_net()
    groups = [{"params": model[0].parameters(), "damping": 0.5},
              {"params": model[2].parameters()}]  # fmt: skip
    with pytest.raises(ValueError, match="damping is one for all groups, 0.001, got"):
        AdamQLR(groups)


def test_a_group_added_later_joins_the_step():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model[2].parameters())
    trained(model, optimiser, x, y)
    optimiser.add_param_group({"params": model[0].parameters()})
    first, second = optimiser.param_groups
    assert second["damping"] == first["damping"] and second["steps"] == 5
    trained(model, optimiser, x, y)
    assert optimiser.state[model[0].weight]["step"] == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_checkpoint_goes_on_where_it_stopped(dtype):
    x, y = batch()
    x = x.to(dtype)
    model = small_net().to(dtype)
    optimiser = AdamQLR(model.parameters(), kl_budget=1e-3)
    trained(model, optimiser, x, y)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "rule": optimiser.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file)  # weights_only: plain numbers and tensors alone
    other = small_net().to(dtype)
    other.load_state_dict(saved["model"])
    again = AdamQLR(other.parameters())
    again.load_state_dict(saved["rule"])
    for name in ("damping", "reach", "steps", "kl_budget"):
        assert again.param_groups[0][name] == optimiser.param_groups[0][name]
    assert trained(model, optimiser, x, y) == trained(other, again, x, y)


def test_damping_survives_a_checkpoint_in_another_type():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters(), damping=0.1234567)
    trained(model, optimiser, x, y)
    other = small_net().bfloat16()
    again = AdamQLR(other.parameters())
    again.load_state_dict(optimiser.state_dict())
    assert again.param_groups[0]["damping"] == optimiser.param_groups[0]["damping"]
    trained(other, again, x.bfloat16(), y)


def test_a_scheduler_multiplies_the_step_size_also_of_a_limited_step():
    sizes, (x, y) = [], batch()
    for factor in (1.0, 0.25):
        model = small_net()
        optimiser = AdamQLR(model.parameters(), kl_budget=1e-5)
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
    assert optimiser.param_groups[0]["damping"] == 1e-3
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


@each_curvature
def test_batch_norm_keeps_the_statistics_of_the_gradient_s_pass(curvature):
    objective = torch_objective("conv net with batch norm")
    reference = ConvNet()
    reference(objective.inputs)
    optimiser = AdamQLR(objective.model.parameters(), curvature=curvature)
    optimiser.step(objective)
    norm = objective.model.norm
    assert norm.num_batches_tracked == 1
    assert norm.running_mean.equal(reference.norm.running_mean)
    assert norm.running_var.equal(reference.norm.running_var)


@each_curvature
def test_one_step_sees_one_dropout_mask_and_the_next_another(curvature):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
    seen = []
    model[1].register_forward_pre_hook(lambda _, args: seen.append(args[0] != 0))
    x, y = batch()
    optimiser = AdamQLR(model.parameters(), curvature=curvature)
    optimiser.step(Objective(model, Categorical(), x, y))
    first, state = list(seen), torch.get_rng_state()
    assert len(first) == (2 if curvature == Probe() else 3)
    assert all(mask.equal(first[0]) for mask in first)
    seen.clear()
    optimiser.step(Objective(model, Categorical(), x, y))
    assert not seen[0].equal(first[0])
    assert not state.equal(torch.get_rng_state())


@each_curvature
def test_bf16_autocast(curvature):
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters(), curvature=curvature, kl_budget=1e-3)
    with torch.autocast("cpu", torch.bfloat16):  # one context around several steps
        losses = trained(model, optimiser, x, y, steps=20)
        assert Objective(model, Categorical(), x, y)().item() < losses[0]
    exact = small_net()
    rule = AdamQLR(exact.parameters(), curvature=curvature, kl_budget=1e-3)
    # Eight bits of mantissa: like the exact run to a few per cent.
    assert losses == pytest.approx(trained(exact, rule, x, y, steps=20), rel=0.1)


@each_curvature
def test_a_compiled_model(curvature):
    plain, model, (x, y) = small_net(), small_net(), batch()
    compiled = torch.compile(model, backend="eager")
    losses = [
        trained(net, AdamQLR(net.parameters(), curvature=curvature), x, y)
        for net in (plain, compiled)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of inductor's own imports
def test_a_model_compiled_to_machine_code(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (x, y), options = batch(), {"compile_threads": 1}  # else a pool outlives the test
    for curvature in (Probe(), Fisher()):
        plain, compiled = small_net(), torch.compile(small_net(), options=options)
        losses = [
            trained(net, AdamQLR(net.parameters(), curvature=curvature), x, y)
            for net in (plain, compiled)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert list(tmp_path.rglob("*.so"))


@each_curvature
def test_attention_with_dropout(curvature):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(layer, nn.Linear(8, 3))
    x, y = torch.randn(6, 5, 8), torch.arange(30).reshape(6, 5) % 3
    trained(
        model, AdamQLR(model.parameters(), curvature=curvature, kl_budget=1e-3), x, y,
        steps=20,
    )  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


def test_an_lstm_falls_back_to_two_backward_passes_and_says_so_once():
    torch.manual_seed(0)
    model, x = Recurrent(), torch.randn(6, 5, 3)
    y = torch.arange(30).reshape(6, 5) % 3
    optimiser = AdamQLR(model.parameters(), curvature=Fisher())
    objective = Objective(model, Categorical(), x, y)
    with pytest.warns(UserWarning, match="Recurrent has no forward-mode derivative"):
        optimiser.step(objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimiser.step(objective)
    torch.manual_seed(0)
    probed = AdamQLR((other := Recurrent()).parameters())
    probed.param_groups[0]["reach"] = 0.01  # not bound by a first probe's short sight
    probed.step(Objective(other, Categorical(), x, y))
    probed.step(Objective(other, Categorical(), x, y))
    assert probed.info.loss == pytest.approx(optimiser.info.loss, rel=1e-3)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.embed(tokens)))


def test_tied_weights_move_together_and_count_once():
    torch.manual_seed(0)
    model, tokens = Tied(), torch.arange(10) % 5
    objective = Objective(model, Categorical(), tokens, (tokens + 1) % 5)
    optimisers = [AdamQLR(model.parameters(), curvature=c) for c in (Fisher(), Probe())]
    assert len(optimisers[0].param_groups[0]["params"]) == 1
    found = []
    for optimiser in optimisers:
        before = model.embed.weight.detach().clone()
        optimiser.step(objective)
        found.append(optimiser.info.curvature)
        with torch.no_grad():
            model.embed.weight.copy_(before)
    assert found[1] == pytest.approx(found[0], rel=1e-2)


def test_clipping_shapes_the_direction_and_leaves_the_slope_raw():
    x, y = batch()
    clip = lambda params: nn.utils.clip_grad_norm_(params, 1e-3)
    infos = []
    for hook in (None, clip):
        model = small_net()
        optimiser = SGDQLR(model.parameters(), curvature=Fisher(), clip=hook)
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
        optimiser = AdamQLR(model.parameters(), curvature=curvature, kl_budget=1e-4)
        for group in optimiser.param_groups:
            group["reach"] = 0.01
        for _ in range(4):
            optimiser.step(Accumulated(parts))
        infos.append(optimiser.info)
    assert infos[0] == pytest.approx(infos[1], rel=1e-6)


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


class Wrapped(nn.Module):
    """As Hugging Face's models: named inputs, an output object."""

    def __init__(self):
        super().__init__()
        self.net = small_net()

    def forward(self, input_ids, scale):
        return types.SimpleNamespace(logits=self.net(input_ids * scale), hidden=None)


@pytest.mark.parametrize("named", [True, False])
@each_curvature
def test_an_output_object_and_several_inputs(named, curvature):
    model, (x, y) = Wrapped(), batch()
    inputs = {"input_ids": x, "scale": torch.ones(16, 1)}
    inputs = inputs if named else tuple(inputs.values())
    trained(model, AdamQLR(model.parameters(), curvature=curvature), inputs, y)


def test_an_output_of_another_kind_is_refused():
    model = nn.LSTM(3, 4)
    objective = Objective(model, Gaussian(), torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(TypeError, match="a tensor or an object with logits, got tuple"):
        objective()


def test_a_loss_of_torch_trains():
    x, _ = batch()
    model = MLP(inputs=4).float()
    trained(model, AdamQLR(model.parameters()), x, x[:, :3], likelihood=nn.MSELoss())
