"""The exact audit: the law's loss in rational arithmetic, and the sampler held against the law.

The loss is a property of the integers of the law. It is worth something only if the sampler draws
by them, so the real device code is run: where the law is a table, on the words at which its answer
must change; elsewhere on many people with one answer, whose reports are counted and compared with
the law's probabilities (chi-square over all classes, or an exact binomial test of each). What was
done is in the verdict, and nothing passes that was not tried.

The tests draw from fixed seeds, so an audit always says the same. An honest sampler would fail one
in a million choices of the seeds.

The loss is that of the law under uniform words. A device's words follow from its key: what it sends
is as private as that against anybody who cannot tell HMAC-SHA-256 under that key from random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, chdtrc

from murmuration.errors import PromiseError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, ScriptedRng, SeededRng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.trial import ChanceTrial, WordTrial

FALSE_ALARM = 1e-6
"""How often an honest sampler would fail, over all choices of the seeds."""
RESTS_ON = "words that look random: a device's are HMAC-SHA-256 under its key"
"""What an exact loss takes for granted."""
FEWEST = 5.0
"""Classes that fewer reports than this are expected in are counted together."""


@dataclass(frozen=True)
class Test:
    """One statistical test of a sampler against its law."""

    mechanism: str
    what: str
    reports: int
    p_value: float


@dataclass(frozen=True)
class Audit:
    """The verdict on one mechanism."""

    loss: Loss
    promise_kept: bool
    words_tried: int
    disagreements: int
    """Words that made another report than the law says."""
    tests: tuple[Test, ...]

    @property
    def failed(self) -> list[Test]:
        """The tests whose outcome an honest sampler has less than once in a million times."""
        return [
            test
            for test in self.tests
            if not test.p_value * len(self.tests) >= FALSE_ALARM  # what is no number fails, too
        ]

    @property
    def tried(self) -> bool:
        """Whether the sampler was tried at all."""
        return self.words_tried > 0 or bool(self.tests)

    @property
    def sampler_agrees(self) -> bool:
        """Whether the sampler was tried and kept to the law."""
        return self.tried and not self.disagreements and not self.failed

    @property
    def passed(self) -> bool:
        """Whether the law keeps its epsilon and the sampler keeps to the law."""
        return self.promise_kept and self.sampler_agrees

    @property
    def how(self) -> str:
        """What was done, and what came of it, in words."""
        done = []
        if self.words_tried:
            wrong = f"on {self.disagreements:,} of" if self.disagreements else "on all of"
            verb = "DISAGREES with the law" if self.disagreements else "agrees with the law"
            done.append(f"{verb} {wrong} {self.words_tried:,} words tried")
        if self.tests:
            reports = sum(test.reports for test in self.tests)
            least = min(test.p_value for test in self.tests)
            verdict = f"FAILS {len(self.failed)}" if self.failed else "passes all"
            done.append(
                f"{verdict} of {len(self.tests)} statistical tests of {reports:,} reports against "
                f"the law (least p-value {least:.2g})"
            )
        return "; ".join(done) or "was not tried"


def audit(mechanism: Mechanism) -> Audit:
    """Compute the exact loss, and run the sampler on everything that its law can be tried on.

    >>> import murmuration
    >>> audit(murmuration.mechanism("duchi", epsilon=1.0)).passed
    True
    >>> audit(murmuration.mechanism("subset", epsilon=1.0, k=5)).how.split(" of ")[0]
    'passes all'
    """
    words = wrong = 0
    tests: list[Test] = []
    for trial in mechanism.trials():
        if isinstance(trial, WordTrial):
            words += len(trial.expected)
            wrong += _disagreements(trial)
        else:
            tests.append(_tested(trial, SeededRng(len(tests), bulk=trial.bulk)))
    return Audit(mechanism.loss(), mechanism.promise_kept, words, wrong, tuple(tests))


def _received(mechanism: Mechanism, values: Values, rng: Rng) -> Reports:
    """Return what arrives: through the device, the wire and back."""
    try:
        reports = mechanism.privatize(values, rng)
    except PromiseError:  # a device refuses the law; its sampler can be looked at all the same
        reports = mechanism.drawn(mechanism.domain.checked(values), rng)
    return mechanism.unpack(mechanism.pack(reports))


def _disagreements(trial: WordTrial) -> int:
    """Return how many of the words made another report than the law says."""
    rng = ScriptedRng(trial.words)
    if trial.run is None:
        received = _received(trial.of, trial.values, rng)
    else:
        received = trial.run(trial.values, rng)
    differs = received.astype(np.int64) != trial.expected
    return int(differs.reshape(len(differs), -1).any(axis=1).sum())


def _tested(trial: ChanceTrial, rng: Rng) -> Test:
    """Draw reports of one answer and compare how many are in each class with the law."""
    values = trial.of.domain.repeated(trial.answer, trial.people)
    reports = _received(trial.of, values, rng)
    if trial.among is not None:
        reports = trial.among(reports)
    compare = chi_square if trial.exclusive else binomial
    p_value = compare(trial.read(reports), trial.chances, len(reports))
    return Test(trial.of.name, trial.what, len(reports), p_value)


def chi_square(counts: Ints, chances: Floats, n: int) -> float:
    """Return the p-value of Pearson's test of n reports; 0 for what the law cannot produce.

    Classes that are rarely expected are put together until enough reports are expected in them.

    >>> chi_square(np.array([0, 50, 50]), np.array([0.0, 0.5, 0.5]), 100)
    1.0
    >>> chi_square(np.array([1, 49, 50]), np.array([0.0, 0.5, 0.5]), 100)
    0.0
    """
    if (counts[chances == 0] > 0).any() or counts.sum() != n:
        return 0.0
    order = [place for place in np.argsort(chances).tolist() if chances[place] > 0]
    seen, wanted = [0.0], [0.0]
    for place in order:
        if wanted[-1] >= FEWEST:
            seen.append(0.0)
            wanted.append(0.0)
        seen[-1] += float(counts[place])
        wanted[-1] += n * float(chances[place])
    if len(wanted) == 1:
        return 1.0
    statistic = sum((s - w) ** 2 / w for s, w in zip(seen, wanted, strict=True))
    return float(chdtrc(len(wanted) - 1, statistic))


def binomial(counts: Ints, chances: Floats, n: int) -> float:
    """Return the least p-value of exact two-sided tests, one per class, times their number.

    >>> binomial(np.array([50]), np.array([0.5]), 100)
    1.0
    >>> binomial(np.array([99]), np.array([0.5]), 100) < 1e-9
    True
    """
    below = bdtr(counts, n, chances)
    above = np.where(counts > 0, bdtrc(np.maximum(counts, 1) - 1, n, chances), 1.0)
    least = 2 * np.minimum(below, above).min() * len(counts)
    return float(min(1.0, least))
