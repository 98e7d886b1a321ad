"""OP of the MPLDP paper: an estimator that needs the true histogram. For experiments only.

Its weights are fitted to the truth, so no collector can run it: anyone who knows the truth need not
ask. It is built as published to be compared with (`lab.levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from murmuration.analysis.combine import Combination, LevelReadings
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import About, FrequencyEstimate

ORACLE = "oracle: weights fitted to the true histogram, which no collector has"


@dataclass(frozen=True, eq=False)
class Oracle(Combination):
    """A combination that has seen the truth."""

    errors: tuple[float, ...] = ()
    """The largest error of an item: at first, then after each step."""


PROOF, THEOREM, ALGORITHM = "proof", "theorem", "algorithm"
STEPS = (PROOF, THEOREM, ALGORITHM)
"""Where the step comes from: the proof of Theorem 3, the theorem or Algorithm 3 as printed."""


def perturbed(
    tallies: Sequence[Tally], truth: ArrayLike, iterations: int = 10, step: str = PROOF
) -> Oracle:
    """Return OP of the MPLDP paper (Theorem 3): an ORACLE, for experiments only.

    Its weights are the least-squares fit of the levels' estimates F (a row each) to the TRUE
    histogram h, W = h F^T (F F^T)^-1. No collector can run it: who knows h need not ask. Then
    it perturbs: of the item i with the largest error d_i, the target h_i is moved by delta,
    which moves the estimate of item j by delta G_ij, G = F^T (F F^T)^-1 F. Any

        |delta| <= (d_i - d_j)/|G_ij| for all other j,   |delta| <= d_i/G_ii

    leaves no error larger than d_i; the largest such delta is taken. This is what the proof of
    the theorem shows (`step="proof"`). As printed, the theorem divides by |G_jj| ("theorem"): then
    the largest error rises in one run of ten. The printed Algorithm 3 ("algorithm") does so, too,
    and measures errors against the moved target: they grow without end.

    The weights need not add up to 1. A fit to the truth has no standard error: it is infinite
    here, so that no interval is ever read off it. `errors` holds the largest error, step by step.

    >>> from murmuration import mechanism, seeded_rng
    >>> levels = [mechanism("grr", epsilon=epsilon, k=4) for epsilon in (1.0, 2.0)]
    >>> crowd, rng = np.arange(800) % 4, seeded_rng(1)
    >>> found = perturbed([m.tally(m.privatize(crowd, rng)) for m in levels], [1, 1, 1, 1])
    >>> found.errors[-1] <= found.errors[0], found.note
    (True, 'oracle: weights fitted to the true histogram, which no collector has')
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
        raise ParameterError(f"iterations must be a whole number, 0 or more; got {iterations!r}")
    if step not in STEPS:
        raise ParameterError(f"step is {', '.join(STEPS)}; got {step!r}")
    levels = LevelReadings.of(tallies)
    target = _checked_truth(truth, levels)
    weights, errors = _perturb(levels.values, target, iterations, step)
    value = weights @ levels.values
    n, epsilon = int(levels.people.sum()), levels.epsilon
    never = np.full(len(value), np.inf)
    estimate = FrequencyEstimate(value, never, n, epsilon, About.PARTICIPANTS, note=ORACLE)
    return Oracle(
        estimate, levels.for_all(weights), levels.p_value, note=ORACLE, errors=tuple(errors)
    )


def _checked_truth(truth: ArrayLike, levels: LevelReadings) -> Floats:
    """Return the true histogram as shares, or say what is wrong with it."""
    if not levels.items:
        raise ParameterError("perturbed fits histograms: it has no meaning for a number")
    counts = np.asarray(truth)
    counts = counts.astype(np.float64) if counts.dtype.kind in "fiu" else np.zeros(0)
    fits = counts.shape == (levels.items,) and np.isfinite(counts).all()
    if not fits or counts.min() < 0 or counts.sum() <= 0:
        raise ParameterError(f"truth is the true histogram: {levels.items} counts, not all 0")
    return np.asarray(counts / counts.sum())


def _perturb(
    readings: Floats, truth: Floats, iterations: int, step: str
) -> tuple[Floats, list[float]]:
    """Fit weights to the truth, then move the target of the worst item, step by step."""
    fit = np.linalg.pinv(readings)
    moved = fit @ readings  # G: how far a step in one item's target moves each item's estimate
    target = truth.copy()
    errors = [float(np.abs(truth - target @ moved).max())]
    for _ in range(iterations):
        off = (target if step == ALGORITHM else truth) - target @ moved
        worst = int(np.abs(off).argmax())
        reach = moved[worst] if step == PROOF else np.diag(moved)
        target[worst] += np.sign(off[worst]) * _largest_step(np.abs(off), worst, reach)
        errors.append(float(np.abs(truth - target @ moved).max()))
    return target @ fit, errors


def _largest_step(off: Floats, worst: int, moved: Floats) -> float:
    """Return the largest step that the bounds allow; 0 where the levels cannot move the item."""
    room = off[worst] - off
    room[worst] = off[worst]
    reach = np.abs(moved)
    if reach[worst] < 1e-12:
        return 0.0
    return float((room[reach > 1e-12] / reach[reach > 1e-12]).min())
