"""Several heads of one network: whose likelihood and weight is whose. No framework."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adamqlr.settings import check_range

Name = str | int


class Head(NamedTuple):
    """One of them: its name, or its place among the others, weight and likelihood."""

    name: Name
    weight: float
    likelihood: Any


def heads_of(
    likelihoods: Mapping[str, Any] | Sequence[Any],
    weights: Mapping[str, float] | Sequence[float] | None,
) -> list[Head]:
    """All heads in order.

    Args:
        likelihoods: one for each head, by name or in order.
        weights: of their losses, likewise; `None` for ones.

    Raises:
        ValueError: there is no head, or the weights are not those of the heads.
    """
    given = _by_name(likelihoods)
    if not given:
        raise ValueError("likelihoods must hold one head at least, got none")
    own = dict.fromkeys(given, 1.0) if weights is None else _by_name(weights)
    if own.keys() != given.keys():
        raise ValueError(f"weights must be of the heads {list(given)}, got {list(own)}")
    for name, weight in own.items():
        check_range(f"weights[{name!r}]", weight, 0)
    return [Head(name, own[name], likelihood) for name, likelihood in given.items()]


def part_of(tree: Any, name: Name) -> Any:
    """A head's own outputs or targets, out of those of all heads."""
    if isinstance(tree, Mapping) and name in tree:
        return tree[name]
    if isinstance(tree, tuple | list) and isinstance(name, int) and name < len(tree):
        return tree[name]
    found = list(tree) if isinstance(tree, Mapping) else type(tree).__name__
    raise ValueError(
        f"outputs and targets must have an entry for head {name!r}, got {found}"
    )


def check_same_examples(shapes: Mapping[Name, Sequence[int]]) -> None:
    """Refuse heads that speak of different examples."""
    if len({tuple(shape) for shape in shapes.values()}) > 1:
        found = {name: tuple(shape) for name, shape in shapes.items()}
        raise ValueError(f"heads must all have the same examples, got {found}")


def _by_name(given: Mapping[str, Any] | Sequence[Any]) -> dict[Name, Any]:
    return dict(given.items() if isinstance(given, Mapping) else enumerate(given))
