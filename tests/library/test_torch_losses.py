"""Likelihoods, and the losses of torch.nn that stand for one."""

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from adamqlr.torch import (
    Accumulated,
    AdamQLR,
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    GaussNewton,
    Heads,
    Hessian,
    Huber,
    Laplace,
    Objective,
    Poisson,
    Probe,
    Subsampled,
)
from adamqlr.torch.losses import as_likelihood
from adamqlr.torch.point import gradient
from adamqlr.torch.products import double_backward_product
from torch_cases import MLP

LIKELIHOODS = [Categorical(), Gaussian(), Bernoulli(), Poisson(), Laplace(), Huber()]
by_name = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


@by_name
def test_half_precision_outputs_give_single_precision_losses(likelihood):
    outputs = torch.ones(4, 3, dtype=torch.bfloat16)
    classes = likelihood is LIKELIHOODS[0]
    targets = torch.zeros(4, dtype=int) if classes else torch.ones(4, 3)
    assert likelihood.loss(outputs, targets).dtype == torch.float32
    assert likelihood.fisher(outputs, outputs).dtype == torch.float32


@by_name
def test_targets_of_another_shape_are_refused(likelihood):
    with pytest.raises(ValueError, match=r"targets must have shape .* got \(4, 1\)"):
        likelihood.loss(torch.ones(4, 3), torch.ones(4, 1))


def test_class_numbers_must_be_integers():
    with pytest.raises(TypeError, match="pass integers for class numbers"):
        Categorical().loss(torch.ones(4, 3), torch.ones(4))


def test_a_class_number_out_of_range_is_refused():
    with pytest.raises(IndexError, match="out of bounds"):
        Categorical().loss(torch.ones(4, 3), torch.full((4,), -100))


def test_integer_and_one_hot_labels_agree():
    logits, labels = torch.randn(2, 5, 3), torch.arange(10).reshape(2, 5) % 3
    one_hot = nn.functional.one_hot(labels, 3).float()
    torch.testing.assert_close(
        Categorical().loss(logits, labels), Categorical().loss(logits, one_hot)
    )


def _random(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(3))


CLASSES, TOKENS = torch.arange(8) % 3, torch.arange(10).reshape(2, 5) % 3
PIXELS = torch.arange(32).reshape(2, 4, 4) % 3
WEIGHT = torch.tensor([1.0, 3.0, 0.5])
# What is 0 in WEIGHTLESS still has its share of what is smoothed.
WEIGHTLESS = torch.tensor([1.0, 0.0, 0.5])
SOFT = {
    shape: functional.softmax(3 * _random(*shape), 1)
    for shape in [(8, 3), (2, 3, 5), (2, 3, 4, 4)]
}
BITS = {
    shape: (_random(*shape) > 0.6).float() for shape in [(8,), (8, 3), (2, 3, 4, 4)]
}
REAL = {
    shape: 4 * _random(*shape) - 2 for shape in [(8,), (8, 3), (2, 5, 3), (2, 3, 4, 4)]
}
COUNTS = {shape: (4 * _random(*shape)).floor() for shape in [(8, 3), (2, 3, 4, 4)]}

# Losses whose Fisher information, weighted by the targets, is their own Hessian.
CANONICAL = {
    "cross entropy": (nn.CrossEntropyLoss(), (8, 3), CLASSES),
    "cross entropy of tokens": (nn.CrossEntropyLoss(), (2, 3, 5), TOKENS),
    "cross entropy of pixels": (nn.CrossEntropyLoss(), (2, 3, 4, 4), PIXELS),
    "cross entropy, ignoring": (
        nn.CrossEntropyLoss(ignore_index=2), (2, 3, 4, 4), PIXELS,
    ),
    "cross entropy, weighted": (nn.CrossEntropyLoss(WEIGHT), (2, 3, 5), TOKENS),
    "cross entropy, smoothed": (
        nn.CrossEntropyLoss(label_smoothing=0.1), (2, 3, 4, 4), PIXELS,
    ),
    "cross entropy, all options": (
        nn.CrossEntropyLoss(WEIGHTLESS, ignore_index=2, label_smoothing=0.3),
        (2, 3, 4, 4), PIXELS,
    ),
    "cross entropy, soft": (nn.CrossEntropyLoss(), (2, 3, 5), SOFT[2, 3, 5]),
    "cross entropy, soft and smoothed": (
        nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.3), (2, 3, 4, 4),
        SOFT[2, 3, 4, 4],
    ),
    "cross entropy, function": (functional.cross_entropy, (8, 3), CLASSES),
    "cross entropy, partial": (
        functools.partial(functional.cross_entropy, label_smoothing=0.1, weight=WEIGHT),
        (8, 3), CLASSES,
    ),
    "squared error": (nn.MSELoss(), (8, 3), REAL[8, 3]),
    "squared error, one axis": (nn.MSELoss(), (8,), REAL[8,]),
    "squared error of images": (nn.MSELoss(), (2, 3, 4, 4), REAL[2, 3, 4, 4]),
    "squared error, function": (functional.mse_loss, (2, 5, 3), REAL[2, 5, 3]),
    "binary": (nn.BCEWithLogitsLoss(), (8, 3), BITS[8, 3]),
    "binary, one axis": (nn.BCEWithLogitsLoss(), (8,), BITS[8,]),
    "binary, positive weight": (
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor(4.0)), (8,), BITS[8,],
    ),
    "binary, weights": (
        nn.BCEWithLogitsLoss(WEIGHT, pos_weight=2 * WEIGHT), (8, 3), BITS[8, 3],
    ),
    "binary, pixels": (
        functools.partial(
            functional.binary_cross_entropy_with_logits,
            pos_weight=WEIGHT[:, None, None],
        ),
        (2, 3, 4, 4), BITS[2, 3, 4, 4],
    ),
    "Poisson": (nn.PoissonNLLLoss(), (8, 3), COUNTS[8, 3]),
    "Poisson, full": (nn.PoissonNLLLoss(full=True), (2, 3, 4, 4), COUNTS[2, 3, 4, 4]),
}  # fmt: skip

# The expected square of the score of the density exp(-huber(r)), by its integral.
ERRORS = np.linspace(-40, 40, 200_001)
SCORES = np.clip(ERRORS, -1, 1)
DENSITY = np.exp(-SCORES * (ERRORS - SCORES / 2))
HUBER = (DENSITY * SCORES**2).sum() / DENSITY.sum()

# Losses whose curvature is the Fisher information: that of each output, given outputs.
FISHER = {
    "L1": (nn.L1Loss(), (8, 3), REAL[8, 3], lambda z: 1.0),
    "L1, function": (functional.l1_loss, (2, 3, 4, 4), REAL[2, 3, 4, 4], lambda z: 1.0),
    "smooth L1": (nn.SmoothL1Loss(), (8, 3), REAL[8, 3], lambda z: HUBER),
    "smooth L1, narrow": (
        nn.SmoothL1Loss(beta=0.2), (2, 5, 3), REAL[2, 5, 3], lambda z: HUBER / 0.2,
    ),
    "smooth L1, L1": (nn.SmoothL1Loss(beta=0.0), (8,), REAL[8,], lambda z: 1.0),
    "Huber": (nn.HuberLoss(), (8,), REAL[8,], lambda z: HUBER),
    "Huber, function": (
        functools.partial(functional.huber_loss, delta=0.3), (2, 3, 4, 4),
        REAL[2, 3, 4, 4], lambda z: HUBER,
    ),
    "Poisson of rates": (
        nn.PoissonNLLLoss(log_input=False, full=True), (8, 3), COUNTS[8, 3],
        lambda z: 1 / z,
    ),
}  # fmt: skip


class Table(nn.Module):
    """A model that is its outputs."""

    def __init__(self, *tables):
        super().__init__()
        self.tables = nn.ParameterList(tables)

    def forward(self, x):
        outputs = tuple(table + 0 * x for table in self.tables)
        return outputs if len(outputs) > 1 else outputs[0]


def _look(objective, curvature=None):
    """The point of an objective, a direction, and the curvature along it."""
    point = gradient(objective, list(objective.parts[0].model.parameters()))
    noise = torch.Generator().manual_seed(5)
    direction = [torch.randn(p.shape, generator=noise) for p in point.params]
    look = (curvature or Fisher()).look(point, direction, 1e-3)
    return point, direction, look


def _assert_value_and_gradient(loss, point, outputs, targets):
    """Against torch's own."""
    outputs = [z.detach().requires_grad_() for z in outputs]
    expected = loss(outputs[0], targets, *outputs[1:])
    grads = torch.autograd.grad(expected, outputs)
    np.testing.assert_allclose(point.loss, expected.detach(), rtol=1e-6)
    for param, grad in zip(point.params, grads, strict=True):
        torch.testing.assert_close(param.grad, grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", CANONICAL)
def test_a_loss_of_torch_keeps_its_value_and_its_curvature(name):
    loss, shape, targets = CANONICAL[name]
    torch.manual_seed(0)
    model = Table(torch.randn(shape))
    objective = Objective(model, loss, torch.zeros(()), targets)
    point, (direction,), look = _look(objective)
    before = model.tables[0].detach()
    _assert_value_and_gradient(loss, point, [before], targets)
    along = lambda s: loss(before + s * direction, targets)
    bend = torch.func.grad(torch.func.grad(along))(torch.zeros(()))
    np.testing.assert_allclose(look.curvature, bend, rtol=1e-5)


@pytest.mark.parametrize("name", FISHER)
def test_a_loss_of_torch_keeps_its_value_and_has_fisher_information(name):
    loss, shape, targets, sharpness = FISHER[name]
    torch.manual_seed(0)
    model = Table(torch.rand(shape) + 0.2)
    objective = Objective(model, loss, torch.zeros(()), targets)
    point, (direction,), look = _look(objective)
    before = model.tables[0].detach()
    _assert_value_and_gradient(loss, point, [before], targets)
    expected = (sharpness(before) * direction.square()).mean()
    np.testing.assert_allclose(look.curvature, expected, rtol=1e-6)


@pytest.mark.parametrize("shape, variances", [
    ((8, 3), (8, 3)), ((8, 3), (8, 1)), ((8, 3), (8,)), ((2, 5, 3), (2, 5, 1)),
])  # fmt: skip
@pytest.mark.parametrize("full", [False, True])
def test_a_predicted_variance_has_torch_s_value_and_fisher_information(
    shape, variances, full
):
    loss, targets = nn.GaussianNLLLoss(full=full), REAL[shape]
    torch.manual_seed(0)
    model = Table(torch.randn(shape), torch.rand(variances) + 0.1)
    point, tangents, look = _look(Objective(model, loss, torch.zeros(()), targets))
    mean, variance = [table.detach() for table in model.tables]
    _assert_value_and_gradient(loss, point, [mean, variance], targets)
    along_mean, along_variance = tangents
    if variance.ndim < mean.ndim:
        variance, along_variance = variance[..., None], along_variance[..., None]
    lengths = along_mean.square() / variance + (along_variance / variance).square() / 2
    np.testing.assert_allclose(look.curvature, lengths.mean(), rtol=1e-5)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("shape, labels", [((8, 3), CLASSES), ((2, 3, 5), TOKENS)])
def test_log_probabilities_have_the_fisher_information_of_their_logits(
    shape, labels, weight
):
    class LogSoftmax(Table):
        def forward(self, x):
            return functional.log_softmax(super().forward(x), 1)

    torch.manual_seed(0)
    logits, looks = torch.randn(shape), []
    for model, loss in [
        (LogSoftmax(logits), nn.NLLLoss(weight, ignore_index=0)),
        (Table(logits), nn.CrossEntropyLoss(weight, ignore_index=0)),
    ]:
        objective = Objective(model, loss, torch.zeros(()), labels)
        point, _, look = _look(objective)
        expected = loss(model(torch.zeros(())), labels).detach()
        np.testing.assert_allclose(point.loss, expected, rtol=1e-6)
        looks.append(look.curvature)
    np.testing.assert_allclose(*looks, rtol=1e-5)


@pytest.mark.parametrize("loss, outputs, likelihood, targets", [
    (nn.MSELoss(), (6, 2, 3), Gaussian(), REAL[8, 3][:6, None].expand(6, 2, 3)),
    (nn.BCEWithLogitsLoss(), (6, 3), Bernoulli(), BITS[8, 3][:6]),
    (nn.CrossEntropyLoss(), (6, 3), Categorical(), CLASSES[:6]),
    (nn.HuberLoss(delta=0.5), (6, 3), Huber(0.5), REAL[8, 3][:6]),
])  # fmt: skip
def test_steps_are_those_of_the_likelihood_itself(loss, outputs, likelihood, targets):
    ends = []
    for given in (loss, likelihood):
        torch.manual_seed(0)
        model = Table(torch.randn(outputs))
        optimiser = AdamQLR(model.parameters())
        for _ in range(5):
            optimiser.step(Objective(model, given, torch.zeros(()), targets))
        ends.append(model.tables[0].detach())
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "loss, shape, examples",
    [
        (nn.MSELoss(), (2, 3, 4, 4), 2),
        (Gaussian(), (2, 3, 4, 4), 2),
        (Gaussian(example_axes=2), (2, 3, 4, 4), 6),
        (Gaussian(), (5,), 5),
        (Bernoulli(), (2, 4, 4), 2),
        (Categorical(), (2, 5, 3), 10),
        (nn.CrossEntropyLoss(), (2, 3, 5), 10),
        (nn.CrossEntropyLoss(ignore_index=2), (2, 3, 5), 7),
    ],
)
def test_what_is_an_example(loss, shape, examples):
    tokens = TOKENS if examples in (7, 10) else torch.zeros(shape)
    objective = Objective(Table(torch.randn(shape)), loss, torch.zeros(()), tokens)
    assert _look(objective)[0].batch().examples == examples


@pytest.mark.parametrize(
    "loss, error, cure",
    [
        (nn.CrossEntropyLoss(reduction="sum"), ValueError, "use reduction='mean'"),
        (nn.MSELoss(reduction="none"), ValueError, "use reduction='mean'"),
        (functools.partial(functional.l1_loss, reduction="sum"), ValueError, "'mean'"),
        (functools.partial(functional.mse_loss, weight=WEIGHT), ValueError, "weights="),
        (functools.partial(functional.mse_loss, WEIGHT), ValueError, "bound by name"),
        (nn.BCELoss(), TypeError, "BCEWithLogitsLoss"),
        (functional.kl_div, TypeError, "cross_entropy"),
        (nn.KLDivLoss(), TypeError, "CrossEntropyLoss"),
        (nn.CosineEmbeddingLoss(), TypeError, "without loss and fisher"),
        (nn.CrossEntropyLoss, TypeError, r"pass CrossEntropyLoss\(\)"),
        (lambda z, y: z, TypeError, "without loss and fisher"),
        ("cross entropy", TypeError, "got 'cross entropy' without loss and fisher"),
    ],
)
def test_a_loss_that_is_not_read_is_refused_with_the_cure(loss, error, cure):
    with pytest.raises(error, match=cure):
        Objective(MLP(), loss, torch.zeros(2, 3), torch.zeros(2, 3))


def test_weights_of_a_batch_are_not_those_of_outputs():
    loss = nn.BCEWithLogitsLoss(weight=torch.ones(8, 1))
    objective = Objective(Table(torch.ones(8, 3)), loss, torch.zeros(()), BITS[8, 3])
    with pytest.raises(ValueError, match=r"Objective\(weights=...\)"):
        objective()


class TwoMethods:
    """As a user may write it, without our class."""

    def loss(self, outputs, targets):
        return (outputs - targets).square().sum(-1) / 2

    def fisher(self, outputs, tangent):
        return tangent.square().sum(-1)


def test_a_class_with_two_methods_is_a_likelihood():
    model = Table(torch.ones(4, 3))
    optimiser = AdamQLR(model.parameters())
    objective = Objective(model, TwoMethods(), torch.zeros(()), torch.zeros(4, 3))
    for _ in range(20):
        loss = optimiser.step(objective)
    assert loss < 0.1


class LossAlone(nn.Module):
    def loss(self, outputs, targets):
        return outputs


def test_a_class_without_fisher_is_told_so():
    with pytest.raises(TypeError, match="got LossAlone.* without fisher$"):
        as_likelihood(LossAlone())


class TwoHeads(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.kind, self.size = nn.Linear(5, classes), nn.Linear(5, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"kind": self.kind(h), "size": self.size(h), "hidden": h}


def _heads(weights=None, rows=slice(None)):
    torch.manual_seed(0)
    x, size = torch.randn(8, 4), torch.randn(8, 2)
    losses = {"kind": nn.CrossEntropyLoss(WEIGHT), "size": nn.MSELoss()}
    return (
        Heads(losses, weights),
        x[rows],
        {"kind": CLASSES[rows], "size": size[rows]},
    )


def test_heads_do_not_see_targets_that_a_mask_leaves_out():
    likelihood, x, targets = _heads()
    mask = torch.ones(8)
    mask[2] = 0
    kinds = targets["kind"].masked_fill(mask == 0, -100)
    model = TwoHeads()
    losses = []
    for own in (targets, targets | {"kind": kinds}):
        model.zero_grad()
        objective = Objective(model, likelihood, x, own, mask)
        losses.append(gradient(objective, list(model.parameters())).loss)
    torch.testing.assert_close(*losses)


def test_heads_add_their_weighted_losses_and_curvatures():
    likelihood, x, targets = _heads({"kind": 2.0, "size": 0.5})
    model = TwoHeads()
    point, direction, look = _look(Objective(model, likelihood, x, targets))

    def total(outputs):
        kinds = functional.cross_entropy(
            outputs["kind"], targets["kind"], WEIGHT, reduction="none"
        )
        return 2 * kinds.mean() + functional.mse_loss(*_sizes(outputs, targets)) / 2

    np.testing.assert_allclose(point.loss, total(model(x)).detach(), rtol=1e-6)
    outputs, tangents = _along(model, x, direction)
    moved = lambda s: {name: outputs[name] + s * tangents[name] for name in outputs}
    slope = torch.func.grad(lambda s: total(moved(s)))
    expected = torch.func.grad(slope)(torch.zeros(()))
    np.testing.assert_allclose(look.curvature, expected, rtol=1e-5)
    for curvature in (GaussNewton(), Probe()):
        found = curvature.look(point, direction, 1e-4).curvature
        np.testing.assert_allclose(found, expected, rtol=1e-2)


def _sizes(outputs, targets):
    return outputs["size"], targets["size"]


def _along(model, x, direction):
    """The model's outputs, and their derivatives by torch.func."""
    params = {name: param.detach() for name, param in model.named_parameters()}
    tangents = dict(zip(params, direction, strict=True))
    call = lambda params: torch.func.functional_call(model, params, (x,))
    return torch.func.jvp(call, (params,), (tangents,))


def test_both_exact_products_agree_for_heads():
    likelihood, x, targets = _heads()
    objective = Objective(TwoHeads().double(), likelihood, x.double(), targets)
    params = list(objective.model.parameters())
    direction = [param.detach().sin() for param in params]
    found = double_backward_product(objective, params, direction)
    _, expected = _along(objective.model, objective.inputs, direction)
    for name, tangent in expected.items():
        torch.testing.assert_close(found[name], tangent)


@pytest.mark.parametrize(
    "curvature", [Fisher(), Probe(), Subsampled(Fisher(), 2, least=1)]
)
def test_heads_train(curvature):
    likelihood, x, targets = _heads()
    model = TwoHeads()
    optimiser = AdamQLR(model.parameters(), curvature=curvature)
    losses = [
        optimiser.step(Objective(model, likelihood, x, targets)) for _ in range(30)
    ]
    assert losses[-1] < losses[0] / 2


def test_micro_batches_make_the_whole_for_heads_and_class_weights():
    model = TwoHeads()
    pick = lambda returned: returned["kind"]
    loss = nn.CrossEntropyLoss(WEIGHT, ignore_index=0, label_smoothing=0.1)
    for make in (
        lambda rows: Objective(model, *_heads(rows=rows)),
        lambda rows: Objective(
            model, loss, _heads()[1][rows], CLASSES[rows], outputs=pick
        ),
        lambda rows: Objective(
            model, *_heads(rows=rows), penalty=lambda m: m.size.weight.square().sum()
        ),
    ):
        answers = []
        for objective in (
            make(slice(None)),
            Accumulated([make(slice(0, 3)), make(slice(3, 8))]),
        ):
            model.zero_grad()
            point, _, look = _look(objective)
            grads = [param.grad.clone() for param in point.params]
            examples, scale, *_ = point.batch()
            scales = [] if scale is None else list(scale)
            answers.append([point.loss, examples, look.curvature, *scales, *grads])
        for whole, parts in zip(*answers, strict=True):
            np.testing.assert_allclose(whole, parts, rtol=1e-4, atol=1e-6)


def test_a_penalty_adds_to_value_and_slope_but_not_to_fisher():
    model, x = nn.Linear(4, 3), torch.randn(8, 4)
    square = lambda model: 0.3 * model.weight.square().sum()
    plain = Objective(model, nn.CrossEntropyLoss(WEIGHT), x, CLASSES)
    with_penalty = Objective(
        model, nn.CrossEntropyLoss(WEIGHT), x, CLASSES, penalty=square
    )
    answers = []
    for objective in (plain, with_penalty):
        model.zero_grad()
        point, direction, look = _look(objective)
        grad = model.weight.grad.clone()
        bent = [
            curvature.look(point, direction, 1e-2)
            for curvature in (GaussNewton(), Probe(), Hessian())
        ]
        answers.append((point, grad, look, bent))
    (before, grad, look, bent), (point, more, same, bends) = answers
    penalty = square(model).detach()
    np.testing.assert_allclose(point.loss, before.loss + penalty, rtol=1e-6)
    torch.testing.assert_close(more, grad + 0.6 * model.weight.detach())
    assert point.batch().least is None
    np.testing.assert_allclose(same.curvature, look.curvature, rtol=1e-5)
    np.testing.assert_allclose(bends[0].curvature, bent[0].curvature, rtol=1e-5)
    np.testing.assert_allclose(bends[1].curvature, bent[1].curvature, rtol=1e-3)
    weight = direction[0]
    h = bends[1].trial.distance
    change = (
        -0.6 * h * (weight * model.weight).sum() + 0.3 * h**2 * weight.square().sum()
    )
    np.testing.assert_allclose(
        bends[1].trial.change - bent[1].trial.change, change.detach(), rtol=1e-3
    )
    np.testing.assert_allclose(
        bends[2].curvature - bent[2].curvature,
        0.6 * weight.square().sum(),
        rtol=1e-4,
    )


class Returned:
    def __init__(self, scores):
        self.scores = scores


@pytest.mark.parametrize(
    "wrap, pick",
    [
        (lambda z: {"scores": z, "cache": None}, "scores"),
        (lambda z: Returned(z), "scores"),
        (lambda z: (z, None), lambda returned: returned[0]),
        (lambda z: Returned(z), lambda returned: returned.scores),
    ],
)
def test_outputs_are_picked_by_name_or_function(wrap, pick):
    class Wrapped(nn.Linear):
        def forward(self, x):
            return wrap(super().forward(x))

    x, model = torch.randn(8, 4), Wrapped(4, 3)
    objective = Objective(model, Categorical(), x, CLASSES, outputs=pick)
    expected = functional.cross_entropy(nn.Linear.forward(model, x), CLASSES)
    torch.testing.assert_close(objective(), expected)
    _look(objective)
    with pytest.raises(ValueError, match="outputs='logit' is no attribute or entry"):
        Objective(model, Categorical(), x, CLASSES, outputs="logit")()
    with pytest.raises(TypeError, match="pass outputs=..."):
        Objective(model, Categorical(), x, CLASSES)()


def test_the_least_poisson_loss_is_that_of_the_counts_themselves():
    counts = torch.tensor([[1.0, 7.0], [2.0, 3.0]])
    best = Poisson().loss(counts.log(), counts)
    least = Poisson().least([counts], lambda parts: torch.cat(parts).mean())
    torch.testing.assert_close(least, best.mean())
    assert Poisson().least([torch.zeros(1, 2)], lambda parts: parts[0].mean()) == 0
