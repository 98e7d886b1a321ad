"""Harmony: one attribute of the tuple, one bit about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from murmuration.contract import Mechanism
from murmuration.mechanisms.duchi import Duchi
from murmuration.mechanisms.hadamard import Hadamard
from murmuration.tuples import SampledTuple


@dataclass(frozen=True)
class Harmony(SampledTuple):
    """Pick one of d attributes; a number is answered by Duchi's bit, an item by a Hadamard bit.

    The attribute and the Hadamard row do not depend on the values: from a public coin they need
    not be sent, and one bit a person travels. n Var = d B^2 - x^2 for numbers.

    >>> round(Harmony(epsilon=1.0, d=10).worst_variance(), 2)
    46.83
    >>> Harmony(epsilon=1.0, domains=(0, 0, 12)).d
    3
    """

    name: ClassVar[str] = "harmony"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016)"
    summary: ClassVar[str] = "one bit about one attribute of the tuple"
    sample: ClassVar[int] = 1  # type: ignore[misc]

    @cached_property
    def inner(self) -> tuple[Mechanism, ...]:
        """Duchi for numbers, Hadamard for items, at the whole epsilon."""
        return tuple(
            Hadamard(epsilon=self.epsilon, k=k) if k else Duchi(epsilon=self.epsilon)
            for k in self.attributes
        )
