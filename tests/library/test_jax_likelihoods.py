import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adamqlr.jax import (
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    GaussNewton,
    Heads,
    HeteroscedasticGaussian,
    Huber,
    Laplace,
    Objective,
    Point,
    Poisson,
    adam_qlr,
    train_step,
    trainer,
)
from oracles import batch_gauss_newton, heteroscedastic_fisher, output_fisher

LIKELIHOODS = [
    Categorical(),
    Gaussian(),
    Bernoulli(),
    Poisson(),
    Poisson(log_rate=False),
    Laplace(),
    Laplace(deviation=0.2),
    Huber(),
    Huber(delta=3.0),
]
by_name = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)


@by_name
def test_fisher_length_is_the_expected_square_of_the_score(likelihood, x64):
    outputs, tangent = jnp.array([0.3, 1.2]), jnp.array([0.7, -0.4])
    expected = tangent @ output_fisher(likelihood, outputs) @ tangent
    found = likelihood.fisher(outputs[None], tangent[None])[0]
    # Poisson's enumeration stops at 40 events, where its tail is below 1e-20, and
    # counts a rate's epsilon of 1e-8.
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_fisher_length_of_mean_and_variance_is_the_expected_square(x64):
    mean, variance = jnp.array(0.3), jnp.array(0.6)
    tangent = jnp.array([0.7, -0.4])
    expected = tangent @ heteroscedastic_fisher(mean, variance) @ tangent
    found = HeteroscedasticGaussian().fisher(
        (mean.reshape(1, 1), variance.reshape(1, 1)),
        (tangent[:1, None], tangent[1:, None]),
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


@by_name
def test_half_precision_outputs_give_single_precision_losses(likelihood):
    outputs = jnp.ones((4, 3), jnp.bfloat16)
    targets = jnp.zeros(4, int) if likelihood is LIKELIHOODS[0] else jnp.ones((4, 3))
    assert likelihood.loss(outputs, targets).dtype == jnp.float32
    assert likelihood.fisher(outputs, outputs).dtype == jnp.float32


@by_name
def test_targets_of_another_shape_are_refused(likelihood):
    with pytest.raises(ValueError, match=r"targets must have shape .* got \(4, 1\)"):
        likelihood.loss(jnp.ones((4, 3)), jnp.ones((4, 1)))


def test_class_numbers_must_be_integers():
    with pytest.raises(TypeError, match="pass integers for class numbers"):
        Categorical().loss(jnp.ones((4, 3)), jnp.ones(4))


def test_integer_and_one_hot_labels_agree():
    logits = jax.random.normal(jax.random.key(0), (2, 5, 3))
    labels = jnp.arange(10).reshape(2, 5) % 3
    np.testing.assert_allclose(
        Categorical().loss(logits, labels),
        Categorical().loss(logits, jax.nn.one_hot(labels, 3)),
        rtol=1e-6,
    )


def test_a_single_axis_holds_examples():
    z, y = jnp.array([1.0, 2.0, 4.0]), jnp.zeros(3)
    np.testing.assert_allclose(Gaussian().loss(z, y), [0.5, 2.0, 8.0])


def test_fisher_of_confident_classes_does_not_cancel():
    logits, tangent = jnp.array([[1000.0, 0.0]]), jnp.array([[1e4, 1e4]])
    assert Categorical().fisher(logits, tangent)[0] == 0


@pytest.mark.parametrize(
    "likelihood, targets",
    [
        (Categorical(), jnp.array([[1.0, 0.0]])),
        (Gaussian(), jnp.array([[0.3, -2.0]])),
        (Bernoulli(), jnp.array([[0.0, 1.0]])),
        (Poisson(), jnp.array([[0.0, 7.0]])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_least_loss_is_that_of_the_best_outputs(likelihood, targets, x64):
    line = jnp.append(jnp.linspace(-40.0, 40.0, 41), jnp.linspace(-3.0, 3.0, 601))
    pairs = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    losses = likelihood.loss(pairs, jnp.broadcast_to(targets, pairs.shape))
    least = likelihood.least(targets, jnp.mean)
    np.testing.assert_allclose(losses.min(), least, atol=1e-3)
    assert losses.min() >= least


@pytest.mark.parametrize(
    "likelihood",
    [Gaussian(), Bernoulli(), Poisson(), Laplace(), Huber()],
    ids=repr,
)
def test_an_image_is_one_example_and_a_sequence_may_be_many(likelihood):
    z, y = jnp.full((2, 4, 4, 3), 0.5), jnp.ones((2, 4, 4, 3))
    each = likelihood.loss(z.reshape(-1), y.reshape(-1))[0]
    assert likelihood.loss(z, y).shape == likelihood.fisher(z, z).shape == (2,)
    np.testing.assert_allclose(likelihood.loss(z, y), 48 * each, rtol=1e-6)
    steps = type(likelihood)(example_axes=2)
    assert steps.loss(z, y).shape == steps.fisher(z, z).shape == (2, 4)
    np.testing.assert_allclose(steps.loss(z, y), 12 * each, rtol=1e-6)
    with pytest.raises(ValueError, match=r"example_axes=2 needs .* got shape \(3,\)"):
        steps.loss(jnp.ones(3), jnp.ones(3))


def test_a_mask_of_steps_needs_steps_that_are_examples():
    x, mask = jnp.ones((2, 4, 3)), jnp.ones((2, 4)).at[0, 1].set(0)
    predict = lambda params, x: params * x
    whole = Objective(predict, Gaussian(), x, 2 * x, mask)
    with pytest.raises(ValueError, match=r"got \(2, 4\): .* example_axes"):
        whole(jnp.ones(()))
    steps = Objective(predict, Gaussian(example_axes=2), x, 2 * x, mask)
    assert steps(jnp.ones(())) == 1.5
    assert steps.batch(x, jnp.asarray(1.5)).examples == 7


LABELS = jnp.array([0, 2, 1, -1, 2, 0])
SOFT = jnp.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.1, 0.1, 0.8]] * 2)
BITS = jnp.array([[0, 1, 1], [1, 0, 0], [0, 0, 1]] * 2)
CLASS_WEIGHTS = jnp.array([1.0, 3.0, 0.5])
MASK = jnp.array([1, 1, 0, 1, 1, 1])

# Losses whose Fisher information, weighted by the targets, is their own Hessian.
WEIGHTED = {
    "class weights": (Categorical(class_weights=CLASS_WEIGHTS), abs(LABELS), None),
    "smoothed": (Categorical(label_smoothing=0.2), abs(LABELS), None),
    "ignoring": (Categorical(ignore_index=-1), LABELS, None),
    "ignoring, masked": (Categorical(ignore_index=-1), LABELS, MASK),
    "all of it": (Categorical(0.2, CLASS_WEIGHTS, ignore_index=-1), LABELS, MASK),
    "soft, weighted": (Categorical(0.2, CLASS_WEIGHTS), SOFT, MASK),
    "positive weights": (Bernoulli(pos_weight=CLASS_WEIGHTS), BITS, None),
    "positive weight": (Bernoulli(pos_weight=4.0), BITS, MASK),
    "output weights": (Bernoulli(4.0, output_weights=CLASS_WEIGHTS), BITS, None),
    "heads": (
        Heads({"a": Categorical(ignore_index=-1), "b": Gaussian()}, {"a": 2, "b": 0.5}),
        {"a": LABELS, "b": SOFT},
        MASK,
    ),
}  # fmt: skip


def _weighted_case(name):
    likelihood, targets, weights = WEIGHTED[name]
    heads = isinstance(likelihood, Heads)

    def predict(params, x):
        z = jnp.tanh(x @ params["w1"]) @ params["w2"]
        return {"a": z, "b": 2 * z} if heads else z

    draw = lambda seed, *shape: jax.random.normal(jax.random.key(seed), shape, float)
    params = {"w1": draw(1, 2, 3), "w2": draw(2, 3, 3)}
    return Objective(predict, likelihood, draw(0, 6, 2), targets, weights), params


def curvature_along(curvature, objective, params, direction):
    look = jax.jit(lambda p, d: curvature.look(Point(objective, p), d, 1.0))
    return look(params, direction).curvature


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_targets_are_in_loss_and_curvature_alike(name, x64):
    objective, params = _weighted_case(name)
    direction = jax.tree.map(jnp.sin, params)
    d = jax.flatten_util.ravel_pytree(direction)[0]
    expected = d @ batch_gauss_newton(objective, params) @ d
    for curvature in (Fisher(), GaussNewton()):
        found = curvature_along(curvature, objective, params, direction)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_class_weights_divide_by_the_weights_of_the_labels():
    likelihood = Categorical(class_weights=[1.0, 3.0])
    z, y = jnp.array([[0.0, 1.0], [2.0, 0.0]]), jnp.array([0, 1])
    objective = Objective(lambda params, x: params, likelihood, None, y)
    first, second = Categorical().loss(z, y)
    np.testing.assert_allclose(objective(z), (first + 3 * second) / 4, rtol=1e-6)
    examples = objective.batch(z, objective(z)).examples
    np.testing.assert_allclose(examples, 16 / 10, rtol=1e-6)


def test_the_least_loss_of_soft_targets_is_their_entropy():
    likelihood = Categorical(label_smoothing=0.1, class_weights=CLASS_WEIGHTS)
    smoothed = 0.9 * SOFT + 0.1 / 3
    best = jnp.log(smoothed * CLASS_WEIGHTS)
    expected = likelihood.loss(best, SOFT).mean()
    np.testing.assert_allclose(likelihood.least(SOFT, jnp.mean), expected, rtol=1e-5)


def test_a_penalty_is_one_number():
    """One for each example would be averaged, and count as much as it happens to."""
    x, params = jnp.ones((4, 2)), jnp.ones(2)
    predict = lambda params, x: params * x
    weigh = lambda penalty: Objective(predict, Gaussian(), x, x, penalty=penalty)
    with pytest.raises(ValueError, match=r"penalty must .* got shape \(4,\): sum it"):
        weigh(lambda p: jnp.ones(4))(params)
    optimiser = adam_qlr()
    made = train_step(optimiser, weigh(lambda p: 2.0), params, optimiser.init(params))
    assert made.loss == 2


def test_an_ignored_class_has_no_probabilities():
    likelihood, logits = Categorical(ignore_index=-1), jnp.zeros((4, 3))
    with pytest.raises(ValueError, match="ignore_index=-1 is a class number.* weight"):
        likelihood.loss(logits, jax.nn.one_hot(jnp.arange(4), 3))


def test_a_penalty_adds_to_value_and_slope_alone(x64):
    plain, params = _weighted_case("all of it")
    square = lambda params: (
        0.3 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))
    )
    objective = Objective(
        plain.predict, plain.likelihood, plain.inputs, plain.targets, plain.weights,
        penalty=square,
    )  # fmt: skip
    np.testing.assert_allclose(
        objective(params), plain(params) + square(params), rtol=1e-12
    )
    direction = jax.tree.map(jnp.sin, params)
    for curvature in (Fisher(), GaussNewton()):
        looks = [
            curvature_along(curvature, each, params, direction)
            for each in (objective, plain)
        ]
        np.testing.assert_allclose(*looks, rtol=1e-12)
    outputs = objective.outputs(params)
    assert objective.batch(outputs, objective(params)).least is None


class TwoMethods:
    """As a user may write it, without our class."""

    def loss(self, outputs, targets):
        return jnp.sum(jnp.square(outputs - targets), axis=-1) / 2

    def fisher(self, outputs, tangent):
        return jnp.sum(jnp.square(tangent), axis=-1)


def test_a_class_with_two_methods_is_a_likelihood():
    x, y = jnp.ones((4, 3)), jnp.zeros((4, 3))
    init, step = trainer(lambda params, x: params * x, TwoMethods())
    params, state, step = jnp.ones(3), init(jnp.ones(3)), jax.jit(step)
    for _ in range(20):
        params, state = step(params, state, (x, y))
    assert state.loss < 0.1


class LossAlone:
    def loss(self, outputs, targets):
        return outputs


@pytest.mark.parametrize(
    "given, message",
    [
        (LossAlone(), "got .* without fisher$"),
        ("categorical", "got 'categorical' without loss and fisher$"),
        (Categorical, r"got the class Categorical: pass Categorical\(\)"),
    ],
)
def test_what_is_no_likelihood_is_told_what_it_lacks(given, message):
    with pytest.raises(TypeError, match=message):
        Objective(lambda params, x: x, given, jnp.ones(2), jnp.ones(2))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Categorical(label_smoothing=1.5), "label_smoothing must lie in"),
        (lambda: Huber(0), "delta must lie in"),
        (lambda: Laplace(-1.0), "deviation must lie in"),
        (lambda: Gaussian(example_axes=0), "example_axes must lie in"),
        (lambda: Heads({}), "likelihoods must hold one head"),
        (lambda: Heads({"a": Gaussian()}, {"b": 1.0}), r"weights must be of the heads"),
        (lambda: Heads({"a": Gaussian()}, {"a": -1.0}), r"weights\['a'\] must lie"),
    ],
)
def test_options_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_shapes_that_do_not_fit_are_refused_with_the_cure():
    z, labels = jnp.ones((4, 3)), jnp.zeros(4, int)
    with pytest.raises(ValueError, match=r"class_weights must have shape \(3,\)"):
        Categorical(class_weights=[1.0, 2.0]).loss(z, labels)
    with pytest.raises(ValueError, match=r"pos_weight .* Objective\(weights=...\)"):
        Bernoulli(pos_weight=jnp.ones(4)).loss(z, z)
    with pytest.raises(TypeError, match="one array, got tuple"):
        Gaussian().loss((z, z), z)
    with pytest.raises(TypeError, match=r"\(mean, variance\), got"):
        HeteroscedasticGaussian().loss(z, z)
    with pytest.raises(ValueError, match=r"variance must have the shape .* \(4, 2\)"):
        HeteroscedasticGaussian().loss((z, jnp.ones((4, 2))), z)
    heads = Heads({"a": Gaussian(), "b": Categorical()})
    with pytest.raises(ValueError, match="an entry for head 'b', got"):
        heads.loss({"a": z}, {"a": z})
    with pytest.raises(ValueError, match="the same examples"):
        heads.loss({"a": z, "b": z[:2]}, {"a": z, "b": labels[:2]})


def test_whole_numbers_as_targets_have_the_scale_of_real_ones():
    """Their weights, too, would be whole numbers: a half of each is none."""
    targets, weights = jnp.arange(100, 108)[:, None], jnp.full(8, 0.5)
    predict = lambda params, x: params * x
    batches = [
        Objective(predict, Gaussian(), jnp.ones((8, 1)), own, weights).batch(
            jnp.zeros((8, 1)), jnp.ones(())
        )
        for own in (targets, targets.astype(float))
    ]
    whole, real = (batch.scale for batch in batches)
    np.testing.assert_allclose(whole, real, rtol=1e-6)
