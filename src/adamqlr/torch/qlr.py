r"""Quadratic-model step sizes around any direction.

Here they are measured and moved; `adamqlr.step` has the method.
"""

# pyright: reportPrivateImportUsage=false
# What keeps a step out of compiled loops has no public name; torch.optim uses it.

import contextlib
import functools
import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn

from adamqlr import rules
from adamqlr import step as method
from adamqlr.curvatures import check_pair
from adamqlr.measurements import Look, Trial, measurement
from adamqlr.memory import Memory
from adamqlr.rules import Limit, Truth, where
from adamqlr.settings import Rule
from adamqlr.step import Proposal, StepInfo
from adamqlr.torch import averaging, batch_norm, groups, memory
from adamqlr.torch.arguments import (
    check_group,
    checked_closure,
    is_objective,
    noted,
    refuse_cached_parametrisations,
    refuse_learning_rate,
    refuse_nothing_to_train,
    refuse_parameters_elsewhere,
    refuse_peak_rate,
    refuse_scaled_gradients,
    refuse_step_from_average,
    refuse_step_inside_forward,
    the_only_model,
    warn_of_written_parameters,
)
from adamqlr.torch.bundles import Bundles
from adamqlr.torch.curvature import Curvature, Probe
from adamqlr.torch.directions import (
    ELEMENTWISE,
    Direction,
    count_in_numbers,
    remembering_if,
)
from adamqlr.torch.groups import Hook
from adamqlr.torch.objective import Accumulated, Objective, Pick
from adamqlr.torch.pending import Pending, is_read_later
from adamqlr.torch.point import Point, bare, gradient
from adamqlr.torch.recording import Recorder
from adamqlr.torch.replay import move
from adamqlr.torch.scalars import (
    inner_product,
    multiply,
    norms,
    read,
    scalar,
    scalar_dtype,
)
from adamqlr.torch.sharding import (
    drop_gathered,
    refuse_other_shares,
    refuse_unlike_processes,
)
from adamqlr.torch.taken import Doubts, Taken

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


class QLR(torch.optim.Optimizer):
    r"""Step to the minimum of a damped quadratic model along any direction.

    $$\alpha = \frac{g^\top d}{d^\top (C + \lambda I)\, d}, \qquad
      \theta \gets \theta - \alpha d$$

    `loss = optimizer.step(objective)` takes the gradient, looks along the direction,
    tries and makes the step, and returns the loss before it. `optimizer.info` says what
    it did. There is no learning rate; `lr` is a factor on $\alpha$ for schedulers.
    Gradients are released within the step; `clip` is where to look at them.

    Args:
        params: tensors, or groups of them. Groups may differ in `lr`, `weight_decay`
            and the direction's own settings.
        direction: makes $d$ out of gradients; see `Direction`.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        lr: multiplies $\alpha$, after its limits; schedulers write it. Groups with a
            smaller `lr` than others go so much less far.
        weight_decay: adds so much of the parameters to the direction, as AdamW does:
            $d \gets d + w \theta$, hence $\theta \gets \theta - \alpha (d + w \theta)$.
            Slope, curvature and ratio are the loss's own, along the whole of it.
        l2: adds so much of the parameters to the gradients that make the direction, as
            the gradient of a penalty would be; slope and ratio stay those of the loss.
        rule: how the length is chosen; see `Rule`.
        clip: called with the parameters once they have their `grad`, which it may
            change: `lambda params: torch.nn.utils.clip_grad_norm_(params, 1.0)`. The
            slope stays that of the raw gradient, at the price of a copy of it.
        **options: settings of the direction, which groups may override.

    Examples:
        >>> import torch
        >>> from adamqlr.torch import Gaussian, Objective, QLR
        >>> def sign(grads, params, states, group):
        ...     return [grad.sign() for grad in grads]
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(1, 1), torch.linspace(-1, 1, 8)[:, None]
        >>> optimizer = QLR(model.parameters(), sign)
        >>> for _ in range(40):
        ...     loss = optimizer.step(Objective(model, Gaussian(), x, 3 * x))
        >>> bool(loss < 0.1)
        True

    References:
        Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through
        a Second-Order Lens*, 2024, algorithm 2 and equations 2 and 3.
    """

    # Makes `GradScaler` call `step` directly, where it is refused with the cure.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Params,
        direction: Direction,
        *,
        curvature: Curvature = Probe(),  # noqa: B008 - immutable
        rule: Rule = Rule(),  # noqa: B008 - immutable
        lr: float = 1.0,
        weight_decay: float = 0.0,
        l2: float = 0.0,
        clip: Hook | None = None,
        **options: Any,
    ):
        check_pair(curvature, rule)
        self.direction, self.curvature, self.rule = direction, curvature, rule
        self.clip = clip
        self._info: StepInfo | None = None
        self._recorder: Recorder | None = None
        self._bundles: Bundles | None = None
        self._models: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._left: tuple[Tensor, int] | None = None
        self._pending: Pending | None = None
        self._due: bool | None = None  # Not known before the first step.
        own = {"lr": lr, "weight_decay": weight_decay, "l2": l2} | memory.begin(rule)
        super().__init__(params, own | options)  # type: ignore[arg-type]
        refuse_learning_rate(type(self).__name__, self.param_groups)

    def __getstate__(self) -> dict[str, Any]:
        """All but the watched model: a copy is to be told its own, by `watch`."""
        self._settle()
        names = ("direction", "curvature", "rule", "clip", "_info")
        return super().__getstate__() | {name: vars(self)[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin as a copy that has met no model; a checkpoint is loaded by it too."""
        if "_models" not in vars(self):
            self._recorder, self._bundles, self._left = None, None, None
            self._pending, self._models = None, weakref.WeakSet()
        self._due = None  # What is remembered now may say otherwise.
        super().__setstate__(state)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; what the method remembers is that of all groups."""
        if not isinstance(param_group["params"], Tensor):
            param_group = param_group | {"params": list(param_group["params"])}
        check_group(self.defaults | param_group)
        first = self.param_groups[0] if self.param_groups else self.defaults
        super().add_param_group(param_group | memory.taken_from(first))

    @property
    def info(self) -> StepInfo | None:
        """What the last step measured and did; reading it waits for the device."""
        self._settle()
        if self._info is None or isinstance(self._info.limit, Limit):
            return self._info
        info = StepInfo(*read(self._info))
        self._info = info._replace(
            limit=Limit(info.limit),
            rejected=bool(info.rejected),
            rejections=int(info.rejections),
        )
        return self._info

    @torch._disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds; on a GPU, once the last step is known to be made."""
        self._settle()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a checkpoint, also that of a `torch.optim.Adam` or `AdamW`.

        Of these the moments go on; what this optimiser has besides begins anew, and
        its own settings stay: a learning rate is none of them. What a checkpoint of an
        earlier version of this optimiser lacks begins anew too.
        """
        self._settle()
        theirs = state_dict["param_groups"]
        groups = memory.groups_of_another(self.param_groups, theirs)
        if groups is None:
            groups = memory.filled_in(self.rule, theirs)
        super().load_state_dict({**state_dict, "param_groups": groups})
        if self.direction in ELEMENTWISE:
            count_in_numbers(self.state.values())
        # The parent has cast these to the type of half-precision parameters.
        params = [param for group in self.param_groups for param in group["params"]]
        averaging.load(self.state, params, state_dict["state"])
        self._left = None  # The average is that of the checkpoint.

    def eval(self) -> None:
        """Put the average of the parameters in their place, to evaluate or to save it.

        `train()` takes it back; a step that takes the gradient itself does so too.
        Nothing happens where the rule has no average.
        """
        self._settle()
        if not averaging.is_in_place(self.state):
            warn_of_written_parameters(self._left)
        averaging.put_in_place(self.state)
        self._drop_gathered()

    def train(self) -> None:
        """Put the parameters that are trained back, if `eval()` was called."""
        if averaging.is_in_place(self.state):
            averaging.take_back(self.state)
            self._left = None if self._left is None else noted(self._left[0])
            self._drop_gathered()

    def _drop_gathered(self) -> None:
        recorded = None if self._recorder is None else self._recorder.model
        for model in {*self._models, recorded}:
            drop_gathered(model)

    @contextlib.contextmanager
    def averaged(self, batches: Iterable[Any] | None = None) -> Iterator[None]:
        """Evaluate inside of this: the parameters are their average there.

        Args:
            batches: for batch norm, whose statistics belong to the trained parameters:
                a data loader of the training set, or any iterable of the model's
                inputs (of a tuple or list the first are, a mapping is passed by name).
                By them statistics are measured for the average; afterwards those of
                the trained parameters are back. `None` lets these stay.
        """
        was_in_place = averaging.is_in_place(self.state)
        self.eval()
        try:
            with contextlib.ExitStack() as stack:
                if batches is not None:
                    watched = self._recorder and self._recorder.model
                    model = the_only_model(watched, list(self._models))
                    with self._unrecorded():
                        stack.enter_context(batch_norm.measured(bare(model), batches))
                yield
        finally:
            if not was_in_place:
                self.train()

    def watch(self, model: nn.Module, loss: Any, *, outputs: Pick = None) -> Self:
        """Let the loop stay as it is: `loss.backward()`, then `step()` by itself.

        Hooks on the model remember its forward passes, so that a step can repeat them,
        and what `backward()` brought to their outputs. The loop's loss may have any
        scale, be accumulated over several passes, and its gradients may be clipped to a
        norm; what matters is that it is the loss named here.

        Args:
            model: the module that the loop calls, or one that it calls inside.
            loss: the loss module of `torch.nn` that the loop calls, or for classes just
                the likelihood: `Categorical()` for all models that have tokens or
                classes on the last axis of their outputs.
            outputs: picks the outputs from what the model returns; see `Objective`.

        Returns:
            The optimiser itself.

        Examples:
            >>> import torch
            >>> from adamqlr.torch import AdamQLR
            >>> _ = torch.manual_seed(0)
            >>> model, criterion = torch.nn.Linear(1, 1), torch.nn.MSELoss()
            >>> x = torch.linspace(-1, 1, 8)[:, None]
            >>> optimizer = AdamQLR(model.parameters()).watch(model, criterion)
            >>> for _ in range(20):
            ...     optimizer.zero_grad()
            ...     loss = criterion(model(x), 3 * x)
            ...     loss.backward()
            ...     _ = optimizer.step()
            >>> bool(loss < 0.1)
            True
        """
        if self._recorder is not None:
            self._recorder.close()
        self._recorder = Recorder(model, loss, outputs, self._trained)
        return self

    @torch._disable_dynamo  # A compiled loop runs a step as it is, like torch's own.
    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Objective | Accumulated | Callable[[], Tensor] | None = None
    ) -> Tensor:
        """Make one step down the objective; returns its loss before the step.

        Args:
            closure: an `Objective`, or several `Accumulated`; with `rule=ANY_LOSS` and
                `LossProbe` or `Hessian` also any function that returns the loss with
                its graph. None is needed after `backward()` through a model that is
                watched; there it may be a function that does both, as that of other
                optimisers.
        """
        refuse_scaled_gradients(self)
        refuse_cached_parametrisations()
        refuse_peak_rate(type(self).__name__, self.param_groups)
        if closure is None and self._is_asked_for_states():
            return self._begin_states()
        point, taken = self._taken(closure)
        self._settle()  # Not before: by now a GPU has the gradient to take.
        with self._unrecorded():
            return self._stepped(point, taken)

    def _stepped(self, point: Point, taken: Taken | None) -> Tensor:
        """Make a step from where the gradient was taken.

        Args:
            point: where that was.
            taken: what is known of gradients that the loop has taken.
        """
        self._meet(point)
        params, remembered = point.params, memory.recall(self.param_groups, point.home)
        bundles = self._bundled(params)
        weights = bundles.joined(params)
        grads, stretch, doubts = groups.gradients(bundles), None, None
        if taken is not None:
            stretch, doubts = taken.compared(point, grads)
            multiply(grads, taken.factor)
        grads, updates = groups.updates(bundles, weights, grads, self.clip)
        # Clipping may have hidden what is not finite in the gradients themselves.
        made_of = [grads] if self.clip is None else [grads, updates]
        squares = point.whole(*[inner_product(part, part) for part in made_of])
        loss = scalar(point.loss, point.home)
        finite = functools.reduce(operator.and_, map(rules.is_finite, [loss, *squares]))
        finite &= point.tally.total != 0  # Padding alone teaches nothing.
        sound, due = self._asked(finite, remembered, doubts)
        point.restore_buffers(unless=sound)
        along, *products = self._course(
            bundles, weights, (grads, updates), sound=sound, spare=stretch is None
        )
        slope, square_norm = point.whole(*products)
        if self.direction not in ELEMENTWISE:  # These are finite if gradients are.
            sound = sound and bool(rules.is_finite(square_norm))
        if stretch is None:
            # Held no longer than needed, they do not add to what the look takes.
            del grads, updates
            self._drop_gradients()
        else:
            slope = slope * stretch
        looked, look = due and sound, Look(math.nan)
        direction = [] if looked is False else bundles.apart(along)
        batch = None if self.rule.budget is None else point.batch()
        if looked is not False:
            reach = method.reach(remembered, loss, slope, batch)
            look = self.curvature.look(point, direction, reach)
            look = _as_scalars(look, point.home)
        measured = measurement(
            look,
            loss=loss,
            slope=slope,
            square_norm=square_norm,
            looked=looked,
            sound=sound,
            epsilon=torch.finfo(scalar_dtype(params)).eps,
            batch=batch,
        )
        proposal = method.propose(self.rule, remembered, measured, bundles.rate)
        trial = _trial(self.rule, look, point, direction, proposal)
        judged = method.judge(self.rule, remembered, measured, proposal, trial)
        learnt, self._info = judged
        if sound is not False:
            self._move(bundles, weights, along, learnt, self._info)
            point.drop_gathered()
        self._remember(learnt, sound, doubts)
        return point.loss.to(params[0].device, scalar_dtype(params))

    def _move(
        self,
        bundles: Bundles,
        weights: list[Tensor],
        along: list[Tensor],
        learnt: Memory,
        info: StepInfo,
    ) -> None:
        """Move parameters and their average."""
        move(weights, along, info.step_size)
        bundles.write(weights, bundles.params)
        if self.rule.average is not None:
            weight = method.averaging_weight(self.rule.average, learnt, info)
            states = [bundle.state for bundle in bundles.members]
            averaging.update(states, weights, weight)
            averaging.update_others(self.state, bundles.params, weight)
            self._left = noted(bundles.params[0])
        bundles.publish()

    def _taken(
        self, closure: Objective | Accumulated | Callable[[], Tensor] | None
    ) -> tuple[Point, Taken | None]:
        """Where the gradient was taken, by the step itself or by a recorded loop."""
        recorder, trained = self._recorder, self._trained()
        refuse_nothing_to_train(type(self).__name__, trained)
        if recorder is None or is_objective(closure):
            refuse_step_inside_forward()
            self.train()
            self._drop_gradients()
            with self._unrecorded():
                return gradient(checked_closure(closure), trained), None
        if closure is not None:
            self.train()
            with torch.enable_grad():
                closure()  # type: ignore[operator]
        refuse_step_from_average(averaging.is_in_place(self.state))
        return recorder.point([p for p in trained if p.grad is not None])

    @torch._disable_dynamo
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, and what is recorded of how they came about."""
        super().zero_grad(set_to_none)
        if self._recorder is not None:
            self._recorder.forget()

    def _drop_gradients(self) -> None:
        """As `zero_grad` does, which would tell a profiler of itself in each step."""
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None
        if self._recorder is not None:
            self._recorder.forget()

    def _asked(
        self, finite: Truth, remembered: Memory, doubts: Doubts | None
    ) -> tuple[Truth, bool]:
        """Whether a step is made if all is finite, and whether it looks.

        The first is a tensor where the host lets the device go on. The second it then
        knows from the last step, or reads from what was loaded.
        """
        later = isinstance(finite, Tensor) and is_read_later(finite.device)
        if later and self.direction in ELEMENTWISE:
            if self._due is None:
                known = memory.recall(self.param_groups, torch.device("cpu"))
                self._due = bool(method.is_due(self.rule, known))
            sound = finite if doubts is None else finite & ~doubts.any()
            return sound, self._due
        answers = [finite, method.is_due(self.rule, remembered)]
        answers += [] if doubts is None else list(doubts)
        sound, due, *about = read(answers)
        if self._recorder is not None and about:
            self._recorder.refuse(Doubts(*about))
        return bool(sound), bool(due)

    def _remember(self, learnt: Memory, sound: Truth, doubts: Doubts | None) -> None:
        """Keep what a step taught, and what the host is to hear if it did not wait."""
        memory.keep(self.param_groups, learnt)
        if isinstance(sound, Tensor):
            assert self._bundles is not None, "the step was made with them"
            due, recorder = method.is_due(self.rule, learnt), self._recorder
            self._pending = Pending(sound, due, doubts, self._bundles, recorder)

    def _settle(self) -> None:
        """Hear of the last step, if the host did not wait for it; see `Pending`."""
        if self._pending is not None:
            pending, self._pending, self._due = self._pending, None, None
            self._due = pending.settled()

    def _unrecorded(self) -> contextlib.AbstractContextManager[None]:
        """The step's own calls of the model are not the loop's."""
        recorder = self._recorder
        return contextlib.nullcontext() if recorder is None else recorder.paused()

    def _trained(self) -> list[Tensor]:
        every = [param for group in self.param_groups for param in group["params"]]
        return [param for param in every if param.requires_grad]

    def _bundled(self, params: list[Tensor]) -> Bundles:
        """The parameters of a step; those of the last one if nothing has changed."""
        group_of = {p: group for group in self.param_groups for p in group["params"]}
        groups = [group_of[param] for param in params]
        # A batch that is not finite must leave no trace, so none is made here.
        states = [self.state.get(param, {}) for param in params]
        if self._bundles is None or not self._bundles.are_of(params, groups, states):
            join = self.direction in ELEMENTWISE
            self._bundles = Bundles(params, groups, states, join)
        return self._bundles

    def _meet(self, point: Point) -> None:
        """Refuse a model, when it is first seen, that a step would get wrong."""
        model, known = point.parts[0].model, self._bundles
        if model is None:
            refuse_other_shares(None, point.params, whole=False)
            if not self.state:
                point.refuse_unrepeatable()
            return
        new = model not in self._models
        if new or known is None or not known.hold(point.params):
            refuse_parameters_elsewhere(bare(model), point.params)
        if new:
            whole = self.direction not in ELEMENTWISE
            refuse_other_shares(bare(model), point.params, whole)
            trained = self._trained()
            refuse_unlike_processes(bare(model), trained, point.group, point.home)
            point.refuse_unrepeatable()
            self._models.add(model)

    def _is_asked_for_states(self) -> bool:
        """Whether this is how torch.distributed.checkpoint has a first step made."""
        if self.state or any(group["lr"] != 0 for group in self.param_groups):
            return False
        grads = [param.grad for param in self._trained() if param.grad is not None]
        return bool(grads) and not bool(norms(grads).any())

    def _begin_states(self) -> Tensor:
        """Have all the memory of a first step, for a checkpoint to be loaded into."""
        params = [param for param in self._trained() if param.grad is not None]
        bundles = self._bundled(params)
        weights = bundles.joined(params)
        grads = groups.gradients(bundles)
        gradients = groups.updates(bundles, weights, grads, self.clip)
        self._course(bundles, weights, gradients, sound=True, spare=False)
        if self.rule.average is not None:
            states = [bundle.state for bundle in bundles.members]
            averaging.update(states, weights, 0.0)
        bundles.publish()
        return torch.zeros(())

    def _course(
        self,
        bundles: Bundles,
        weights: list[Tensor],
        gradients: tuple[list[Tensor], list[Tensor]],
        *,
        sound: Truth,
        spare: bool,
    ) -> groups.Course:
        """Where to go; nowhere if something is not finite, which leaves no trace."""
        if sound is False:
            unknown = torch.full((), torch.nan, device=weights[0].device)
            return groups.Course(gradients[1], unknown, unknown)
        self.state.update(zip(bundles.params, bundles.states, strict=True))
        direction = remembering_if(sound, self.direction)
        course = groups.course(direction, bundles, weights, gradients, spare=spare)
        return course._replace(
            slope=where(sound, course.slope, torch.nan),
            square_norm=where(sound, course.square_norm, torch.nan),
        )


def _as_scalars(look: Look, device: torch.device) -> Look:
    """A look, of which somebody's own curvature may have left numbers in tensors."""
    known = lambda value: scalar(value, device)
    trial = None if look.trial is None else Trial(*map(known, look.trial))
    return Look(known(look.curvature), trial, known(look.farthest))


def _trial(
    rule: Rule, look: Look, point: Point, direction: list[Tensor], proposal: Proposal
) -> Trial | None:
    """The loss at a distance, as the look saw it, or else where the step would end."""
    seen = look.trial is not None and look.trial.change is not None
    if seen or not direction or rule.damping is None:
        return look.trial
    outputs = point.outputs_at(direction, proposal.step_size)
    (loss,) = point.means(point.loss_sums(outputs))
    return Trial(proposal.step_size, loss - scalar(point.loss, point.home))
