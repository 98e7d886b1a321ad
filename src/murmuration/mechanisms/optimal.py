"""The LP-optimal table: the least worst-case error that any unbiased report can have."""

from __future__ import annotations

import hashlib
import io
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import ClassVar
from zipfile import BadZipFile

import numpy as np
from rich.console import Console
from rich.progress import Progress

from murmuration import linear_program
from murmuration.contract import Task
from murmuration.errors import FormatError, ParameterError
from murmuration.law import WHOLE, Floats, Ints, table_loss
from murmuration.numeric import Design, NumericMechanism, unbiased

MARGIN = 3e-6
"""The table is solved for epsilon minus this, so that rounding to integers cannot exceed it."""

MAX_EPSILON = 10.0
"""Beyond this the linear program is too steep to be solved in floating point."""


@dataclass(frozen=True)
class Optimal(NumericMechanism):
    """Draw from the table that a linear program finds: worst-case error within 0.5% of the limit.

    (Up to epsilon 7; 1% at 8 and 4% at 10, where the grid shows.)

    minimise t  s.t.  L_y <= Q(y|x) <= e^eps L_y,  sum_y Q = 1,  sum_y a_y Q = x,
                      sum_y a_y^2 Q - x^2 <= t   for x on a grid.

    With a `prior` (shares of people in equal bins from -1 to 1) the average error over it is
    minimised instead; the privacy and the absence of bias do not rest on the prior being right.
    Tables for common epsilons are shipped; others take seconds to a minute and are kept in a
    cache folder (MURMUR_CACHE, else the user's). Every table is audited when it is read.

    >>> optimal = Optimal(epsilon=2.0)
    >>> round(optimal.worst_variance(), 3)
    0.866
    """

    name: ClassVar[str] = "optimal"
    answers: ClassVar[Task] = Task.MEAN
    paper: ClassVar[str] = "linear program over all unbiased tables (built for this project)"
    summary: ClassVar[str] = "the table of least worst-case error"

    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > MAX_EPSILON:
            raise ParameterError(
                f"optimal tables go up to epsilon {MAX_EPSILON:g}; beyond that use piecewise with "
                f"t=optimal; got {self.epsilon!r}"
            )
        if self.prior is not None:
            object.__setattr__(self, "prior", _checked_prior(self.prior))

    def build(self) -> Design:
        """Read the table, or build it."""
        return _solution(self.epsilon, self.prior).design


@dataclass(frozen=True, eq=False)
class Solution:
    """A finished table and the certified limit: no unbiased report has a smaller worst case."""

    design: Design
    limit: float

    def to_bytes(self) -> bytes:
        """Serialise as an .npz file of plain arrays."""
        buffer = io.BytesIO()
        arrays = {"weights": self.design.weights, "values": self.design.values}
        np.savez_compressed(buffer, limit=np.float64(self.limit), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, epsilon: float) -> Solution:
        """Read a table and audit it: a file is not trusted, its integers are checked."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                design = Design(arrays["weights"], arrays["values"])
                solution = cls(design, float(arrays["limit"]))
            solution._require_promise(epsilon)
        except (OSError, EOFError, KeyError, ValueError, BadZipFile, zlib.error) as problem:
            raise FormatError(f"not a valid table for epsilon {epsilon!r}: {problem}") from None
        return solution

    def _require_promise(self, epsilon: float) -> None:
        design = self.design
        if not table_loss(design.table, design.grid.points, epsilon).holds:
            raise FormatError("its loss exceeds epsilon")
        bias = design.table.probabilities @ design.values - design.grid.points
        if not np.abs(bias).max() < 1e-9:
            raise FormatError("it is biased")
        variances = design.second_moments - design.grid.points**2
        if not 0 < self.limit < variances.max():
            raise FormatError("its limit is not below its worst variance")


def limit(epsilon: float) -> float:
    """Return the certified limit: every unbiased epsilon-LDP report has a worst case above it.

    Not a number above epsilon 10, where none has been computed.

    >>> round(limit(1.0), 2)
    3.99
    """
    return _solution(float(epsilon), None).limit if epsilon <= MAX_EPSILON else math.nan


@lru_cache(maxsize=64)
def _solution(epsilon: float, prior: tuple[float, ...] | None) -> Solution:
    """Return the table from the package, else from the cache, else built now."""
    name = file_name(epsilon, prior)
    shipped = resources.files("murmuration") / "tables" / name
    if shipped.is_file():
        return Solution.from_bytes(shipped.read_bytes(), epsilon)
    cached = cache_folder() / name
    try:
        return Solution.from_bytes(cached.read_bytes(), epsilon)
    except (OSError, FormatError):  # absent, or damaged: build it again
        solution = _build_with_progress(epsilon, prior)
        _keep(cached, solution.to_bytes())
        return solution


def file_name(epsilon: float, prior: tuple[float, ...] | None) -> str:
    """Return the file name of a table: epsilon as it is written, and the prior's digest."""
    digest = "" if prior is None else "-" + hashlib.sha256(repr(prior).encode()).hexdigest()[:16]
    return f"optimal-{epsilon!r}{digest}.npz"


def cache_folder() -> Path:
    """Return where tables are kept that the package does not carry."""
    if named := os.environ.get("MURMUR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "murmuration"


def _keep(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; a read-only home is no reason to fail."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
            draft.write(data)
        Path(draft.name).replace(path)
    except OSError:
        return


def _build_with_progress(epsilon: float, prior: tuple[float, ...] | None) -> Solution:
    """Build a table with a progress bar on a terminal's standard error."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"optimal table for epsilon {epsilon:g}", total=1.0)
        return build(epsilon, prior, lambda done: bar.update(task, completed=done))


def build(
    epsilon: float,
    prior: tuple[float, ...] | None = None,
    progress: linear_program.Report | None = None,
) -> Solution:
    """Solve the program, round to integers, remove the bias that rounding leaves, and audit."""
    cells = linear_program.cells_for(epsilon)
    on_grid = None if prior is None else prior_on_grid(prior, cells)
    channel = linear_program.solve(epsilon, cells, on_grid, progress, min(MARGIN, epsilon / 1000))
    design = unbiased(integer_weights(channel.channel), channel.values)
    solution = Solution(design, channel.limit)
    solution._require_promise(epsilon)
    return solution


def integer_weights(channel: Floats) -> Ints:
    """Round probabilities to weights with row sums of 2^52; the largest column takes the rest."""
    weights = np.rint(channel * WHOLE).astype(np.int64)
    weights[:, int(channel.min(axis=0).argmax())] += WHOLE - weights.sum(axis=1)
    return weights


def prior_on_grid(prior: Sequence[float], cells: int) -> Floats:
    """Return the share of people that rounding sends to each grid point.

    >>> prior_on_grid((1.0,), 2).round(3).tolist()
    [0.25, 0.5, 0.25]
    """
    fine = 64 * cells * len(prior)
    places = (np.arange(fine) + 0.5) / fine * cells
    shares = np.repeat(np.asarray(prior, dtype=np.float64) / sum(prior), fine // len(prior))
    low = places.astype(np.int64)
    up = places - low
    size = cells + 1
    points = np.bincount(low, shares * (1 - up), size) + np.bincount(low + 1, shares * up, size)
    return np.asarray(points / points.sum())


def _checked_prior(prior: object) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in prior)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ParameterError("a prior is a list of shares of people in equal bins") from None
    if not shares or not all(math.isfinite(s) and s >= 0 for s in shares) or sum(shares) == 0:
        raise ParameterError(f"a prior's shares are 0 or more, not all 0; got {prior!r}")
    return shares
