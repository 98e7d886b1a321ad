"""Tables that take a linear program to find: shipped, kept in a cache, or built now.

Wherever a table comes from, its integers are audited before anything is drawn from them.
"""

from __future__ import annotations

import io
import os
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from murmuration.errors import FormatError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import UnevenGrid
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE
from murmuration.files import write_file
from murmuration.mechanisms.number.base import Design

MARGIN = 3e-6
"""Tables are solved for epsilon minus this, so that rounding to integers cannot exceed it."""

Audit = Callable[[Design], Loss]
"""The exact loss of a design, against the promise that it has to keep."""
Build = Callable[[Callable[[float], None]], "Solution"]
"""Solve the program, reporting from 0 to 1 how far it is."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A finished table and the certified limit: no unbiased report has a smaller worst case."""

    design: Design
    limit: float

    def to_bytes(self) -> bytes:
        """Serialise as an .npz file of plain arrays."""
        buffer = io.BytesIO()
        arrays = {"weights": self.design.weights, "values": self.design.values}
        if self.design.uneven is not None:
            arrays["places"] = np.array(self.design.uneven.places, dtype=np.int64)
        np.savez_compressed(buffer, limit=np.float64(self.limit), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, audit: Audit, squares: bool = False) -> Solution:
        """Read a table and audit it: a file is not trusted, its integers are checked."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                places = tuple(arrays["places"].tolist()) if "places" in arrays else None
                uneven = None if places is None else UnevenGrid(places)
                design = Design(arrays["weights"], arrays["values"], uneven)
                solution = cls(design, float(arrays["limit"]))
            return solution.checked(audit, squares)
        except (
            *(OSError, EOFError, BadZipFile, zlib.error),
            *(AttributeError, KeyError, TypeError, ValueError),
        ) as problem:
            raise FormatError(f"not a valid table: {problem}") from None

    def checked(self, audit: Audit, squares: bool = False) -> Solution:
        """Return the table, or say that it leaks, is biased, or boasts.

        The limit is a number that came with the table: only that it is below the worst variance is
        checked, or where `squares` count below the largest second moment.
        """
        design = self.design
        if design.weights.dtype != np.int64 or not design.all_in_use:
            raise FormatError("its weights are not integers with every symbol in use")
        if not audit(design).holds:
            raise FormatError("its loss exceeds epsilon")
        if not design.unbiased:
            raise FormatError("it is biased")
        errors = design.second_moments - (0 if squares else design.grid.points**2)
        if not 0 < self.limit < errors.max():
            raise FormatError("its limit is not below its worst variance")
        return self


def stored(name: str, audit: Audit, build: Build, squares: bool = False) -> Solution:
    """Return the table of this name from the package, else from the cache, else built now.

    `squares`: whether its limit is that of second moments, and not of variances.
    """
    shipped = resources.files("murmuration.mechanisms") / "tables" / name
    if shipped.is_file():
        return Solution.from_bytes(shipped.read_bytes(), audit, squares)
    cached = cache_folder() / name
    try:
        return Solution.from_bytes(cached.read_bytes(), audit, squares)
    except (OSError, FormatError):  # absent, or damaged: build it again
        solution = _with_progress(name, build).checked(audit, squares)
        _keep(cached, solution.to_bytes())
        return solution


def cache_folder() -> Path:
    """Return where tables are kept that the package does not carry."""
    if named := os.environ.get("MURMUR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "murmuration"


def _keep(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; a read-only home is no reason to fail."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)
    except OSError:
        return


def _with_progress(name: str, build: Build) -> Solution:
    """Build a table with a progress bar on a terminal's standard error."""
    from rich.console import Console  # here: a device that is given its tables needs neither
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"building {name.removesuffix('.npz')}", total=1.0)
        return build(lambda done: bar.update(task, completed=done))


def integer_weights(channel: Floats) -> Ints:
    """Round probabilities to weights with row sums of 2^52; the largest column takes the rest."""
    weights = np.rint(channel * WHOLE).astype(np.int64)
    weights[:, int(channel.min(axis=0).argmax())] += WHOLE - weights.sum(axis=1)
    return weights
