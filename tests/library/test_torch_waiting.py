"""On a GPU a step goes on while the host does not know what became of the last one.

No GPU is needed here. On a CPU the same steps are made by the host that does not wait,
on tensors, and by one that asks, on plain numbers. On torch's meta device, whose
tensors have no numbers, all that reads one raises.
"""

import contextlib
import copy
import math

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import adamqlr.torch.qlr
import adamqlr.torch.scalars
from adamqlr.torch import (
    ANY_LOSS,
    PAPER,
    QLR,
    SGDQLR,
    Accumulated,
    AdamQLR,
    Average,
    Categorical,
    Fisher,
    Gaussian,
    LossProbe,
    Objective,
    Rule,
    Subsampled,
)
from adamqlr.torch.directions import adam, nesterov_adam, sgd
from processes import in_two_processes
from torch_cases import accumulated_and_clipped, set_reach

BAD = (0, 5, 6, 17, 29)  # batches that are not finite, the first and the last too


def let_go_on(setattr=setattr):
    """The host lets the CPU go on, as it does a GPU, and reads no number of it."""
    setattr(adamqlr.torch.qlr, "is_read_later", lambda device: True)
    setattr(adamqlr.torch.scalars, "is_at_hand", lambda device: False)


@pytest.fixture
def goes_on(monkeypatch):
    let_go_on(monkeypatch.setattr)


def network(device="cpu"):
    """With batch norm, a tensor that is cut and some that are joined."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Linear(4, 1100, device=device),
        nn.BatchNorm1d(1100, device=device),
        nn.Tanh(),
        nn.Linear(1100, 3, device=device),
    )
    return net.double()


def batches(count, bad=()):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 16, 4, generator=generator, dtype=torch.float64)
    y = x[..., :3].argmax(-1)
    for number in bad:
        x[number, 3, 1] = torch.nan
    return list(zip(x, y, strict=True))


def by_objective(model, optimiser):
    def step(x, y):
        optimiser.step(Objective(model, Categorical(), x, y))

    return step


def by_closure(model, optimiser):
    loss = lambda x, y: nn.functional.cross_entropy(model(x), y)
    return lambda x, y: optimiser.step(lambda: loss(x, y))


def groups(model):
    return [
        {"params": [*model[0].parameters()], "weight_decay": 0.1},
        {"params": [*model[1:].parameters()], "lr": 0.5, "l2": 0.01},
    ]


AVERAGED = Rule(average=Average())
CASES = {
    "objective": (lambda params: AdamQLR(params, rule=AVERAGED), by_objective),
    "loop": (lambda params: AdamQLR(params, rule=AVERAGED), accumulated_and_clipped),
    "paper": (
        lambda params: AdamQLR(params, curvature=Fisher(), rule=PAPER),
        accumulated_and_clipped,
    ),
    "adam": (
        lambda params: QLR(params, adam, betas=(0.9, 0.99), eps=1e-8),
        by_objective,
    ),
    "momentum": (lambda params: SGDQLR(params, momentum=0.9), by_objective),
    "no momentum": (
        lambda params: SGDQLR(params, momentum=None),
        accumulated_and_clipped,
    ),
    "closure": (
        lambda params: AdamQLR(params, curvature=LossProbe(), rule=ANY_LOSS),
        by_closure,
    ),
    "clip": (
        lambda params: AdamQLR(
            params, clip=lambda ps: nn.utils.clip_grad_norm_(ps, 0.1)
        ),
        by_objective,
    ),
}


def went(case, look_each=7):
    """The model, the optimiser and some steps' info, after all batches."""
    make, by = CASES[case]
    model = network()
    optimiser = make(groups(model))
    set_reach(optimiser, 0.01)
    step, infos = by(model, optimiser), []
    for number, (x, y) in enumerate(batches(30, BAD)):
        step(x, y)
        if number % look_each == look_each - 1:
            infos.append(tuple(optimiser.info))
    return model, optimiser, [*infos, tuple(optimiser.info)]


def recalled(optimiser):
    """What the method remembers, by its names in parameter groups."""
    group = optimiser.param_groups[0]
    return {name: value for name, value in group.items() if name.startswith("memory_")}


def leaves(tree):
    """All that is in a structure, by where it is."""
    return dict(torch.utils._pytree.tree_flatten_with_path(tree)[0])


def assert_close(a, b):
    """Numbers in two structures are the same up to rounding in float64."""
    a, b = leaves(a), leaves(b)
    assert a.keys() == b.keys()
    for path, found in a.items():
        if found is not None:
            found, expected = torch.as_tensor(found), torch.as_tensor(b[path])
            torch.testing.assert_close(
                found.double(), expected.double(), rtol=1e-7, atol=1e-9, equal_nan=True
            )


@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_a_host_that_asks(case, monkeypatch):
    expected, theirs, known = went(case)
    let_go_on(monkeypatch.setattr)
    model, optimiser, infos = went(case)
    for kind, of in ((torch.Tensor, optimiser), (float, theirs)):
        memory = recalled(of)
        assert all(isinstance(value, kind) for value in memory.values())
    assert_close(model.state_dict(), expected.state_dict())
    assert_close(optimiser.state_dict(), theirs.state_dict())
    assert_close(infos, known)
    assert infos[-1][-1] == len(BAD)
    with optimiser.averaged(), theirs.averaged():
        assert_close(model.state_dict(), expected.state_dict())


# Of bfloat16 the weight of a gradient is rounded, too: 40 times.
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("direction", [adam, nesterov_adam, sgd])
def test_a_tensor_tells_a_direction_whether_to_remember(direction, dtype):
    group = {"betas": (0.9, 0.999), "eps": 1e-8, "momentum": 0.999}
    params, (own, other) = [torch.ones(5, dtype=dtype)], ([{}], [{}])
    for number in range(40):
        grads = [torch.linspace(-1, 2, 5).to(dtype) / (number + 1)]
        expected = direction(grads, params, own, group)
        found = direction(grads, params, other, group, torch.tensor(True))
        rounding = ROUNDING[dtype]
        torch.testing.assert_close(
            (found, other), (expected, own), rtol=rounding, atol=rounding
        )
    before = copy.deepcopy(other)
    bad = [torch.tensor([1, torch.nan, torch.inf, -torch.inf, 0], dtype=dtype)]
    (turned,) = direction(bad, params, other, group, torch.tensor(False))
    assert turned.isfinite().all()
    for name, value in before[0].items():
        if isinstance(value, torch.Tensor):
            assert value.equal(other[0][name]), name


class Unread:
    """In place of `Later`: a host that is told that all went well, and when to look."""

    looks = True

    def __init__(self, numbers):
        self.count = len(numbers)

    def read(self):
        return [1.0, float(self.looks), 1.0, 1.0, 0.0][: self.count]


class Transfers(torch.utils._python_dispatch.TorchDispatchMode):
    """Lists what takes tensors of two devices, or waits to know a shape."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        returned = function(*args, **kwargs or {})
        leaves = torch.utils._pytree.tree_leaves((args, kwargs, returned))
        kinds = {x.device.type for x in leaves if isinstance(x, torch.Tensor)}
        shapes = ("nonzero", "masked_select", "unique", "local_scalar_dense")
        if len(kinds) > 1 or any(name in str(function) for name in shapes):
            self.found.append(str(function))
        return returned


@pytest.mark.parametrize("case", CASES)
def test_no_step_but_the_first_reads_from_the_device_or_copies_to_it(
    case, goes_on, monkeypatch
):
    monkeypatch.setattr("adamqlr.torch.pending.Later", Unread)
    nowhere = lambda *_, **__: contextlib.nullcontext()
    monkeypatch.setattr(torch, "autocast", nowhere)  # The meta device has none.
    # It has no outputs either, of which the first step reads whether they are alike.
    monkeypatch.setattr("adamqlr.torch.point.Point._outputs_again", lambda point: True)
    make, by = CASES[case]
    model = network("meta")
    step = by(model, make(groups(model)))
    for number, (x, y) in enumerate(batches(4)):
        Unread.looks = number % 2 == 0
        x, y = x.to("meta"), y.to("meta")
        with Transfers() as transfers:
            step(x, y)
        assert number == 0 or not transfers.found


def wrong_step(model, optimiser):
    """Of a loop whose loss is not the one that it says."""
    optimiser.watch(model, nn.CrossEntropyLoss(label_smoothing=0.3))
    x, y = batches(1)[0]
    nn.functional.cross_entropy(model(x), y).backward()
    optimiser.step()
    optimiser.zero_grad()


ASKING = {
    "the next step": by_objective,
    "info": lambda model, optimiser: lambda x, y: optimiser.info,
    "a checkpoint": lambda model, optimiser: lambda x, y: optimiser.state_dict(),
    "a copy": lambda model, optimiser: lambda x, y: copy.deepcopy(optimiser),
    "the average": lambda model, optimiser: lambda x, y: optimiser.eval(),
}


@pytest.mark.parametrize("asking", ASKING)
def test_a_wrong_loss_moves_nothing_and_is_refused_when_somebody_asks(asking, goes_on):
    model = network()
    optimiser = AdamQLR(model.parameters(), rule=AVERAGED)
    before = copy.deepcopy(model.state_dict())
    wrong_step(model, optimiser)
    assert all(v.equal(before[name]) for name, v in model.state_dict().items())
    with pytest.raises(ValueError, match="cosine"):
        ASKING[asking](model, optimiser)(*batches(1)[0])
    moments = [state for state in optimiser.state_dict()["state"].values()]
    assert all(s["step"] == 0 and not s["exp_avg"].any() for s in moments)
    by_objective(model, optimiser)(*batches(1)[0])
    assert not optimiser.info.rejected


def test_own_directions_are_waited_for(goes_on):
    model = network()
    own = lambda grads, params, states, group: [grad.clone() for grad in grads]
    with pytest.raises(ValueError, match="cosine"):
        wrong_step(model, QLR(model.parameters(), own))


def test_a_checkpoint_after_a_refused_step_goes_on_bit_for_bit(goes_on):
    model = network()
    optimiser = AdamQLR(groups(model), rule=AVERAGED)
    step = by_objective(model, optimiser)
    for x, y in batches(7, bad=(0, 5, 6)):
        step(x, y)
    saved = copy.deepcopy((model.state_dict(), optimiser.state_dict()))
    assert {state["step"] for state in saved[1]["state"].values()} == {4}
    other = network()
    resumed = AdamQLR(groups(other), rule=AVERAGED)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    step_other = by_objective(other, resumed)
    for x, y in batches(12, bad=(3,)):
        step(x, y)
        step_other(x, y)
    after = leaves((model.state_dict(), optimiser.state_dict()))
    for path, found in leaves((other.state_dict(), resumed.state_dict())).items():
        same = found.equal if isinstance(found, torch.Tensor) else found.__eq__
        assert same(after[path]), path


class Listing(nn.Linear):
    """Puts another tensor in the place of its buffer."""

    def __init__(self):
        super().__init__(4, 3, dtype=torch.float64)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        self.seen = torch.cat([self.seen, torch.ones(1)])
        return super().forward(x)


class Sparse(nn.Linear):
    """Counts in a sparse buffer."""

    def __init__(self):
        super().__init__(4, 3, dtype=torch.float64)
        self.register_buffer("seen", torch.zeros(3).to_sparse())

    def forward(self, x):
        self.seen.add_(torch.tensor([1.0, 0, 0]).to_sparse())
        return super().forward(x)


@pytest.mark.parametrize("make", [Listing, Sparse])
def test_buffers_among_which_the_device_cannot_choose_are_waited_for(make, goes_on):
    model = make()
    step = by_objective(model, AdamQLR(model.parameters(), curvature=Fisher()))
    for x, y in batches(4, bad=(0, 2)):
        step(x, y)
    assert model.seen.to_dense().sum() == 2


def test_looks_are_those_that_are_due(goes_on):
    model = network()
    optimiser = AdamQLR(
        model.parameters(),
        curvature=Subsampled(Fisher(), 2, least=1),
        rule=Rule(look_every=4),
    )
    step, looks = by_objective(model, optimiser), []
    for x, y in batches(20, bad=(3,)):
        step(x, y)
        looks.append(not math.isnan(optimiser.info.curvature))
    expected = [number < 8 or number % 4 == 0 for number in range(19)]
    assert looks == [*expected[:3], False, *expected[3:]]


def test_what_is_loaded_says_whether_to_look(goes_on):
    model = network()
    optimiser = AdamQLR(model.parameters())
    step, fresh = by_objective(model, optimiser), optimiser.state_dict()
    for x, y in batches(11):
        step(x, y)
    assert math.isnan(optimiser.info.curvature)
    optimiser.load_state_dict(fresh)
    step(*batches(1)[0])
    assert not math.isnan(optimiser.info.curvature)


def in_one_of_two(rank):
    """Its half of each batch, some of which are bad in one process only."""
    let_go_on()
    distributed.init_process_group("gloo")
    return halves(DistributedDataParallel(unnormed()), rank)


def unnormed():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return net.double()


def halves(model, rank):
    """Parameters and the last info; of both halves of the batches if rank is None."""
    optimiser = AdamQLR(model.parameters())
    set_reach(optimiser, 0.01)
    for x, _ in batches(20, bad=(4, 11)):
        if rank is None:
            parts = [slice(0, 8), slice(8, 16)]
        else:
            parts = [slice(8 * rank, 8 * rank + 8)]
        gaussian = [Objective(model, Gaussian(), x[s], x[s, :3].sin()) for s in parts]
        optimiser.step(Accumulated(gaussian))
    params = [param.detach().clone() for param in model.parameters()]
    return params, tuple(optimiser.info)


@pytest.mark.slow
def test_processes_go_on_together(tmp_path):
    first, second = in_two_processes(in_one_of_two, tmp_path)
    assert_close(first, halves(unnormed(), None))
    assert all(a.equal(b) for a, b in zip(first[0], second[0], strict=True))
    assert first[1][-1] == 2
