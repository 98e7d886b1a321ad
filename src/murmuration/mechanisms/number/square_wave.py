"""The square wave: reports that show a whole distribution."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from murmuration.exact.exponential import exp_below
from murmuration.mechanisms.base import Task
from murmuration.mechanisms.number.base import Design, NumericMechanism, window
from murmuration.mechanisms.number.piecewise import cells_for


@dataclass(frozen=True)
class SquareWave(NumericMechanism):
    """Answer within b of the value e^eps times as likely as anywhere else in [-b, 1+b].

    On [0, 1], b = (eps E - E + 1) / (2 E (E - 1 - eps)) with E = e^eps, which makes reports tell
    the most about their input. Read `distribution(tally)` for histogram, CDF and quantiles (EMS
    by default); `estimate(tally)` gives the unbiased mean from the same counts.

    epsilon: the budget of one report, 0.001 to 20

    >>> wave = SquareWave(epsilon=1.0)
    >>> wave.loss().holds, wave.answers.value
    (True, 'distribution')
    """

    name: ClassVar[str] = "square-wave"
    answers: ClassVar[Task] = Task.DISTRIBUTION
    paper: ClassVar[str] = "Li et al. 2020"
    summary: ClassVar[str] = "a plateau around the value, made for distributions"

    def build(self) -> Design:
        """Slide a plateau of 2b of the cells: the inputs' range has length 1."""
        cells = cells_for(self.epsilon)
        return window(cells, cells * 2 * half_width(self.epsilon), self.epsilon)


def half_width(epsilon: float) -> Fraction:
    """Return b as a fraction."""
    power, top = Fraction(epsilon), exp_below(epsilon)
    return (power * top - top + 1) / (2 * top * (top - 1 - power))
