r"""How the loss bends along one direction: $d^\top C d$, for several $C$.

A curvature is a value that is passed in. It sees the objective, the parameters and the
direction and answers with one number, so no matrix and no vector of the parameters'
size is kept. Averages over examples are the objective's own, hence normalised like
its loss.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from adamqlr import rules
from adamqlr.jax.objective import Objective

ValueFn = Callable[[Any], Array]


class Look(NamedTuple):
    r"""What one look along a direction shows.

    Attributes:
        curvature: $d^\top C d$.
        change: $f(\theta - h d) - f(\theta)$ for the $h$ that the look was given, if
            it came with the curvature at no cost; `None` if it takes an evaluation
            of its own, which then is best spent on the step that was chosen.
    """

    curvature: Float[Array, ""]
    change: Float[Array, ""] | None = None


class Curvature(Protocol):
    """Looks from `params` along `direction`, where $h$ = `step_size` is at hand.

    Exact curvatures are derivatives at the parameters and make no use of $h$, the
    last step's size; it is there for those that evaluate the model at a distance.
    """

    def look(
        self, value_fn: ValueFn, params: Any, direction: Any, step_size: Array
    ) -> Look:
        r"""Measure $d^\top C d$ of the batch that `value_fn` is bound to."""
        ...


@dataclasses.dataclass(frozen=True)
class Fisher:
    r"""True Fisher information, $\mathrm{E}_B[(Jd)^\top F_z\, (Jd)]$.

    One forward-mode product gives $Jd$, the outputs' derivative along $d$; the
    likelihood measures its length (Martens and Grosse 2015, appendix C).
    """

    def look(
        self, value_fn: ValueFn, params: Any, direction: Any, step_size: Array
    ) -> Look:
        """See `Curvature`."""
        objective = _objective("Fisher", value_fn)
        outputs, tangent = jax.jvp(objective.outputs, (params,), (direction,))
        return Look(objective.average(objective.likelihood.fisher(outputs, tangent)))


@dataclasses.dataclass(frozen=True)
class GaussNewton:
    r"""Generalised Gauss-Newton, $\mathrm{E}_B[(Jd)^\top \nabla_z^2 \ell\, (Jd)]$.

    Needs only the likelihood's `loss`, so any loss of the outputs will do; where it is
    convex in the outputs the curvature is never negative.
    """

    def look(
        self, value_fn: ValueFn, params: Any, direction: Any, step_size: Array
    ) -> Look:
        """See `Curvature`."""
        objective = _objective("GaussNewton", value_fn)
        outputs, tangent = jax.jvp(objective.outputs, (params,), (direction,))

        def loss(z: Any) -> Array:
            return objective.likelihood.loss(z, objective.targets)

        def slope(z: Any) -> Array:
            return jax.jvp(loss, (z,), (tangent,))[1]

        return Look(objective.average(jax.jvp(slope, (outputs,), (tangent,))[1]))


@dataclasses.dataclass(frozen=True)
class Hessian:
    r"""Second derivative of the loss itself, $d^\top \nabla^2 f\, d$.

    Takes any `value_fn`.

    Args:
        signed: keep negative curvature, as the paper does. Its step then *climbs*
            wherever damping does not outweigh it. By default the magnitude is taken,
            so that negative curvature bounds a step as positive curvature does; the
            damping is added to it, which keeps the bend away from zero.
    """

    signed: bool = False

    def look(
        self, value_fn: ValueFn, params: Any, direction: Any, step_size: Array
    ) -> Look:
        """See `Curvature`."""
        _, product = jax.jvp(jax.grad(value_fn), (params,), (direction,))
        curvature = inner_product(direction, product)
        return Look(curvature if self.signed else abs(curvature))


@dataclasses.dataclass(frozen=True)
class Subsampled:
    """Another curvature, measured on each `every`-th example of the batch only.

    Args:
        curvature: the one to measure.
        every: 4 means a quarter of the batch, at a quarter of the cost.
    """

    curvature: Curvature
    every: int

    def __post_init__(self) -> None:
        rules.check_range("every", self.every, 1)

    def look(
        self, value_fn: ValueFn, params: Any, direction: Any, step_size: Array
    ) -> Look:
        """See `Curvature`."""
        part = _objective("Subsampled", value_fn).part(self.every)
        return self.curvature.look(part, params, direction, step_size)


def scalar_dtype(tree: Any) -> jnp.dtype:
    """The type of the method's scalars: as wide as the parameters, float32 at least."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(tree))


def inner_product(a: Any, b: Any) -> Float[Array, ""]:
    """Sum of products over two trees, in `scalar_dtype` also for bfloat16 leaves."""
    dtype = scalar_dtype((a, b))
    return jnp.asarray(
        optax.tree.vdot(optax.tree.cast(a, dtype), optax.tree.cast(b, dtype)), dtype
    )


def _objective(curvature: str, value_fn: ValueFn) -> Objective:
    if not isinstance(value_fn, Objective):
        raise TypeError(
            f"{curvature} curvature needs the model's outputs, which value_fn of type "
            f"{type(value_fn).__name__} does not show: pass value_fn=Objective("
            "predict, likelihood, inputs, targets), or use Hessian(), which takes any "
            "function"
        )
    return value_fn
