import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adamqlr.jax import Bernoulli, Categorical, Gaussian, Poisson
from oracles import output_fisher

LIKELIHOODS = [Categorical(), Gaussian(), Bernoulli(), Poisson()]
by_name = pytest.mark.parametrize(
    "likelihood", LIKELIHOODS, ids=lambda likelihood: type(likelihood).__name__
)


@by_name
def test_fisher_length_is_the_expected_square_of_the_score(likelihood, x64):
    outputs, tangent = jnp.array([0.3, -1.2]), jnp.array([0.7, 0.4])
    expected = tangent @ output_fisher(likelihood, outputs) @ tangent
    found = likelihood.fisher(outputs[None], tangent[None])[0]
    # Poisson's enumeration stops at 40 events, where its tail is below 1e-30.
    np.testing.assert_allclose(found, expected, rtol=1e-12)


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
    line = jnp.concatenate(
        [jnp.linspace(-40.0, 40.0, 81), jnp.linspace(-4.0, 4.0, 401)]
    )
    pairs = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    losses = likelihood.loss(pairs, jnp.broadcast_to(targets, pairs.shape))
    least = likelihood.least(targets, jnp.mean)
    np.testing.assert_allclose(losses.min(), least, atol=1e-3)
    assert losses.min() >= least
