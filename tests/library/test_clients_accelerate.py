"""Inside accelerate: the loop of its documentation, with another optimiser."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from processes import in_two_processes

pytest.importorskip("accelerate", reason="of the extra `clients`")

from accelerate import (  # noqa: E402 - after the check
    Accelerator,
    FullyShardedDataParallelPlugin,
)
from accelerate.state import AcceleratorState, GradientState  # noqa: E402
from accelerate.utils import DistributedType  # noqa: E402

from adamqlr.torch import AdamQLR, Categorical, Objective  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
X = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)
STEPS = 4


@pytest.fixture(autouse=True)
def forget_former_accelerators():
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def network(dropout=0.0):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3)
    )


def prepared(batch, dropout=0.0, sharded=None, **options):
    accelerator = Accelerator(cpu=True, fsdp_plugin=sharded, **options)
    if sharded is not None:
        # It has no such plugin for a CPU; what it does with one runs all the same.
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = sharded
    model, criterion = network(dropout), nn.CrossEntropyLoss()
    optimizer = AdamQLR(model.parameters()).watch(model, criterion)
    loader = DataLoader(TensorDataset(X, Y), batch_size=batch)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    return accelerator, model, criterion, optimizer, loader


def epoch(accelerator, model, criterion, optimizer, loader, limit=None):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = criterion(model(inputs), targets)
            accelerator.backward(loss)
            if limit is not None and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            optimizer.zero_grad()


def by_hand(**options):
    model = network()
    optimiser = AdamQLR(model.parameters(), **options)
    for _ in range(STEPS):
        optimiser.step(Objective(model, Categorical(), X, Y))
    return model, optimiser.info


@pytest.mark.parametrize(
    "batch, parts, limit", [(32, 1, None), (8, 4, None), (8, 4, 0.1)]
)
def test_the_loop_makes_the_steps_of_the_objective(batch, parts, limit):
    tools = prepared(batch, gradient_accumulation_steps=parts)
    for _ in range(STEPS):
        epoch(*tools, limit=limit)
    clip = lambda params: nn.utils.clip_grad_norm_(params, limit)
    expected, info = by_hand(clip=None if limit is None else clip)
    for a, b in zip(tools[1].parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    found = tools[3].optimizer.info
    assert found.loss == pytest.approx(info.loss, rel=1e-4)
    assert found.slope == pytest.approx(info.slope, rel=1e-3)


def test_bfloat16_makes_about_the_same_steps():
    tools = prepared(32, mixed_precision="bf16")
    for _ in range(STEPS):
        epoch(*tools)
    with torch.autocast("cpu", torch.bfloat16):
        _, info = by_hand()
    found = tools[3].optimizer.info
    assert found.loss == pytest.approx(info.loss, rel=1e-2)
    assert found.step_size == pytest.approx(info.step_size, rel=0.1)


def test_a_saved_state_goes_on_bit_for_bit(tmp_path):
    tools = prepared(8, dropout=0.2)
    epoch(*tools)
    tools[0].save_state(str(tmp_path))
    ends = []
    for _ in range(2):
        tools[0].load_state(str(tmp_path))
        epoch(*tools)
        ends.append([param.detach().clone() for param in tools[1].parameters()])
    assert all(a.equal(b) for a, b in zip(*ends, strict=True))


def work(rank, limit=None, **options):
    tools = prepared(8, gradient_accumulation_steps=2, **options)
    for _ in range(STEPS):
        epoch(*tools, limit=limit)
    params = [param.detach() for param in tools[1].parameters()]
    whole = [getattr(param, "full_tensor", lambda p=param: p)() for param in params]
    tools[0].end_training()
    return whole, tools[3].optimizer.info


def sharded_work(rank):
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="size_based_wrap", min_num_params=30
    )
    return work(rank, limit=0.1, sharded=plugin)


def test_its_fsdp2_equals_one_process(tmp_path):
    clip = lambda params: nn.utils.clip_grad_norm_(params, 0.1)
    assert_equal_to_one(sharded_work, tmp_path, clip=clip)


def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    assert_equal_to_one(work, tmp_path)


def assert_equal_to_one(work, folder, **options):
    model, info = by_hand(**options)
    for params, their_info in in_two_processes(work, folder):
        for a, b in zip(params, model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        assert their_info.loss == pytest.approx(info.loss, rel=1e-4)
