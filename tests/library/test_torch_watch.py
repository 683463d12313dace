"""`loss.backward(); optimizer.step()` makes the step of `step(Objective(...))`."""

import copy
import gc
import io
import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from adamqlr.torch import (
    SGDQLR,
    Accumulated,
    AdamQLR,
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    Objective,
    Probe,
    Subsampled,
)

STEPS = 4
X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X[:, :3].argmax(1)


def network(*layers):
    torch.manual_seed(1)
    inner = layers or (nn.Tanh(),)
    return nn.Sequential(nn.Linear(4, 8), *inner, nn.Linear(8, 3)).double()


def trained(model, step, optimiser=None, **options):
    """Parameters, buffers and each step's info, after a few steps."""
    optimiser = optimiser or AdamQLR(model.parameters(), **options)
    # The first probe of its own is so near that differences keep few digits.
    optimiser.param_groups[0]["memory_reach"] = 0.01
    torch.manual_seed(2)
    infos = []
    for _ in range(STEPS):
        step(optimiser)
        infos.append(tuple(optimiser.info))
    return [tensor.detach().clone() for tensor in model.state_dict().values()], infos


def loop(model, backward):
    """The step of a loop: `backward` takes the gradients."""

    def step(optimiser):
        optimiser.zero_grad()
        backward()
        optimiser.step()

    return step


def assert_same(found, expected, rel=1e-8):
    for a, b in zip(found[0], expected[0], strict=True):
        torch.testing.assert_close(a, b, rtol=rel, atol=rel)
    for info, other in zip(found[1], expected[1], strict=True):
        assert info == pytest.approx(other, rel=100 * rel, abs=1e-12, nan_ok=True)


def objective_steps(model, likelihood=None, inputs=X, targets=Y, **options):
    objective = Objective(model, likelihood or Categorical(), inputs, targets)
    return trained(model, lambda optimiser: optimiser.step(objective), **options)


def watched_steps(model, loss, backward, outputs=None, kind=AdamQLR, **options):
    optimiser = kind(model.parameters(), **options)
    optimiser.watch(model, loss, outputs=outputs)
    return trained(model, loop(model, backward), optimiser)


@pytest.mark.parametrize("factor", [1, 7, 1e-3])
@pytest.mark.parametrize("kind", [AdamQLR, SGDQLR])
def test_a_loop_makes_the_steps_of_the_objective_whatever_its_factor(factor, kind):
    model = network()
    backward = lambda: (factor * functional.cross_entropy(model(X), Y)).backward()
    found = watched_steps(model, Categorical(), backward, kind=kind)
    other = network()
    objective = Objective(other, Categorical(), X, Y)
    steps = trained(other, lambda o: o.step(objective), kind(other.parameters()))
    # The ratio compares differences of losses, which keep half of their digits.
    assert_same(found, steps, rel=1e-7)


def test_a_summed_loss_is_as_good_as_a_mean():
    model, criterion = network(), nn.CrossEntropyLoss(reduction="sum")
    found = watched_steps(model, criterion, lambda: criterion(model(X), Y).backward())
    assert_same(found, objective_steps(network()))


@pytest.mark.parametrize(
    "curvature", [Probe(), Fisher(), Subsampled(Probe(), 2, least=1)]
)
def test_every_curvature_looks_at_recorded_passes(curvature):
    model = network()
    backward = lambda: functional.cross_entropy(model(X), Y).backward()
    found = watched_steps(model, Categorical(), backward, curvature=curvature)
    assert_same(found, objective_steps(network(), curvature=curvature))


WEIGHTS = torch.tensor([1.0, 2, 3], dtype=torch.float64)
COUNTS = torch.arange(72).reshape(24, 3).double() % 5
MODULES = [
    (nn.CrossEntropyLoss(), Y),
    (nn.CrossEntropyLoss(weight=WEIGHTS), Y),
    (nn.CrossEntropyLoss(label_smoothing=0.1), Y),
    (nn.CrossEntropyLoss(), COUNTS.softmax(-1)),
    (nn.CrossEntropyLoss(ignore_index=1), Y),
    (nn.MSELoss(), X[:, 1:]),
    (nn.L1Loss(), X[:, 1:]),
    (nn.HuberLoss(delta=0.5), X[:, 1:]),
    (nn.SmoothL1Loss(), X[:, 1:]),
    (nn.BCEWithLogitsLoss(), COUNTS / 4),
    (nn.PoissonNLLLoss(), COUNTS),
]


@pytest.mark.parametrize("criterion, targets", MODULES)
def test_a_loss_module_tells_its_targets(criterion, targets):
    criterion = copy.deepcopy(criterion).double()
    model = network()
    backward = lambda: criterion(model(X), targets).backward()
    found = watched_steps(model, criterion, backward)
    assert_same(found, objective_steps(network(), criterion, targets=targets))


def test_a_loss_module_may_be_called_by_name():
    model, criterion = network(), nn.MSELoss()
    backward = lambda: criterion(target=X[:, 1:], input=model(X)).backward()
    found = watched_steps(model, criterion, backward)
    assert_same(found, objective_steps(network(), criterion, targets=X[:, 1:]))


@pytest.mark.parametrize(
    "likelihood, function, targets",
    [
        (Categorical(), functional.cross_entropy, Y),
        (
            Categorical(label_smoothing=0.2),
            lambda z, y: functional.cross_entropy(z, y, label_smoothing=0.2),
            Y,
        ),
        (
            Categorical(label_smoothing=0.2, class_weights=WEIGHTS),
            lambda z, y: functional.cross_entropy(z, y, WEIGHTS, label_smoothing=0.2),
            Y,
        ),
        (
            Bernoulli(),
            functional.binary_cross_entropy_with_logits,
            (COUNTS > 2).double(),
        ),
    ],
)
def test_classes_are_read_from_the_gradients_of_functions(
    likelihood, function, targets
):
    model = network()
    backward = lambda: function(model(X), targets).backward()
    found = watched_steps(model, likelihood, backward)
    assert_same(found, objective_steps(network(), likelihood, targets=targets))


@pytest.mark.parametrize("weigh", [lambda n: n / 24, lambda n: n])
def test_accumulation_equals_accumulated(weigh):
    model, cuts = network(), [slice(0, 14), slice(14, 24)]

    def backward():
        for cut in cuts:
            loss = functional.cross_entropy(model(X[cut]), Y[cut])
            (loss * weigh(len(X[cut]))).backward()

    found = watched_steps(model, Categorical(), backward)
    other = network()
    parts = [Objective(other, Categorical(), X[cut], Y[cut]) for cut in cuts]
    assert_same(found, trained(other, lambda o: o.step(Accumulated(parts))))


def test_micro_batches_weigh_what_they_do_in_the_loop():
    model, cuts = network(), [slice(0, 16), slice(16, 24)]

    def backward():
        for cut in cuts:
            (functional.cross_entropy(model(X[cut]), Y[cut]) / 2).backward()

    found = watched_steps(model, Categorical(), backward)
    weights = torch.where(torch.arange(24) < 16, 1 / 32, 1 / 16).double()
    other = network()
    objective = Objective(other, Categorical(), X, Y, weights)
    assert_same(found, trained(other, lambda o: o.step(objective)))


def test_several_passes_may_share_one_backward():
    model, cuts = network(), [slice(0, 14), slice(14, 24)]

    def backward():
        losses = [
            functional.cross_entropy(model(X[cut]), Y[cut], reduction="sum")
            for cut in cuts
        ]
        sum(losses).backward()

    found = watched_steps(model, Categorical(), backward)
    assert_same(found, objective_steps(network()))


def test_autocast_may_end_before_the_step():
    x, y, criterion = X.float(), Y, nn.CrossEntropyLoss()
    model = network().float()

    def backward():
        with torch.autocast("cpu", torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()

    found = watched_steps(model, criterion, backward)
    other = network().float()
    objective = Objective(other, Categorical(), x, y)

    def step(optimiser):
        with torch.autocast("cpu", torch.bfloat16):
            optimiser.step(objective)

    # The loop's factor is read from gradients in bfloat16, which have three digits.
    assert_same(found, trained(other, step), rel=2e-3)


def test_the_slope_is_that_of_the_loss_if_the_loop_clips():
    model, limit = network(), 0.05

    def backward():
        functional.cross_entropy(model(X), Y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)

    found = watched_steps(model, Categorical(), backward)
    clip = lambda params: nn.utils.clip_grad_norm_(params, limit)
    # The norm is divided by itself plus 1e-6.
    assert_same(found, objective_steps(network(), clip=clip), rel=1e-5)


def test_the_optimiser_s_clip_sees_the_gradient_of_the_mean():
    model, criterion = network(), nn.CrossEntropyLoss(reduction="sum")
    clip = lambda params: nn.utils.clip_grad_value_(params, 0.01)
    backward = lambda: criterion(model(X), Y).backward()
    found = watched_steps(model, criterion, backward, clip=clip)
    assert_same(found, objective_steps(network(), clip=clip), rel=1e-7)


def clip_by_hand(params):
    """As older code does it, without the tensors' noticing."""
    for param in params:
        param.grad.data.clamp_(-0.01, 0.01)


CLIPS = [lambda params: nn.utils.clip_grad_value_(params, 0.01), clip_by_hand]


@pytest.mark.parametrize("clip", CLIPS)
def test_gradients_changed_by_more_than_a_factor_are_refused_with_the_cure(clip):
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    functional.cross_entropy(model(X), Y).backward()
    clip(model.parameters())
    with pytest.raises(RuntimeError, match="clip=lambda params"):
        optimiser.step()


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.net, self.reentrant = network(nn.Tanh(), nn.Dropout(0.3)), reentrant

    def forward(self, x):
        x = self.net[0](x)
        return checkpoint(self.net[1:], x, use_reentrant=self.reentrant)


# What the reentrant one says wherever it is called without gradients.
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_models_are_replayed(reentrant):
    model, other = Checkpointed(reentrant), Checkpointed(reentrant)
    backward = lambda: functional.cross_entropy(model(X), Y).backward()
    found = watched_steps(model, Categorical(), backward)
    assert_same(found, objective_steps(other))


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_whole_model_may_be_checkpointed(reentrant):
    model, x = network(nn.Tanh(), nn.Dropout(0.3)), X.clone().requires_grad_()

    def backward():
        outputs = checkpoint(model, x, use_reentrant=reentrant)
        functional.cross_entropy(outputs, Y).backward()

    found = watched_steps(model, Categorical(), backward)
    assert_same(found, objective_steps(network(nn.Tanh(), nn.Dropout(0.3)), inputs=x))


def test_masks_are_the_same_and_buffers_advance_once_a_pass():
    layers = lambda: (nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3))
    model = network(*layers())
    backward = lambda: functional.cross_entropy(model(X), Y).backward()
    found = watched_steps(model, Categorical(), backward)
    assert model[1].num_batches_tracked == STEPS
    assert_same(found, objective_steps(network(*layers())))


@pytest.mark.slow
def test_compiled_models_are_watched():
    model = network()
    compiled = torch.compile(model, backend="aot_eager")
    optimiser = AdamQLR(model.parameters()).watch(compiled, Categorical())
    backward = lambda: functional.cross_entropy(compiled(X), Y).backward()
    found = trained(model, loop(model, backward), optimiser)
    assert_same(found, objective_steps(network()))


@pytest.mark.slow
def test_a_model_that_is_compiled_afterwards_is_to_be_watched_itself():
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    compiled = torch.compile(model, backend="aot_eager")
    functional.cross_entropy(compiled(X), Y).backward()
    with pytest.raises(RuntimeError, match="watch what torch.compile returned"):
        optimiser.step()


class Returning(nn.Module):
    """A network that returns its logits as something else, or within it."""

    def __init__(self, form):
        super().__init__()
        self.net, self.form = network(), form

    def forward(self, x, y=None):
        logits = self.net(x)
        loss = None if y is None else functional.cross_entropy(logits, y)
        return self.form(logits, loss)


class Output:
    def __init__(self, logits, loss):
        self.logits, self.loss = logits, loss


@pytest.mark.parametrize(
    "form, pick, loss_of",
    [
        (lambda z, loss: (z, loss), None, lambda out: out[1]),
        (lambda z, loss: (loss, z), None, lambda out: out[0]),
        (Output, None, lambda out: out.loss),
        (lambda z, loss: {"z": z, "l": loss}, "z", lambda out: out["l"]),
        (lambda z, loss: (z, loss, z + 1), lambda r: r[0], lambda out: out[1]),
    ],
)
def test_outputs_are_found_beside_a_loss_that_the_model_makes(form, pick, loss_of):
    model = Returning(form)
    backward = lambda: loss_of(model(X, Y)).backward()
    found = watched_steps(model, Categorical(), backward, outputs=pick)
    plain = network()
    params, infos = objective_steps(plain)
    assert_same(found, (params, infos))


def test_outputs_that_cannot_be_told_apart_are_refused():
    model = Returning(lambda z, loss: (z, z + 1))
    AdamQLR(model.parameters()).watch(model, Categorical())
    with pytest.raises(TypeError, match="outputs=..."):
        model(X)


class Tokens(nn.Module):
    """Logits of sequences, (sequences, length, classes)."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        return self.net(x)


SEQUENCES, LABELS = X.reshape(4, 6, 4), Y.reshape(4, 6)
SHAPES = {
    "flat": lambda z, y: (z.view(-1, 3), y.view(-1)),
    "classes on the second axis": lambda z, y: (z.transpose(1, 2), y),
    "the last token": lambda z, y: (z[:, -1], y[:, -1]),
    "a view of the first": lambda z, y: (z[:, :-1].transpose(1, 2), y[:, :-1]),
    "copies of the first": lambda z, y: (
        z[:, :-1].reshape(-1, 3),
        y[:, :-1].reshape(-1),
    ),
}


class Shorter(Tokens):
    def forward(self, x):
        return self.net(x)[:, 1:]


def test_the_outputs_may_be_a_slice_themselves():
    model, criterion = Shorter(), nn.CrossEntropyLoss()
    labels = LABELS[:, 1:]
    backward = lambda: criterion(model(SEQUENCES).transpose(1, 2), labels).backward()
    found = watched_steps(model, criterion, backward)
    other = Shorter()
    objective = Objective(other, Categorical(), SEQUENCES, labels)
    assert_same(found, trained(other, lambda o: o.step(objective)))


@pytest.mark.parametrize("name", SHAPES)
def test_the_loss_may_see_the_outputs_in_another_shape(name):
    model, criterion, reshape = Tokens(), nn.CrossEntropyLoss(), SHAPES[name]
    backward = lambda: criterion(*reshape(model(SEQUENCES), LABELS)).backward()
    found = watched_steps(model, criterion, backward)
    kept = torch.zeros(4, 6)
    kept[:, -1 if name == "the last token" else slice(None)] = 1
    if "first" in name:
        kept[:, -1] = 0
    other = Tokens()
    objective = Objective(other, Categorical(), SEQUENCES, LABELS, kept)
    assert_same(found, trained(other, lambda o: o.step(objective)))


def test_the_classes_of_pixels_are_on_the_second_axis():
    images = X.reshape(6, 4, 2, 2)
    labels = Y.reshape(6, 2, 2)
    make = lambda: network_of_pixels().double()
    model, criterion = make(), nn.CrossEntropyLoss()
    found = watched_steps(
        model, criterion, lambda: criterion(model(images), labels).backward()
    )
    expected = objective_steps(make(), criterion, inputs=images, targets=labels)
    assert_same(found, expected)


def network_of_pixels():
    torch.manual_seed(1)
    return nn.Conv2d(4, 3, 1)


def test_the_loss_may_see_the_outputs_without_their_last_axis():
    make = lambda: nn.Sequential(network(), nn.Flatten(), nn.Linear(3, 1).double())
    model, criterion = make(), nn.MSELoss()
    other = copy.deepcopy(model)
    backward = lambda: criterion(model(X).squeeze(-1), X[:, 0]).backward()
    found = watched_steps(model, criterion, backward)
    squeeze = lambda returned: returned.squeeze(-1)
    objective = Objective(other, criterion, X, X[:, 0], outputs=squeeze)
    assert_same(found, trained(other, lambda o: o.step(objective)))


def test_a_part_of_the_batch_may_be_looked_at_through_a_loss_module():
    model, criterion, half = (
        network(),
        nn.CrossEntropyLoss(),
        Subsampled(Probe(), 2, least=1),
    )
    backward = lambda: criterion(model(X), Y).backward()
    found = watched_steps(model, criterion, backward, curvature=half)
    assert_same(found, objective_steps(network(), curvature=half))


def test_a_part_of_outputs_in_another_shape_is_refused():
    model, criterion = Tokens(), nn.CrossEntropyLoss()
    optimiser = AdamQLR(model.parameters(), curvature=Subsampled(Probe(), 2, least=1))
    optimiser.watch(model, criterion)
    criterion(model(SEQUENCES).view(-1, 3), LABELS.view(-1)).backward()
    with pytest.raises(ValueError, match="Subsampled cannot cut"):
        optimiser.step()


def test_padding_is_left_out_where_the_loop_leaves_it_out():
    model, labels = Tokens(), LABELS.masked_fill(LABELS == 1, -100)
    backward = lambda: functional.cross_entropy(
        model(SEQUENCES).flatten(0, 1), labels.flatten()
    ).backward()
    found = watched_steps(model, Categorical(), backward)
    other = Tokens()
    objective = Objective(
        other, Categorical(), SEQUENCES, labels, (labels != -100).double()
    )
    assert_same(found, trained(other, lambda o: o.step(objective)))


def test_evaluation_between_backward_and_step_does_not_disturb():
    model, criterion = network(), nn.CrossEntropyLoss()

    def backward():
        criterion(model(X), Y).backward()
        with torch.no_grad():
            criterion(model(X + 1), Y)
        criterion(model(X[:5]), Y[:5])

    found = watched_steps(model, criterion, backward)
    assert_same(found, objective_steps(network()))


def test_a_closure_may_call_backward_under_watch():
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())

    def closure():
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(X), Y)
        loss.backward()
        return loss

    found = trained(model, lambda o: o.step(closure), optimiser)
    assert_same(found, objective_steps(network()))


def test_a_watched_optimiser_still_takes_objectives():
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    objective = Objective(model, Categorical(), X, Y)
    found = trained(model, lambda o: o.step(objective), optimiser)
    assert_same(found, objective_steps(network()))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_batch_that_the_loop_drops_is_forgotten(set_to_none):
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())

    def step(optimiser):
        functional.cross_entropy(model(3 * X), Y).backward()
        optimiser.zero_grad(set_to_none=set_to_none)
        functional.cross_entropy(model(X), Y).backward()
        optimiser.step()
        model.zero_grad()

    assert_same(trained(model, step, optimiser), objective_steps(network()))


@pytest.mark.parametrize("loss", [Categorical(), nn.CrossEntropyLoss()])
def test_parameters_in_bfloat16_are_trained_to_the_end(loss):
    model, x = network().bfloat16(), X.bfloat16()
    criterion = loss if isinstance(loss, nn.Module) else functional.cross_entropy
    optimiser = AdamQLR(model.parameters()).watch(model, loss)
    for _ in range(80):
        optimiser.zero_grad()
        criterion(model(x), Y).backward()
        optimiser.step()
    # Rounded, probabilities above 0.996 have no gradient.
    assert optimiser.info.loss < 0.01


def test_a_batch_that_is_not_finite_is_refused_and_the_next_one_is_not():
    model = network(nn.BatchNorm1d(8))
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    before = [tensor.clone() for tensor in model.state_dict().values()]
    functional.cross_entropy(model(X * math.nan), Y).backward()
    optimiser.step()
    assert optimiser.info.rejected
    after = model.state_dict().values()
    assert all(a.equal(b) for a, b in zip(before, after, strict=True))
    optimiser.zero_grad()
    functional.cross_entropy(model(X), Y).backward()
    optimiser.step()
    assert not optimiser.info.rejected


# What is refused, each with its cure.


def ready(loss=None, model=None):
    model = model or network()
    loss = loss or Categorical()
    return model, AdamQLR(model.parameters()).watch(model, loss)


def test_a_step_without_backward_is_refused():
    model, optimiser = ready()
    functional.cross_entropy(model(X), Y)
    with pytest.raises(RuntimeError, match="call loss.backward"):
        optimiser.step()


@pytest.mark.parametrize(
    "loss",
    [
        lambda z: functional.cross_entropy(z, Y, label_smoothing=0.3),
        lambda z: functional.mse_loss(z, COUNTS),
        lambda z: functional.cross_entropy(z, Y) + z.square().mean(),
        lambda z: -functional.cross_entropy(z, Y),
    ],
)
def test_another_loss_than_the_watched_one_is_refused(loss):
    model, optimiser = ready()
    before = [param.detach().clone() for param in model.parameters()]
    loss(model(X)).backward()
    with pytest.raises(ValueError, match="Watch the loss that the loop uses"):
        optimiser.step()
    assert all(a.equal(b) for a, b in zip(before, model.parameters(), strict=True))
    # What was refused is forgotten.
    optimiser.zero_grad()
    functional.cross_entropy(model(X), Y).backward()
    optimiser.step()


def test_two_backward_calls_through_one_pass_are_refused():
    model, optimiser = ready()
    outputs = model(X)
    functional.cross_entropy(outputs, Y).backward(retain_graph=True)
    functional.cross_entropy(outputs, Y).backward()
    with pytest.raises(RuntimeError, match="add the losses"):
        optimiser.step()


@pytest.mark.parametrize("loss", [Gaussian(), functional.mse_loss])
def test_targets_that_cannot_be_read_are_refused(loss):
    model, optimiser = ready(loss)
    functional.mse_loss(model(X), X[:, 1:]).backward()
    with pytest.raises(ValueError, match="watch that very module"):
        optimiser.step()


def test_smoothed_labels_of_two_classes_are_not_read_but_refused():
    loss = Categorical(label_smoothing=0.1)
    model, optimiser = ready(loss, nn.Linear(4, 2).double())
    functional.cross_entropy(model(X), Y % 2, label_smoothing=0.1).backward()
    with pytest.raises(ValueError, match="watch that very module"):
        optimiser.step()


def test_a_loss_module_that_sees_a_copy_is_refused():
    criterion = nn.MSELoss()
    model, optimiser = ready(criterion)
    criterion(2 * model(X), X[:, 1:]).backward()
    with pytest.raises(ValueError, match="a view of that, no copy"):
        optimiser.step()


def test_outputs_changed_in_place_are_refused():
    model, optimiser = ready()
    outputs = model(X)
    outputs /= 2
    functional.cross_entropy(outputs, Y).backward()
    with pytest.raises(RuntimeError, match="changed in place"):
        optimiser.step()


def test_gradients_left_from_before_are_refused():
    model, optimiser = ready()
    functional.cross_entropy(model(X), Y).backward()
    optimiser.step()
    functional.cross_entropy(model(X), Y).backward()
    with pytest.raises(RuntimeError, match="call zero_grad"):
        optimiser.step()


def test_a_closure_that_calls_backward_is_told_to_watch():
    model = network()
    optimiser = AdamQLR(model.parameters())

    def closure():
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(X), Y)
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match=r"watch\(model, loss\)"):
        optimiser.step(closure)


def test_a_scaler_is_refused():
    model, optimiser = ready()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(functional.cross_entropy(model(X), Y)).backward()
    with pytest.raises(RuntimeError, match="dtype=torch.bfloat16"):
        scaler.step(optimiser)


# What is kept, and for how long.


def test_nothing_recorded_outlives_its_graph_or_its_step():
    model, optimiser = ready(nn.CrossEntropyLoss())
    criterion = optimiser._recorder.loss

    def one(backward):
        inputs, targets = X.clone(), Y.clone()
        loss = criterion(model(inputs), targets)
        if backward:
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return weakref.ref(inputs), weakref.ref(targets)

    for kept in (*one(True), *one(False)):
        gc.collect()
        assert kept() is None


def test_copies_of_a_watched_model_are_not_watched():
    model, optimiser = ready(nn.CrossEntropyLoss())
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    optimiser.zero_grad()
    for network_ in (twin, loaded):
        functional.cross_entropy(network_(3 * X), Y).backward()
    functional.cross_entropy(model(X), Y).backward()
    optimiser.step()
    assert optimiser.info.loss == pytest.approx(objective_steps(network())[1][0][0])


def saved_and_loaded(both):
    file = io.BytesIO()
    torch.save(both, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, saved_and_loaded])
def test_a_copy_of_the_optimiser_asks_to_be_told_its_model(copied):
    model, optimiser = ready()
    twin_model, twin = copied((model, optimiser))
    functional.cross_entropy(twin_model(X), Y).backward()
    with pytest.raises(ValueError, match=r"call watch\(model, loss\)"):
        twin.step()
    twin.watch(twin_model, Categorical())
    for net, opt in ((model, optimiser), (twin_model, twin)):
        opt.zero_grad()
        functional.cross_entropy(net(X), Y).backward()
        opt.step()
    assert twin.info == optimiser.info


def test_watching_again_ends_what_was_watched():
    model, optimiser = ready(nn.MSELoss())
    optimiser.watch(model, Categorical())
    backward = lambda: functional.cross_entropy(model(X), Y).backward()
    found = trained(model, loop(model, backward), optimiser)
    assert_same(found, objective_steps(network()))


def test_an_optimiser_that_is_dropped_listens_no_more():
    """In a notebook a cell makes one after the other around the same model."""
    model, optimiser = ready(nn.CrossEntropyLoss())
    gone = weakref.ref(optimiser)
    del optimiser
    gc.collect()
    assert gone() is None
    assert not model._forward_hooks and not model._forward_pre_hooks


@pytest.mark.parametrize("bad", [0, 1])
def test_a_batch_that_is_not_finite_leaves_no_statistics_in_any_order(bad):
    """One `backward()` comes to the pass that was made last first."""
    model = network(nn.BatchNorm1d(8))
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    before = [buffer.clone() for buffer in model.buffers()]
    inputs = [X, X]
    inputs[bad] = torch.full_like(X, torch.nan)
    optimiser.zero_grad()
    sum(functional.cross_entropy(model(x), Y) for x in inputs).backward()
    optimiser.step()
    assert optimiser.info.rejected
    for buffer, former in zip(model.buffers(), before, strict=True):
        assert buffer.equal(former)


def test_a_layer_that_is_frozen_later_may_keep_its_gradient():
    model = network()
    optimiser = AdamQLR(model.parameters()).watch(model, Categorical())
    for number in range(3):
        optimiser.zero_grad(set_to_none=False)
        functional.cross_entropy(model(X), Y).backward()
        optimiser.step()
        if number == 0:
            functional.cross_entropy(model(X), Y).backward()
            model[0].requires_grad_(False)
            frozen = model[0].weight.clone()
    assert model[0].weight.equal(frozen) and not optimiser.info.rejected


@pytest.mark.parametrize("loss", [Categorical(class_axis=1), functional.cross_entropy])
def test_classes_of_images_are_where_they_are_said_to_be(loss):
    torch.manual_seed(0)
    model = nn.Conv2d(1, 3, 3, padding=1)
    x, y = torch.randn(2, 1, 5, 5), torch.randint(3, (2, 5, 5))
    optimiser = AdamQLR(model.parameters()).watch(model, loss)
    for _ in range(3):
        optimiser.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        found = optimiser.step()
        assert found.item() == pytest.approx(optimiser.info.loss)
    assert not optimiser.info.rejected
