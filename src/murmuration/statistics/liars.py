"""How far made-up reports can move an estimate: at most, and whatever the others answered.

An estimate is a mean of what single reports are read as. A lie is read as anything from `low` to
`high`; an honest report on average as something from `least` to `most`. So each lie moves the sum
by at most

    up = high - least,   down = most - low,

and m lies among n reports move the mean by at most m/n of that: from what it would be if each liar
counted with the true answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from murmuration.errors import ParameterError

SHARE = 0.01
"""The share of liars that is looked at unless another is asked for."""


@dataclass(frozen=True)
class Reach:
    """What one report may be read as, and an honest one on average, over all answers.

    >>> duchi = Reach(low=-2.0, high=2.0)
    >>> duchi.influence, duchi.most_moved, round(duchi.shift(0.01), 3)
    (2.0, 3.0, 0.03)
    """

    low: float
    high: float
    least: float = -1.0
    most: float = 1.0

    @property
    def influence(self) -> float:
        """W: the most that a report adds to the sum, either way."""
        return max(abs(self.low), abs(self.high))

    @property
    def up(self) -> float:
        """How far a lie can raise the sum, if the true answer is the least."""
        return self.high - self.least

    @property
    def down(self) -> float:
        """How far a lie can lower it, if the true answer is the most."""
        return self.most - self.low

    @property
    def most_moved(self) -> float:
        """The larger of the two."""
        return max(self.up, self.down)

    def shift(self, share: float) -> float:
        """Return how far a share of lies among the reports can move their mean, at most."""
        return share * self.most_moved


@dataclass(frozen=True)
class Piece:
    """One of several means whose weighted sum is a figure.

    reach: what one of its reports may be read as
    weight: how much the mean counts
    n: its reports
    """

    reach: Reach
    weight: float
    n: int

    @property
    def pull(self) -> float:
        """How much one report counts in the sum."""
        return self.weight / self.n


def moved_sum(pieces: Sequence[Piece], lies: float) -> float:
    """Return how far so many lies can move a weighted sum of means, at most.

    >>> moved_sum([Piece(Reach(-2.0, 2.0), 0.5, 100), Piece(Reach(-2.0, 2.0), 0.5, 300)], 10)
    0.15
    """
    return max(
        _filled([(piece.pull * piece.reach.up, piece.n) for piece in pieces], lies),
        _filled([(piece.pull * piece.reach.down, piece.n) for piece in pieces], lies),
    )


def moved(reaches: Sequence[tuple[Reach, int]], lies: float) -> float:
    """Return how far so many lies can move the mean of all reports, at most.

    Each reach comes with how many reports have it (one for each level): liars choose the level at
    which a lie moves most, and there are no more lies at a level than reports.

    >>> moved([(Reach(-2.0, 2.0), 900), (Reach(-5.0, 5.0), 100)], 10)
    0.06
    """
    n = sum(count for _, count in reaches)
    return max(
        _filled([(reach.up, count) for reach, count in reaches], lies),
        _filled([(reach.down, count) for reach, count in reaches], lies),
    ) / max(n, 1)


def _filled(moves: Sequence[tuple[float, int]], lies: float) -> float:
    """Return the most that so many lies add up to: the ones that move most first."""
    total, left = 0.0, lies
    for move, count in sorted(moves, reverse=True):
        took = min(left, count)
        total, left = total + took * move, left - took
    return total


def waited(pulls: Sequence[tuple[float, int]], lies: float) -> float:
    """Return how far so many lies move a sum over rounds, at most.

    Each round has (far, people): m lies in it move the sum by far m / people. Liars wait for the
    rounds in which a lie moves most.

    >>> waited([(4.0, 100), (6.0, 300)], 150)
    5.0
    """
    return _filled([(far / people, people) for far, people in pulls if people], lies)


def concentrated(share: float, asked: float) -> float:
    """Return what share of an attribute's reports lies can be, if `asked` of the people answer it.

    Which attribute a report is about is drawn on the device: liars draw the one that they are
    after, every time. s / (s + (1-s) asked).

    >>> round(concentrated(0.01, 1.0), 4), round(concentrated(0.01, 0.25), 4)
    (0.01, 0.0388)
    """
    return share / (share + (1 - share) * asked)


def checked_share(share: float) -> float:
    """Return a share of liars, or say what one is."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ParameterError(
            f"the share of liars is between 0 and 1, such as {SHARE}; got {share!r}"
        )
    return float(share)
