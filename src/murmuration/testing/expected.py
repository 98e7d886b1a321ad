"""How a check says that something is not as it must be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from murmuration.errors import ContractError
from murmuration.exact.keyed import Key
from murmuration.mechanisms.base import Mechanism

STANDARD_ERRORS = 4.5
"""A bound that 1 of 150,000 fair runs would cross; seeds are fixed anyway."""
SECRET = Key(bytes(range(32)))
"""The key of simulated devices."""


def expect(holds: bool, message: str) -> None:
    """Raise `ContractError` with this message unless it holds."""
    if not holds:
        raise ContractError(message)


@contextmanager
def refused(kind: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[None]:
    """Expect that what is run inside is refused by an error of this kind."""
    names = [one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,))]
    wanted = f"{what} must be refused with {' or '.join(names)}"
    try:
        yield
    except kind:
        return
    except Exception as problem:
        raise ContractError(f"{wanted}; got {type(problem).__name__}: {problem}") from problem
    raise ContractError(f"{wanted}; it was taken")


def crowd(mechanism: Mechanism, n: int, seed: int = 5) -> Any:
    """Return values of n people that a mechanism can be asked about."""
    return mechanism.domain.crowd(n, np.random.default_rng(seed))


def accepted(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism as it is allowed to send, though it may break its promise."""
    return mechanism.accepting_its_loss() if mechanism.broken else mechanism
