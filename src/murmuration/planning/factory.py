"""`murmuration.mechanism`: any mechanism by its name, in its own domain or in the answers' units.

Campaign files and commands make theirs by `planning.auto`: a law has no units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.graded.base import to_domain
from murmuration.mechanisms.units import REFUSE, InUnits, Units, parameters_of, unit_of
from murmuration.planning.auto import mechanism as law


@overload
def mechanism(
    name: str,
    epsilon: float | Sequence[float] | None = None,
    *,
    units: Units,
    outside: str = REFUSE,
    **parameters: Any,
) -> InUnits: ...


@overload
def mechanism(
    name: str, epsilon: float | Sequence[float] | None = None, **parameters: Any
) -> Mechanism: ...


def mechanism(
    name: str,
    epsilon: float | Sequence[float] | None = None,
    *,
    units: Units | None = None,
    outside: str | None = None,
    **parameters: Any,
) -> Mechanism | InUnits:
    """Return the mechanism of that name, or for "auto" the one that the planner recommends.

    With `k` that is for one of k items, without for a number; `people` (expected) may be given.

    With `units` it takes answers and gives estimates in these: (low, high) for a number, labels for
    items, and for several attributes one of these by name. What is `outside` a range is refused, or
    with "clamp" counted as the nearer end. `k`, `d` and `domains` follow from units, and edges of
    graded ranges are in them, too. The law is the same: `.mechanism` is the mechanism without.

    >>> mechanism("auto", epsilon=1.0)
    Optimal(epsilon=1.0, prior=None)
    >>> mechanism("auto", epsilon=1.0, k=100).name
    'subset'
    >>> mechanism("auto", epsilon=1.0, units=(18, 98))
    InUnits(Optimal(epsilon=1.0, prior=None), 18 to 98)
    >>> mechanism("sampled", epsilon=1.0, units={"age": (18, 98), "phone": ["ios", "other"]}).names
    ('age', 'phone')
    """
    if units is None:
        if outside is not None:
            raise ParameterError("outside is about values that are not in their units: give units")
        return law(name, epsilon, **parameters)
    if isinstance(units, Mapping) and name == "auto":
        raise ParameterError('"auto" is for one attribute; for several there is "sampled"')
    chosen = law(name, epsilon, **_in_domain(units, parameters))
    return InUnits.of(chosen, units, outside or REFUSE)


def _in_domain(units: Units, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mechanism's parameters: what follows from units, and edges in its domain."""
    parameters = dict(given) if "d" in given else {**parameters_of(units), **given}
    if "edges" in given and not isinstance(units, Mapping):
        parameters["edges"] = to_domain(given["edges"], *unit_of(units).ends)
    return parameters
