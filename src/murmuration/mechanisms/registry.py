"""Mechanisms by name: every class with a `name` in the folders beside this file is one.

They are found by being there; there is no list to add one to.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

from murmuration import mechanisms
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Domain
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.vector.base import TupleMechanism

KINDS = ("graded", "item", "number", "vector")
"""The folders of mechanisms: what a mechanism takes."""


@cache
def list_mechanisms() -> MappingProxyType[str, type[Mechanism]]:
    """Return every mechanism's class by its name, sorted.

    >>> "duchi" in list_mechanisms()
    True
    """
    found: dict[str, type[Mechanism]] = {}
    for imported in _modules():
        for _, member in inspect.getmembers(imported, inspect.isclass):
            if issubclass(member, Mechanism) and "name" in vars(member):
                found[member.name] = member
    return MappingProxyType(dict(sorted(found.items())))


def _modules() -> Iterator[ModuleType]:
    """Import each module of a folder of mechanisms."""
    for kind in KINDS:
        folder = importlib.import_module(f"{mechanisms.__name__}.{kind}")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            yield importlib.import_module(module.name)


def mechanism(
    name: str, epsilon: float | Sequence[float] | None = None, **parameters: Any
) -> Mechanism:
    """Return the mechanism of that name with this epsilon and other parameters.

    >>> mechanism("duchi", epsilon=1.0)
    Duchi(epsilon=1.0)
    """
    try:
        chosen = list_mechanisms()[name]
    except (KeyError, TypeError):
        names = ", ".join(list_mechanisms())
        raise ParameterError(f"no mechanism is called {name!r}; there are {names}") from None
    if epsilon is not None:
        parameters["epsilon"] = epsilon
    try:
        inspect.signature(chosen).bind(**parameters)
    except TypeError as problem:
        accepted = ", ".join(inspect.signature(chosen).parameters)
        raise ParameterError(f"{name}: {problem}; its parameters are {accepted}") from None
    return chosen(**parameters)


def made(name: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> Mechanism:
    """Return a mechanism with these settings, and of what is given all that it has a field for.

    >>> made("grr", {"epsilon": 1.0, "k": 4, "people": 1000}, {})
    Grr(epsilon=1.0, k=4)
    """
    fields = {field.name for field in dataclasses.fields(list_mechanisms()[name])}
    known = {key: value for key, value in given.items() if key in fields}
    return mechanism(name, **{**known, **settings})


def to_document(chosen: Mechanism) -> dict[str, Any]:
    """Return a mechanism as JSON: name, parameters, and the integers that decide a report.

    >>> to_document(mechanism("grr", epsilon=1.0, k=2))["law"]
    {'truth': 3292395142304094, 'lie': 1211204485066402}
    """
    if list_mechanisms().get(chosen.name) is not type(chosen):
        raise ParameterError(f"{chosen} has no name in the registry")
    return chosen.document()


def from_document(document: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of a published document, with the table that is written there.

    >>> from_document(to_document(mechanism("duchi", epsilon=1.0)))
    Duchi(epsilon=1.0)
    """
    if not isinstance(document, Mapping) or set(document) != {"mechanism", "parameters", "law"}:
        raise FormatError("a published mechanism has mechanism, parameters, law and nothing else")
    return _read(document, lambda mechanism: mechanism.with_law(document["law"]))


def from_heading(heading: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of a name and parameters as JSON, with the law that they have here.

    >>> from_heading({"mechanism": "duchi", "parameters": {"epsilon": 1.0}})
    Duchi(epsilon=1.0)
    """
    return _read(heading, lambda mechanism: mechanism.with_law(mechanism.law()))


def _read(heading: Mapping[str, Any], planted: Callable[[Mechanism], Mechanism]) -> Mechanism:
    """Make what a heading names, and its law; anyone may have written it."""
    try:
        parameters = {name: tuples(value) for name, value in heading["parameters"].items()}
        return planted(mechanism(heading["mechanism"], **parameters))
    except MurmurationError:
        raise
    except (AttributeError, TypeError, ValueError, ArithmeticError, RecursionError) as problem:
        raise FormatError(f"a published mechanism cannot be made: {problem}") from None


def tuples(value: Any) -> Any:
    """Return lists as tuples, as parameters are; JSON knows lists only."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def mechanisms_for(
    takes: type[Domain], *, kept: bool = False, memoised: bool = False
) -> dict[str, type[Mechanism]]:
    """Return the mechanisms that take a kind of domain, by name.

    `kept`: only those that keep their promise. Those for a question that is asked again are left
    out, or are the only ones; those that devices never send are left out.

    >>> from murmuration.mechanisms.domain import Number
    >>> names = mechanisms_for(Number, kept=True)
    >>> "duchi" in names, "grr" in names, "dct" in names
    (True, False, False)
    """
    return {
        name: kind
        for name, kind in list_mechanisms().items()
        if kind.takes is takes and kind.memoised == memoised and kind.sent
        if kind.keeps_promise or not kept
    }


def numeric_mechanism(name: str, **parameters: Any) -> NumericMechanism:
    """Return the numeric mechanism of that name, or say that it is not one.

    >>> numeric_mechanism("duchi", epsilon=1.0).answers.value
    'mean'
    """
    chosen = mechanism(name, **parameters)
    if not isinstance(chosen, NumericMechanism):
        raise ParameterError(f"{name} does not take a number")
    return chosen


def graded_mechanism(name: str, **parameters: Any) -> GradedMechanism:
    """Return the graded mechanism of that name, or say that it is not one."""
    chosen = mechanism(name, **parameters)
    if not isinstance(chosen, GradedMechanism):
        raise ParameterError(f"{name} has no budgets for ranges")
    return chosen


def vector_mechanism(name: str, **parameters: Any) -> TupleMechanism:
    """Return the mechanism for several attributes of that name, or say that it is not one."""
    chosen = mechanism(name, **parameters)
    if not isinstance(chosen, TupleMechanism):
        raise ParameterError(f"{name} does not take several attributes")
    return chosen
