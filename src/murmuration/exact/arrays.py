"""Names for the arrays that everything is made of."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
Rows = NDArray[np.uint8]
"""Packed reports, one row of bytes per person."""
Reports = NDArray[np.unsignedinteger]

_Array = TypeVar("_Array", bound=NDArray[np.generic])


def frozen(array: _Array) -> _Array:
    """Return the array, no longer writable: it is shared by everyone who uses the mechanism."""
    array.setflags(write=False)
    return array
