"""Steps in a row: as one compiled loop, or one call for each where that is faster.

Both give `advance(carry, start, stop)`, which takes the steps numbered `start` to
`stop - 1`. All chance comes from the run's keys and the number of the epoch or step, so
where a run is cut into stretches, or taken up again, makes no difference to any bit.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from qlrstudy.spec import Algorithm, Batch, BatchShape, Run, Split, StepReport, Task

# The most steps of one stretch: the compiled loop has room for so many reports.
CAPACITY = 4096


class Keys(NamedTuple):
    """Sources of chance of a run, one for each purpose."""

    init: PRNGKeyArray
    order: PRNGKeyArray
    noise: PRNGKeyArray


class Loop(NamedTuple):
    """A run's training, bound to its data.

    Attributes:
        steps_per_epoch: how many.
        init: makes the first carry.
        prepare: compiles all that `advance` will call, on a carry like its own.
        advance: takes steps; the old carry's memory may be used for the new one.
        params: `carry -> (params, model state)`.
    """

    steps_per_epoch: int
    init: Callable[[], Any]
    prepare: Callable[[Any], Any]
    advance: Callable[[Any, int, int], tuple[Any, StepReport]]
    params: Callable[[Any], tuple[Any, Any]]


def loop(run: Run, train: Split) -> Loop:
    """The faster loop for the task, algorithm and backend at hand."""
    # jax 0.10.2, two CPU cores: 433 ms a step of a small convolutional net inside a
    # loop, 24 ms as a program of its own.
    slow_inside = run.task.convolutional and jax.default_backend() == "cpu"
    if run.algorithm.traceable and not slow_inside:
        return _compiled_loop(run, train)
    return _stepwise_loop(run, train)


def _keys(run: Run) -> Keys:
    return Keys(*jax.random.split(jax.random.key(run.seed), 3))


def _settings(run: Run, steps_per_epoch: int) -> dict[str, Array]:
    """As arrays: values that are traced, so that others compile nothing."""
    settings = {name: jnp.float32(value) for name, value in run.settings.items()}
    if run.algorithm.scheduled:
        settings["steps"] = jnp.float32(run.budget.total_steps(steps_per_epoch))
    return settings


def _draw(
    task: Task,
    shape: BatchShape,
    noise: PRNGKeyArray,
    train: Split,
    indices: Array,
    weights: Array,
) -> Batch:
    """One step's batch, augmented by the step's own key."""
    batch = task.sampling.gather(train, indices, weights, shape)
    if task.augment is None:
        return batch
    return batch._replace(inputs=task.augment(noise, batch.inputs))


@functools.cache
def _compiled_params(task: Task) -> Callable[[PRNGKeyArray], tuple[Any, Any]]:
    return jax.jit(task.init)


@functools.cache
def _compiled_init(task: Task, algorithm: Algorithm) -> Callable[..., Any]:
    @functools.partial(jax.jit, static_argnames="shape")
    def init(
        params: Any,
        state: Any,
        settings: Any,
        keys: Keys,
        train: Split,
        *,
        shape: BatchShape,
    ) -> Any:
        count = len(train.inputs)
        indices, weights = task.sampling.epoch(keys.order, count, shape)
        batch = task.sampling.gather(train, indices[0], weights[0], shape)
        return algorithm.bind(task, settings).init(params, state, batch, keys.noise)

    return init


@functools.cache
def _compiled_advance(task: Task, algorithm: Algorithm) -> Callable[..., Any]:
    @functools.partial(jax.jit, static_argnames="shape", donate_argnames="carry")
    def advance(
        carry: Any,
        settings: Any,
        keys: Keys,
        train: Split,
        start: Array,
        stop: Array,
        *,
        shape: BatchShape,
    ) -> tuple[Any, StepReport]:
        count = len(train.inputs)
        steps = task.sampling.steps(count, shape)
        stepper = algorithm.bind(task, settings)

        def epoch(e: Array, carried: Any) -> Any:
            order = jax.random.fold_in(keys.order, e)
            indices, weights = task.sampling.epoch(order, count, shape)

            def step(t: Array, carried: Any) -> Any:
                carry, reports = carried
                noise = jax.random.fold_in(keys.noise, t)
                i = t - e * steps
                batch = _draw(task, shape, noise, train, indices[i], weights[i])
                carry, report = stepper.step(carry, batch, noise)
                write = lambda all_, one: all_.at[t - start].set(one)
                return carry, jax.tree.map(write, reports, report)

            first, last = jnp.maximum(start, e * steps), (e + 1) * steps
            return jax.lax.fori_loop(first, jnp.minimum(stop, last), step, carried)

        reports = StepReport(*[jnp.zeros(CAPACITY) for _ in StepReport._fields])
        last_epoch = -(-stop // steps)
        return jax.lax.fori_loop(start // steps, last_epoch, epoch, (carry, reports))

    return advance


def _compiled_loop(run: Run, train: Split) -> Loop:
    steps = run.task.sampling.steps(len(train.inputs), run.shape)
    keys, settings = _keys(run), _settings(run, steps)
    program = _compiled_advance(run.task, run.algorithm)

    def init() -> Any:
        first = _compiled_params(run.task)(keys.init)
        start = _compiled_init(run.task, run.algorithm)
        return start(*first, settings, keys, train, shape=run.shape)

    def advance(carry: Any, start: int, stop: int) -> tuple[Any, StepReport]:
        carry, reports = program(
            carry, settings, keys, train, start, stop, shape=run.shape
        )
        return carry, jax.tree.map(lambda x: np.asarray(x)[: stop - start], reports)

    def prepare(carry: Any) -> Any:
        return advance(carry, 0, 0)[0]

    return Loop(
        steps,
        init,
        prepare,
        advance,
        run.algorithm.bind(run.task, settings).params,
    )


@functools.cache
def _plan(task: Task) -> Callable[..., Any]:
    return jax.jit(task.sampling.epoch, static_argnums=(1, 2))


@functools.cache
def _compiled_draw(task: Task) -> Callable[..., Batch]:
    @functools.partial(jax.jit, static_argnames="shape")
    def draw(
        noise: PRNGKeyArray,
        train: Split,
        indices: Array,
        weights: Array,
        *,
        shape: BatchShape,
    ) -> Batch:
        return _draw(task, shape, noise, train, indices, weights)

    return draw


@functools.cache
def _compiled_step(task: Task, algorithm: Algorithm) -> Callable[..., Any]:
    @jax.jit
    def step(carry: Any, settings: Any, batch: Batch, noise: PRNGKeyArray) -> Any:
        return algorithm.bind(task, settings).step(carry, batch, noise)

    return step


def _stepwise_loop(run: Run, train: Split) -> Loop:
    task, algorithm, shape = run.task, run.algorithm, run.shape
    count = len(train.inputs)
    steps = task.sampling.steps(count, shape)
    keys, settings = _keys(run), _settings(run, steps)
    stepper = algorithm.bind(task, settings)
    # The weights of an epoch are the same in all.
    weights = np.asarray(_plan(task)(keys.order, count, shape)[1])

    def plan(epoch: int) -> Array:
        order = jax.random.fold_in(keys.order, epoch)
        return _plan(task)(order, count, shape)[0]

    def draw(indices: Array, i: int, noise: PRNGKeyArray) -> Batch:
        batch = _compiled_draw(task)(noise, train, indices[i], weights[i], shape=shape)
        if algorithm.traceable:
            return batch
        # An algorithm with a program of its own gets the true number of rows.
        rows = int(np.count_nonzero(weights[i].reshape(len(weights[i]), -1)[:, 0]))
        return jax.tree.map(lambda leaf: leaf[:rows], batch)

    def take(carry: Any, batch: Batch, noise: PRNGKeyArray) -> tuple[Any, StepReport]:
        if not algorithm.traceable:
            return stepper.step(carry, batch, noise)
        return _compiled_step(task, algorithm)(carry, settings, batch, noise)

    def init() -> Any:
        first = _compiled_params(task)(keys.init)
        if algorithm.traceable:
            start = _compiled_init(task, algorithm)
            return start(*first, settings, keys, train, shape=shape)
        return stepper.init(*first, draw(plan(0), 0, keys.noise), keys.noise)

    def prepare(carry: Any) -> Any:
        for i in {0, steps - 1}:
            copy = jax.tree.map(jnp.copy, carry)
            jax.block_until_ready(take(copy, draw(plan(0), i, keys.noise), keys.noise))
        return carry

    def advance(carry: Any, start: int, stop: int) -> tuple[Any, StepReport]:
        reports = []
        indices = plan(start // steps)
        for t in range(start, stop):
            e, i = divmod(t, steps)
            if i == 0:
                indices = plan(e)
            noise = jax.random.fold_in(keys.noise, t)
            carry, report = take(carry, draw(indices, i, noise), noise)
            reports.append(report)
        stacked = jax.tree.map(lambda *all_: np.stack(all_), *reports)
        return jax.block_until_ready(carry), stacked

    return Loop(steps, init, prepare, advance, stepper.params)
