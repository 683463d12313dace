"""FSDP2: processes with a share of each parameter make the step that one makes."""

import dataclasses
import io

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from adamqlr.torch import (
    QLR,
    SGDQLR,
    Accumulated,
    AdamQLR,
    Categorical,
    Fisher,
    Gaussian,
    Objective,
)
from processes import in_two_processes
from torch_cases import set_reach

fsdp = pytest.importorskip("torch.distributed.fsdp", reason="needs torch.distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(fsdp, "fully_shard"), reason="fully_shard came with torch 2.6"
    ),
]

STEPS = 20
SHARES = [slice(0, 8), slice(8, 24)]  # unequal ones


def data(likelihood):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, 5, generator=generator, dtype=torch.float64)
    classes = isinstance(likelihood, Categorical)
    return x, x[:, :3].argmax(1) if classes else 5 + x[:, :3]


def make_model(rank=None, **policy):
    """Sharded with odd sizes, so that shares differ, unless `rank` is `None`."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 3)
    ).double()
    if rank is not None:
        policy = fsdp.MixedPrecisionPolicy(**policy)
        for layer in (model[0], model[2]):
            fsdp.fully_shard(layer, mp_policy=policy)
        last = dataclasses.replace(policy, output_dtype=torch.float32)
        fsdp.fully_shard(model, mp_policy=last if policy.param_dtype else policy)
    return model


def whole(tensor):
    return getattr(tensor, "full_tensor", lambda: tensor)().detach().clone()


def summary(model, optimiser):
    """The parameters, their average, and the last step's info."""
    params = [whole(param) for param in model.parameters()]
    with optimiser.averaged():
        average = [whole(param) for param in model.parameters()]
        outputs = model(data(Categorical())[0]).detach()
    again = model(data(Categorical())[0]).detach()
    return params + average + [outputs, again], tuple(optimiser.info)


def by_objective(model, share, kind, likelihood, **options):
    x, y = [tensor[share] for tensor in data(likelihood)]
    optimiser = kind(model.parameters(), **options)
    set_reach(optimiser, 0.01)
    for _ in range(STEPS):
        parts = zip(x.chunk(2), y.chunk(2), strict=True)
        parts = [Objective(model, likelihood, *part) for part in parts]
        optimiser.step(Accumulated(parts))
    return summary(model, optimiser)


def by_loop(model, share, clip=None, halves=1):
    x, y = [tensor[share] for tensor in data(Categorical())]
    criterion = nn.CrossEntropyLoss(reduction="sum")  # shares are unequal
    alone = 2 if len(x) == 24 else 1
    optimiser = AdamQLR(model.parameters()).watch(model, criterion)
    set_reach(optimiser, 0.01)
    for _ in range(STEPS):
        optimiser.zero_grad()
        for inputs, targets in zip(x.chunk(halves), y.chunk(halves), strict=True):
            # What is clipped is the mean over processes.
            (criterion(model(inputs), targets) / alone).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
    return summary(model, optimiser)


RUNS = {
    "Adam": lambda *a: by_objective(*a, AdamQLR, Categorical()),
    "decay": lambda *a: by_objective(*a, AdamQLR, Gaussian(), weight_decay=0.1, l2=0.1),
    "momentum": lambda *a: by_objective(*a, SGDQLR, Gaussian(), momentum=0.9),
    "loop": by_loop,
    "loop that clips": lambda *a: by_loop(*a, clip=0.1, halves=2),
}


def share_work(rank):
    distributed.init_process_group("gloo")
    runs = {name: run(make_model(rank), SHARES[rank]) for name, run in RUNS.items()}
    return runs


def test_two_processes_equal_one_over_twenty_steps(tmp_path):
    ranks = in_two_processes(share_work, tmp_path)
    for name, run in RUNS.items():
        tensors, info = run(make_model(), slice(0, 24))
        for found, their_info in (rank[name] for rank in ranks):
            for a, b in zip(found, tensors, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8, msg=name)
            assert their_info == pytest.approx(info, rel=1e-5, abs=1e-12, nan_ok=True)


def mixed_work(rank):
    distributed.init_process_group("gloo")
    half, single = torch.bfloat16, torch.float32
    model = make_model(rank, param_dtype=half, reduce_dtype=single)
    seen = set()
    model[2].register_forward_hook(lambda *a: seen.add(a[2].dtype))
    optimiser = AdamQLR(model.parameters())
    set_reach(optimiser, 0.05)
    x, y = [tensor[SHARES[rank]] for tensor in data(Categorical())]
    losses = [
        optimiser.step(Objective(model, Categorical(), x, y)).item()
        for _ in range(STEPS)
    ]
    return losses, seen, {p.dtype for p in model.parameters()}


def test_mixed_precision_is_as_the_policy_says(tmp_path):
    ranks = in_two_processes(mixed_work, tmp_path)
    model, (x, y) = make_model(), data(Categorical())
    optimiser = AdamQLR(model.parameters())
    set_reach(optimiser, 0.05)
    exact = [
        optimiser.step(Objective(model, Categorical(), x, y)).item()
        for _ in range(STEPS)
    ]
    for losses, computed, kept in ranks:
        assert computed == {torch.bfloat16} and kept == {torch.float64}
        assert losses == pytest.approx(exact, rel=0.05)
    assert ranks[0][0] == ranks[1][0]


def checkpoint_work(rank):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    distributed.init_process_group("gloo")
    x, y = [tensor[SHARES[rank]] for tensor in data(Categorical())]
    model = make_model(rank)
    optimiser = AdamQLR(model.parameters())
    step = lambda m, o: o.step(Objective(m, Categorical(), x, y)).item()
    for _ in range(6):
        step(model, optimiser)
    file = io.BytesIO()
    torch.save(get_state_dict(model, optimiser), file)
    file.seek(0)
    weights, states = torch.load(file, weights_only=False)
    other = make_model(rank)
    again = AdamQLR(other.parameters())
    set_state_dict(other, again, model_state_dict=weights, optim_state_dict=states)
    losses = [(step(model, optimiser), step(other, again)) for _ in range(6)]
    averages = [summary(m, o)[0] for m, o in ((model, optimiser), (other, again))]
    return losses, averages


def test_a_checkpoint_goes_on_bit_for_bit(tmp_path):
    for losses, (here, there) in in_two_processes(checkpoint_work, tmp_path):
        assert all(a == b for a, b in losses)
        assert all(a.equal(b) for a, b in zip(here, there, strict=True))


def refused(step):
    try:
        step()
    except (ValueError, TypeError) as error:
        return str(error)
    return "accepted"


def refusing_work(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    distributed.init_process_group("gloo")
    x, y = data(Categorical())

    def step(model, optimiser=None, **options):
        optimiser = optimiser or AdamQLR(model.parameters(), **options)
        return refused(lambda: optimiser.step(Objective(model, Categorical(), x, y)))

    mesh = init_device_mesh("cpu", (2,))
    parallel = parallelize_module(
        make_model(), mesh, {"0": ColwiseParallel(output_layouts=Replicate())}
    )
    hybrid = make_model()
    names = ("replicas", "shares")
    grid = init_device_mesh("cpu", (2, 1), mesh_dim_names=names)
    fsdp.fully_shard(hybrid, mesh=grid)
    ignoring = make_model()
    ignored = set(ignoring[4].parameters())
    fsdp.fully_shard(ignoring, ignored_params=ignored)
    sharded = make_model(rank)
    whole = DistributedDataParallel(make_model())
    handed_out = ZeroRedundancyOptimizer(whole.parameters(), optimizer_class=AdamQLR)
    messages = {
        "ZeroRedundancyOptimizer": step(whole, handed_out),
        "tensor parallel": step(parallel),
        "mesh of 2 axes": step(hybrid),
        "ignored_params": step(ignoring),
        "a direction of your own": step(
            sharded,
            QLR(sharded.parameters(), lambda grads, *_: [g.sign() for g in grads]),
        ),
        "Fisher needs whole parameters": step(sharded, curvature=Fisher()),
    }
    return messages


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_supported_is_refused_by_name(tmp_path):
    for messages in in_two_processes(refusing_work, tmp_path):
        for cause, message in messages.items():
            assert cause in message


@pytest.mark.parametrize(
    "mark, cause", [("_fsdp_flattened", "FSDP1"), ("ds_id", "ZeRO")]
)
def test_shares_of_others_are_known_by_their_marks(mark, cause):
    """Neither can be made without a GPU, but both mark the parameters like this."""
    model, (x, y) = make_model(), data(Categorical())
    for param in model.parameters():
        setattr(param, mark, True)
    optimiser = AdamQLR(model.parameters())
    with pytest.raises(ValueError, match=cause):
        optimiser.step(Objective(model, Categorical(), x, y))
