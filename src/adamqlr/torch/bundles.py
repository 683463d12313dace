"""Many small tensors as few long ones, so that a step makes few calls.

A step does the same arithmetic to each number of the parameters. Where tensors hold
few, calls cost more than arithmetic, so those of one group and type are joined.
What is remembered of a parameter stays its own, in its own shape, as checkpoints want
it: a view of what is remembered of all that are joined.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from adamqlr.torch.scalars import SMALL
from adamqlr.torch.sharding import is_sharded, local, share_like

# Directions are made of so many numbers at once: what that takes in between is small.
AT_ONCE = 2**20

# On a CPU a tensor is passed over in pieces of so many numbers for each thread: what
# one operation leaves in the cache the next one finds there.
PIECE = 2**17

Group = dict[str, Any]
State = dict[str, Any]


class Bundle:
    """Parameters of one group that a step treats as one long tensor.

    Attributes:
        group: their settings.
        places: where they stand among all parameters of the step.
        params: themselves.
        state: what is remembered of them, joined.
    """

    def __init__(
        self,
        group: Group,
        places: list[int],
        params: list[Tensor],
        states: list[State],
    ):
        self.group, self.places, self.params = group, places, params
        self._states = states
        self._views: dict[str, list[Tensor]] = {}
        # Alone and whole, a parameter's memory is used as it is.
        self._alone = len(params) == 1 and not is_sharded(params[0])
        self.state = states[0] if self._alone else dict(states[0])
        if not self._alone:
            for name, value in self.state.items():
                if isinstance(value, Tensor):
                    self.state[name] = self.joined([state[name] for state in states])
            self.publish()

    def joined(self, tensors: list[Tensor]) -> Tensor:
        """Tensors like the parameters as one; their own memory if it is only one."""
        alone = len(tensors) == 1
        return local(tensors[0]) if alone else _flatten_dense_tensors(tensors)

    def apart(self, joined: Tensor) -> list[Tensor]:
        """Views of a joined tensor, in the shapes of the parameters' own numbers."""
        if len(self.params) == 1:
            return [joined]
        return _unflatten_dense_tensors(joined, self.params)

    def publish(self) -> None:
        """Show what is remembered in each parameter's own state."""
        if self._alone:
            return
        for name, value in self.state.items():
            if not isinstance(value, Tensor):
                for state in self._states:
                    state[name] = value
            elif name not in self._views:
                pairs = zip(self.apart(value), self.params, strict=True)
                self._views[name] = [share_like(view, param) for view, param in pairs]
                for state, view in zip(self._states, self._views[name], strict=True):
                    state[name] = view

    def pieces(self, *tensors: Tensor) -> list[tuple[State, list[Tensor]]]:
        """Views of a long tensor, and of others like it, with their part of the state.

        All of it is one piece as long as nothing is remembered of it.
        """
        known = {
            n: value for n, value in self.state.items() if isinstance(value, Tensor)
        }
        every, size = [*tensors, *known.values()], PIECE * torch.get_num_threads()
        if (
            not known
            or tensors[0].device.type != "cpu"
            or tensors[0].numel() <= size
            or not all(tensor.is_contiguous() for tensor in every)
        ):
            return [(self.state, list(tensors))]
        split = zip(*[tensor.view(-1).split(size) for tensor in every], strict=True)
        found = []
        for own in split:
            views = zip(known, own[len(tensors) :], strict=True)
            found.append((self.state | dict(views), list(own[: len(tensors)])))
        return found

    def count_like(self, state: State) -> None:
        """Take over what the state of a piece has besides tensors, such as its step."""
        numbers = {n: x for n, x in state.items() if not isinstance(x, Tensor)}
        self.state.update(numbers)

    def is_current(self, states: list[State]) -> bool:
        """Whether nobody has put other tensors into the parameters' states."""
        if not all(a is b for a, b in zip(states, self._states, strict=True)):
            return False
        return self._alone or all(
            len(state) == len(self.state)
            and all(state[name] is views[i] for name, views in self._views.items())
            for i, state in enumerate(states)
        )


class Bundles:
    """All parameters of a step, in bundles.

    Args:
        params: of the step.
        groups: the group of each.
        states: what is remembered of each.
        join: whether small ones may be joined: what makes their direction must do the
            same to each number, whatever the shape of its tensor.

    Attributes:
        members: the bundles, those of one group next to each other.
        by_group: each group, and which of them are its.
        elementwise: whether small ones may be joined, and long ones be cut.
    """

    def __init__(
        self,
        params: list[Tensor],
        groups: list[Group],
        states: list[State],
        join: bool,
    ):
        self.params, self.states, self._groups = params, states, groups
        self.elementwise = join
        alike: dict[Any, list[int]] = defaultdict(list)
        for place, (param, group, state) in enumerate(
            zip(params, groups, states, strict=True)
        ):
            key: Any = place
            # Shares at an offset in what they are views of could not be saved.
            if join and not is_sharded(param) and param.numel() <= SMALL:
                known = tuple(
                    (name, None if isinstance(value, Tensor) else value)
                    for name, value in sorted(state.items())
                )
                key = id(group), param.dtype, param.device, known
            alike[key].append(place)
        self.members = [
            Bundle(
                groups[places[0]],
                places,
                [params[place] for place in places],
                [states[place] for place in places],
            )
            for places in alike.values()
        ]
        self.by_group: list[tuple[Group, slice]] = []
        numbers = 0
        for number, bundle in enumerate(self.members):
            start, own = number, sum(param.numel() for param in bundle.params)
            same = bool(self.by_group) and self.by_group[-1][0] is bundle.group
            if same and not (join and numbers + own > AT_ONCE):
                start, numbers = self.by_group.pop()[1].start, numbers + own
            else:
                numbers = own
            self.by_group.append((bundle.group, slice(start, number + 1)))

    @property
    def rate(self) -> float:
        """The largest `lr`, by which a step is multiplied; other groups go less far."""
        return max(float(group["lr"]) for group, _ in self.by_group)

    def are_of(
        self, params: list[Tensor], groups: list[Group], states: list[State]
    ) -> bool:
        """Whether they are of these parameters, and still hold their states."""
        return (
            self.hold(params)
            and _same(groups, self._groups)
            and all(b.is_current([states[i] for i in b.places]) for b in self.members)
        )

    def hold(self, params: list[Tensor]) -> bool:
        """Whether they are of these parameters."""
        return _same(params, self.params)

    def joined(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors like the parameters as one for each bundle."""
        return [b.joined([tensors[i] for i in b.places]) for b in self.members]

    def pieces(
        self, *lists: list[Tensor]
    ) -> Iterator[tuple[Group, list[State], list[list[Tensor]]]]:
        """What is worked on at once: a group, states, and the tensors of each list.

        Args:
            lists: of one tensor for each bundle.
        """
        for group, own in self.by_group:
            members, tensors = self.members[own], [each[own] for each in lists]
            if len(members) > 1 or not self.elementwise:
                yield group, [bundle.state for bundle in members], tensors
                continue
            state: State = members[0].state
            for state, parts in members[0].pieces(*[each[0] for each in tensors]):
                yield group, [state], [[part] for part in parts]
            members[0].count_like(state)

    def apart(self, joined: list[Tensor]) -> list[Tensor]:
        """Of one tensor for each bundle, each parameter's part."""
        parts: list[Any] = [None] * len(self.params)
        for bundle, tensor in zip(self.members, joined, strict=True):
            for place, part in zip(bundle.places, bundle.apart(tensor), strict=True):
                parts[place] = part
        return parts

    def write(self, joined: list[Tensor], tensors: list[Tensor]) -> None:
        """Give tensors like the parameters what one for each bundle holds.

        Args:
            joined: what `joined` made of the tensors, changed since.
            tensors: to be written to.
        """
        for bundle, tensor in zip(self.members, joined, strict=True):
            if len(bundle.params) > 1:  # One alone has it already.
                own = [tensors[place] for place in bundle.places]
                torch._foreach_copy_(own, bundle.apart(tensor))

    def publish(self) -> None:
        """Show what is remembered in each parameter's own state."""
        for bundle in self.members:
            bundle.publish()


def _same(these: list[Any], those: list[Any]) -> bool:
    return len(these) == len(those) and all(map(operator.is_, these, those))
