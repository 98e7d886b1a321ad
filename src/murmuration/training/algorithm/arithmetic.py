"""What a device works out, to the bit: the same numbers in Python and in a browser.

Reports follow from keyed words and from a value; two programs make the same report only if they
get the same value. So there is + - * / and the square root, which IEEE 754 rounds in one way, in
an order that is written down: sums go from the first feature to the last, one person like another.
No dot product of a library (each adds in its own order), no fused multiply-add, no exponential.

People are columns here: an array has a row for each feature, and is added up row by row.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from murmuration.exact.arrays import Floats

STEPS, MOST, ONE = 16, 256, 1 << 30
"""The logistic function is a table of its values at 0, 1/16, ..., 16, in units of 2^-30."""
HAIR = 1 + 1e-9
"""A vector is made shorter than its limit by so much: rounding cannot leave the ball."""


def added(rows: Floats) -> Floats:
    """Return the sum of the rows, from the first to the last.

    >>> added(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def lengths(rows: Floats) -> Floats:
    """Return the length of each person's vector.

    >>> lengths(np.array([[3.0], [4.0]])).tolist()
    [5.0]
    """
    return np.sqrt(added(rows * rows))


def shortened(rows: Floats, most: float) -> Floats:
    """Return vectors that are no longer than `most`: divided by max(length / most, 1)."""
    return np.asarray(rows / np.maximum(lengths(rows) / most, 1.0))


@cache
def logistic_table() -> tuple[int, ...]:
    """Return 1/(1 + e^-z) at 0, 1/16, ..., 16, rounded to 2^-30; published with each campaign.

    >>> table = logistic_table()
    >>> len(table), table[0] / ONE, round(table[16] / ONE, 6)
    (257, 0.5, 0.731059)
    """
    with localcontext() as context:
        context.prec = 40
        places = (Decimal(place) / STEPS for place in range(MOST + 1))
        return tuple(int((ONE / (1 + (-z).exp())).to_integral_value()) for z in places)


@cache
def _logistic_values() -> Floats:
    return np.array([*logistic_table(), logistic_table()[-1]], dtype=np.float64)


def logistic(scores: Floats) -> Floats:
    """Return about 1/(1 + e^-s): the table, and a line between its entries (off by 5e-5 at most).

    With t = 16 |s|, not above 256, i its whole part and v = T[i] + (t - i)(T[i+1] - T[i]):
    v / 2^30 where s >= 0, else 1 - v / 2^30.

    >>> logistic(np.array([0.0, 1.0, -1.0, 1e300])).round(6).tolist()
    [0.5, 0.731059, 0.268941, 1.0]
    """
    table = _logistic_values()
    places = np.minimum(np.abs(scores) * STEPS, float(MOST))
    first = np.floor(places)
    index = first.astype(np.int64)
    found = (table[index] + (places - first) * (table[index + 1] - table[index])) / ONE
    return np.asarray(np.where(scores >= 0, found, 1 - found))
