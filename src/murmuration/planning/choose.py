"""Before a collection: which mechanism for which attribute, and what will come of it.

For one attribute everybody is asked. For several, each person is asked one of them, drawn at
random, independently of the answers, with all of epsilon: up to epsilon 3 or so that beats
splitting it (see `allocate`), and `advice` says when it does not.
When a share pi of the people is asked, the error about all people is

    n MSE = (noise + (1 - pi) spread) / pi:

the mechanism's noise, and that the people asked are themselves a sample. Spread is x^2 for a
number (people at x and -x alike) and 1 - 1/k for k items (a flat histogram): the worst case, as
nothing is known about the people yet. A planned error is not exceeded by more than chance.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.domain import MAX_ITEMS, Items, Number
from murmuration.mechanisms.registry import made, mechanism
from murmuration.mechanisms.tally import MAX_PEOPLE
from murmuration.planning import allocate
from murmuration.planning.candidates import ASKED_ONCE
from murmuration.planning.shuffle import central_epsilon
from murmuration.results.table import Columns, Table
from murmuration.statistics.liars import SHARE, checked_share, concentrated

MOST_BYTES = 4096
"""The largest report that is worth considering."""
MOST_WORK = 10**13
"""Steps for all reports together: some hours of one core."""
MOST_NUMBERS = 1 << 27
"""Numbers that the analyst can hold at once: a gigabyte."""
NEAR = 0.001
"""Errors this close count as equal; the smaller report wins."""
PEOPLE = 100_000
"""The crowd to choose for when none is given: only the largest mechanisms depend on it."""
SAMPLINGS = ("cost", "equal")


@dataclass(frozen=True)
class Attribute:
    """What is asked: a number in [-1, 1], or one of k items.

    >>> Attribute("age").items, Attribute("colour", k=5).items
    (1, 5)
    """

    name: str
    k: int | None = None
    missing: bool = False
    """Whether a number may be missing; among items, no answer is one of the k."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ParameterError(f"an attribute has a name; got {self.name!r}")
        if self.k is None:
            return
        whole = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool)
        if not whole or not 2 <= self.k <= MAX_ITEMS:
            raise ParameterError(
                f"{self.name}: k, the number of items, is 2 to {MAX_ITEMS:,}; got {self.k!r}"
            )

    @property
    def domain(self) -> Number | Items:
        """What a mechanism for it takes."""
        return Number() if self.k is None else Items(int(self.k))

    @property
    def items(self) -> int:
        """How many numbers are estimated."""
        return self.domain.figures


@dataclass(frozen=True)
class Choice:
    """A mechanism, why it was chosen, and n times its worst squared error (of all items)."""

    mechanism: Mechanism
    reason: str
    n_mse: float


@dataclass(frozen=True)
class Planned:
    """What one attribute's reports will cost and give."""

    attribute: Attribute
    choice: Choice
    share: float
    """How many of the people are asked."""
    people: int
    """The same as a number."""
    loss: float
    """The exact loss of the integers that the device samples with."""
    stderr: float
    """Of the mean in [-1, 1], or of one frequency (root mean square over the items)."""
    people_needed: int
    """Taking part in all, for the wanted standard error."""
    malicious_shift: float
    """How far the malicious people can move a mean or a frequency."""
    central_epsilon: float
    """What the people asked have together once their reports are shuffled, at delta."""

    def error(self, people: int) -> float:
        """Return the standard error if that many people take part."""
        return math.sqrt(self.choice.n_mse / (self.attribute.items * people))

    def data(self) -> dict[str, Any]:
        """Return the row as plain data."""
        chosen = self.choice.mechanism
        return {
            "name": self.attribute.name,
            "k": self.attribute.k,
            "mechanism": chosen.name,
            "parameters": chosen.parameters,
            "reason": self.choice.reason,
            "share": self.share,
            "people": self.people,
            "n_mse": self.choice.n_mse,
            "stderr": self.stderr,
            "people_needed": self.people_needed,
            "loss": self.loss,
            "bytes": chosen.report_bytes,
            "malicious_shift": self.malicious_shift,
            "central_epsilon": self.central_epsilon,
        }


@dataclass(frozen=True)
class Plan(Table):
    """A campaign: its rows, and what they were worked out for. It is a table, one row each."""

    epsilon: float
    people: int
    wanted: float
    delta: float
    malicious: float
    rows: tuple[Planned, ...]
    advice: str
    """Whether to split epsilon or to sample, where all attributes are categorical."""

    def columns(self) -> Columns:
        """Return attributes and mechanisms by name, and the numbers of each row."""
        numbers = [field.name for field in dataclasses.fields(Planned)][2:]
        return {
            "attribute": [row.attribute.name for row in self.rows],
            "mechanism": [row.choice.mechanism.name for row in self.rows],
            **{name: [getattr(row, name) for row in self.rows] for name in numbers},
        }

    def data(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "epsilon": self.epsilon,
            "people": self.people,
            "wanted": self.wanted,
            "delta": self.delta,
            "malicious": self.malicious,
            "advice": self.advice,
            "attributes": [row.data() for row in self.rows],
        }


# --- choosing ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Candidate:
    """A mechanism that could be used, its label, and noise + (1-share) spread."""

    mechanism: Mechanism
    label: str
    cost: float


LITTLE = 0.10
"""By how much standard errors may grow for `missing = true` to be written into a new file."""


def choose_numeric(
    epsilon: float, share: float = 1.0, people: int = PEOPLE, missing: bool = False
) -> Choice:
    """Return the mean mechanism of least worst-case error when a share of the people is asked.

    Where the number may be `missing`, it is chosen with the law for no answer around it.

    >>> choice = choose_numeric(1.0)
    >>> choice.mechanism.name, round(choice.n_mse, 2)
    ('optimal', 3.99)
    >>> choose_numeric(1.0, share=0.25).mechanism.name  # who is asked is a sample: another table
    'optimal-sampled'
    """
    number = Attribute("number", missing=missing)
    return _choose(number, epsilon, _checked_share(share), _checked_people(people))


def choose_frequency(epsilon: float, k: int, share: float = 1.0, people: int = PEOPLE) -> Choice:
    """Return the mechanism of least summed error over k items when a share is asked.

    >>> choose_frequency(1.0, 4).mechanism.name, choose_frequency(1.0, 1024).mechanism.name
    ('grr', 'subset')
    >>> choose_frequency(4.0, 1_000_000).mechanism.name
    'olh'
    """
    return _choose(Attribute("item", k), epsilon, _checked_share(share), _checked_people(people))


def cost_of_missing(epsilon: float, k: int | None, share: float, people: int) -> float:
    """Return by how much standard errors grow where answers may be missing: 0.07 is 7%.

    k: how many labels, no answer not among them; None for a number

    >>> round(cost_of_missing(1.0, None, 1.0, 100_000), 2)
    0.17
    """
    if k is None:
        errors = [choose_numeric(epsilon, share, people, none).n_mse for none in (False, True)]
    else:
        errors = [choose_frequency(epsilon, n, share, people).n_mse / n for n in (k, k + 1)]
    return math.sqrt(errors[1] / errors[0]) - 1


def _choose(attribute: Attribute, epsilon: float, share: float, people: int) -> Choice:
    best, reason = _best(attribute, epsilon, share, people)
    return Choice(best.mechanism, reason, best.cost / share)


def _best(
    attribute: Attribute, epsilon: float, share: float, people: int
) -> tuple[_Candidate, str]:
    """Return the candidate of least cost within the limits, and the reason."""
    asked = max(1, round(share * people))
    candidates = list(_candidates(attribute, checked_epsilon(epsilon), share, asked))
    fit = [candidate for candidate in candidates if not _obstacle(candidate.mechanism, asked)]
    least = min(fit, key=lambda candidate: candidate.cost)
    near = [candidate for candidate in fit if candidate.cost <= least.cost * (1 + NEAR)]
    best = min(near, key=lambda candidate: _preference(candidate, least.cost))
    return best, _reason(best, least, candidates, asked)


def _preference(candidate: _Candidate, least: float) -> tuple[int, float, int]:
    """Of errors that count as equal: the smaller report, the smaller error, the smaller table."""
    return (
        candidate.mechanism.report_bytes,
        round(candidate.cost / least, 6),
        candidate.mechanism.workspace,
    )


def _candidates(
    attribute: Attribute, epsilon: float, share: float, people: int
) -> Iterator[_Candidate]:
    """Yield every candidate that can be built for the attribute."""
    given = {"epsilon": epsilon, "people": people, **attribute.domain.parameters()}
    for listed in ASKED_ONCE[type(attribute.domain)]:
        if listed.sampled and not 0 < share < 1:
            continue
        try:
            law = made(listed.name, given, listed.settings)
        except ParameterError:  # no such k, no such epsilon: not for this campaign
            continue
        law = law.or_none() if attribute.missing else law
        yield _Candidate(law, listed.label, law.cost(share))


def _obstacle(law: Mechanism, people: int) -> str:
    """Say what makes a mechanism impractical for that many people; nothing if it is not."""
    if law.report_bytes > MOST_BYTES:
        return f"its reports take {law.report_bytes:,} bytes"
    if law.work * people > MOST_WORK:
        return f"the collector needs {law.work:,} steps per report"
    if law.workspace > MOST_NUMBERS:
        return f"reading it takes {law.workspace:,} numbers in memory"
    return ""


def _reason(best: _Candidate, least: _Candidate, all_of: list[_Candidate], people: int) -> str:
    """Say in words why this one: beside the next one, and beside a better one that is left out."""
    fit = [candidate for candidate in all_of if not _obstacle(candidate.mechanism, people)]
    if best.mechanism.report_bytes < least.mechanism.report_bytes:
        sizes = f"{best.mechanism.report_bytes:,} and not {least.mechanism.report_bytes:,} bytes"
        text = f"as good as {least.label} within {NEAR:.1%}, in {sizes} a report"
    else:
        text = f"least error of {len(fit)}" + _beside(
            best, [candidate for candidate in fit if candidate != best]
        )
    better = min(all_of, key=lambda candidate: candidate.cost)
    if better.cost < best.cost / (1 + NEAR):
        gain, why = 1 - better.cost / best.cost, _obstacle(better.mechanism, people)
        text += f"; {better.label} would have {gain:.1%} less, but {why}"
    return text


def _beside(best: _Candidate, others: list[_Candidate]) -> str:
    """Compare with the next best."""
    if not others:
        return ""
    after = min(others, key=lambda candidate: candidate.cost)
    gap = after.cost / best.cost - 1
    return f", {after.label} equal" if gap < NEAR else f"; next {after.label}, {gap:+.1%}"


# --- planning ----------------------------------------------------------------------------------


def plan(
    attributes: Sequence[Attribute],
    epsilon: float,
    people: int,
    *,
    wanted: float = 0.01,
    delta: float = 1e-6,
    malicious: float = SHARE,
    sampling: str = "cost",
) -> Plan:
    """Work a campaign out: one row for each attribute.

    `sampling` says how often each is asked: in proportion to the square root of its cost ("cost",
    the least summed error), or all alike ("equal").

    >>> found = plan([Attribute("age"), Attribute("colour", k=5)], epsilon=1.0, people=100_000)
    >>> [(row.choice.mechanism.name, round(row.stderr, 4)) for row in found.rows]
    [('optimal-sampled', 0.0107), ('grr', 0.0062)]
    """
    asked, total = _checked_attributes(attributes), checked_epsilon(epsilon)
    people, wanted = _checked_people(people), _checked_wanted(wanted)
    malicious = checked_share(malicious)
    shares = _shares(asked, total, people, sampling)
    empty = Plan(total, people, wanted, delta, malicious, (), _advice(asked, total))
    pairs = zip(asked, shares, strict=True)
    return dataclasses.replace(
        empty, rows=tuple(_row(empty, attribute, share) for attribute, share in pairs)
    )


def _shares(
    attributes: Sequence[Attribute], epsilon: float, people: int, sampling: str
) -> list[float]:
    """Return how often each attribute is asked; an only one is asked of everybody."""
    if sampling not in SAMPLINGS:
        names = " or ".join(SAMPLINGS)
        raise ParameterError(f"attributes are sampled by {names}; got {sampling!r}")
    if len(attributes) == 1 or sampling == "equal":
        return [1 / len(attributes)] * len(attributes)
    costs = [_best(attribute, epsilon, 0.0, people)[0].cost for attribute in attributes]
    return [float(share) for share in allocate.sampling(costs)]


def _row(campaign: Plan, attribute: Attribute, share: float) -> Planned:
    choice = _choose(attribute, campaign.epsilon, share, campaign.people)
    asked = max(1, math.floor(share * campaign.people))
    variance = choice.n_mse / attribute.items
    return Planned(
        attribute=attribute,
        choice=choice,
        share=share,
        people=asked,
        loss=choice.mechanism.loss().epsilon,
        stderr=math.sqrt(variance / campaign.people),
        people_needed=math.ceil(variance / campaign.wanted**2),
        malicious_shift=_shift(choice.mechanism, campaign.malicious, share),
        central_epsilon=central_epsilon(campaign.epsilon, asked, campaign.delta),
    )


def _shift(law: Mechanism, malicious: float, share: float) -> float:
    """Return how far liars can move it, who all answer this attribute."""
    reach = law.reach()
    if reach is None:
        raise ParameterError(f"{law.name} is neither for a number nor for an item")
    return reach.shift(concentrated(malicious, share))


def _advice(attributes: Sequence[Attribute], epsilon: float) -> str:
    """Split or sample, in words, where all attributes are of one kind."""
    sizes = [attribute.k for attribute in attributes if attribute.k is not None]
    if len(attributes) > 1 and not sizes:
        return _numeric_advice(len(attributes), epsilon)
    if len(sizes) < max(2, len(attributes)):
        return ""
    return str(allocate.advise(sizes, epsilon))


def _numeric_advice(d: int, epsilon: float) -> str:
    """Say whether answering about several numbers at once would be better than about one."""
    alone = choose_numeric(epsilon, 1 / d).n_mse
    together = mechanism("block", epsilon=epsilon, d=d)
    gain = alone / together.worst_variance()
    if gain < 1.02:
        return ""
    return f"all numbers in one report by block would have {gain:.3g} times less squared error"


def _checked_attributes(attributes: Sequence[Attribute]) -> list[Attribute]:
    asked = list(attributes)
    if not asked or not all(isinstance(attribute, Attribute) for attribute in asked):
        raise ParameterError("a plan needs at least one attribute: a number or k items")
    names = [attribute.name for attribute in asked]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ParameterError(f"attributes have different names; {', '.join(twice)} comes twice")
    return asked


def _checked_people(people: int) -> int:
    whole = isinstance(people, int | np.integer) and not isinstance(people, bool)
    if not whole or not 1 <= people <= MAX_PEOPLE:
        raise ParameterError(f"people are a whole number, 1 to {MAX_PEOPLE:,}; got {people!r}")
    return int(people)


def _checked_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ParameterError(f"the share of people asked is above 0 and at most 1; got {share!r}")
    return float(share)


def _checked_wanted(wanted: float) -> float:
    if not 1e-9 <= wanted < math.inf:
        raise ParameterError(f"the wanted standard error is above 0, such as 0.01; got {wanted!r}")
    return float(wanted)
