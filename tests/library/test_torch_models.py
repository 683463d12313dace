"""Models as torch users have them: modes, compilers, kernels, outputs of all kinds."""

import random
import shutil
import types
import warnings

import numpy
import pytest
import torch
from torch import nn

from adamqlr.torch import (
    PAPER,
    AdamQLR,
    Categorical,
    Fisher,
    Gaussian,
    KLBudget,
    Objective,
    Probe,
    Rule,
)
from torch_cases import (
    MLP,
    ConvNet,
    batch,
    set_reach,
    small_net,
    torch_objective,
    trained,
)

each_curvature = pytest.mark.parametrize("curvature", [Probe(), Fisher()], ids=repr)
SMALL = Rule(budget=KLBudget(1e-3))


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
    optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=PAPER)
    optimiser.step(Objective(model, Categorical(), x, y))
    first, state = list(seen), torch.get_rng_state()
    # One of them is to see whether the model answers the same at all.
    assert len(first) == (3 if curvature == Probe() else 4)
    assert all(mask.equal(first[0]) for mask in first)
    seen.clear()
    optimiser.step(Objective(model, Categorical(), x, y))
    assert not seen[0].equal(first[0])
    assert not state.equal(torch.get_rng_state())


class DroppedLayers(nn.Module):
    def __init__(self, draw):
        super().__init__()
        torch.manual_seed(1)
        self.layers, self.last = nn.ModuleList(), nn.Linear(4, 3)
        self.layers.extend(nn.Linear(4, 4) for _ in range(8))
        self.draw, self.kept = draw, []

    def forward(self, x):
        kept = [self.draw() < 0.5 for _ in self.layers]
        self.kept.append(kept)
        for keep, layer in zip(kept, self.layers, strict=True):
            x = x + layer(x).tanh() if keep else x
        return self.last(x)


@pytest.mark.parametrize("draw", [random.random, numpy.random.rand])
def test_layers_dropped_by_python_or_numpy_are_the_same_in_one_step(draw):
    model, (x, y) = DroppedLayers(draw), batch()
    optimiser = AdamQLR(model.parameters())
    optimiser.step(Objective(model, Categorical(), x, y))
    first, *others = model.kept
    assert others == [first] * len(others) != []
    model.kept.clear()
    optimiser.step(Objective(model, Categorical(), x, y))
    assert model.kept[0] != first


@each_curvature
def test_bf16_autocast(curvature):
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=SMALL)
    with torch.autocast("cpu", torch.bfloat16):  # one context around several steps
        losses = trained(model, optimiser, x, y, steps=20)
        assert Objective(model, Categorical(), x, y)().item() < losses[0]
    exact = small_net()
    rule = AdamQLR(exact.parameters(), curvature=curvature, rule=SMALL)
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
        model, AdamQLR(model.parameters(), curvature=curvature, rule=SMALL), x, y,
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
    short = Rule(budget=KLBudget(1e-3))  # over which both see the same bend
    optimiser = AdamQLR(model.parameters(), curvature=Fisher(), rule=short)
    objective = Objective(model, Categorical(), x, y)
    with pytest.warns(UserWarning, match="Recurrent has no forward-mode derivative"):
        optimiser.step(objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimiser.step(objective)
    torch.manual_seed(0)
    probed = AdamQLR((other := Recurrent()).parameters(), rule=short)
    set_reach(probed, 0.01)  # not bound by a first probe's short sight
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
    with pytest.raises(TypeError, match="one tensor, got a tuple: pass outputs="):
        objective()


def test_a_loss_of_torch_trains():
    x, _ = batch()
    model = MLP(inputs=4).float()
    trained(model, AdamQLR(model.parameters()), x, x[:, :3], likelihood=nn.MSELoss())
