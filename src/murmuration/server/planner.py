"""The planner as JSON: what `murmur plan` works out, and the campaign file that it comes to.

Nothing here is about a person: what is asked is the question, not an answer. So refusals repeat it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from murmuration.definition import load
from murmuration.definition.write import Draft, written
from murmuration.errors import MurmurationError
from murmuration.planning.choose import Attribute, plan
from murmuration.server.problems import Problem

MOST_ATTRIBUTES = 100
MOST_LABELS = 10_000
"""Of one attribute, in the file; beyond that only a number of labels can be given."""
Text = Annotated[str, msgspec.Meta(max_length=1000)]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attribute: a number with its range, or a category by its labels or by their number."""

    name: Text
    low: float | None = None
    high: float | None = None
    unit: Text = ""
    labels: Annotated[list[Text], msgspec.Meta(max_length=MOST_LABELS)] = []
    k: int | None = None
    missing: bool = False

    @property
    def items(self) -> int | None:
        """How many labels; None for a number."""
        return len(self.labels) or self.k

    @property
    def half(self) -> float:
        """What 1 is on the attribute's own scale; a share is a share."""
        if self.items is not None or self.low is None or self.high is None:
            return 1.0
        return (self.high - self.low) / 2

    def asked(self) -> Attribute:
        """Return it as the planner has it; no answer is one more item."""
        k = self.items
        return Attribute(self.name, None if k is None else k + self.missing, self.missing)

    def draft(self) -> Draft:
        """Return it as a campaign file has it; labels that are not named yet have numbers."""
        if self.items is None:
            low, high = self.low, self.high
            ends = (-1.0, 1.0) if low is None or high is None else (float(low), float(high))
            return Draft(self.name, *ends, self.unit, missing=int(self.missing))
        labels = self.labels or [f"label {place + 1}" for place in range(self.items)]
        return Draft(self.name, labels=tuple(labels), missing=int(self.missing))


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be planned."""

    epsilon: float
    people: int
    attributes: Annotated[list[Wanted], msgspec.Meta(min_length=1, max_length=MOST_ATTRIBUTES)]
    wanted: float = 0.01
    sampling: str = "cost"
    name: Text = "my-campaign"
    purpose: Text = "Say here, in plain words, what the answers are for."


class PlannedAttribute(msgspec.Struct, frozen=True):
    """What one attribute's reports will cost and give; errors also in its own units."""

    name: str
    k: int | None
    mechanism: str
    parameters: dict[str, Any]
    reason: str
    share: float
    people: int
    n_mse: float
    stderr: float
    people_needed: int
    loss: float
    bytes: int
    malicious_shift: float
    central_epsilon: float
    unit: str = ""
    stderr_in_units: float = 0.0
    malicious_shift_in_units: float = 0.0


class Planning(msgspec.Struct, frozen=True):
    """A plan, and the file that collects by it."""

    epsilon: float
    people: int
    wanted: float
    delta: float
    malicious: float
    advice: str
    attributes: list[PlannedAttribute]
    file: str = ""
    """The campaign file, as text; "" where no file can be written (`file_problem` says why)."""
    file_problem: str = ""


def planned(data: bytes) -> Planning:
    """Work out a plan from JSON; say what is wrong with what cannot be planned."""
    try:
        asked = msgspec.json.decode(data, type=Question)
        made = plan(
            [wanted.asked() for wanted in asked.attributes],
            asked.epsilon,
            asked.people,
            wanted=asked.wanted,
            sampling=asked.sampling,
        ).data()
    except msgspec.DecodeError as problem:
        raise Problem("bad-plan", str(problem)) from None
    except MurmurationError as problem:
        raise Problem("bad-plan", str(problem)) from None
    rows = [
        _row(row, wanted) for row, wanted in zip(made["attributes"], asked.attributes, strict=True)
    ]
    text, problem_text = _file(asked)
    return Planning(**{**made, "attributes": rows}, file=text, file_problem=problem_text)


def _row(row: dict[str, Any], wanted: Wanted) -> PlannedAttribute:
    unit = "share" if wanted.items is not None else wanted.unit
    return PlannedAttribute(
        **row,
        unit=unit,
        stderr_in_units=row["stderr"] * wanted.half,
        malicious_shift_in_units=row["malicious_shift"] * wanted.half,
    )


def _file(asked: Question) -> tuple[str, str]:
    """Return the campaign file, and why there is none if it cannot be read back."""
    if sum(wanted.items or 0 for wanted in asked.attributes) > MOST_LABELS:
        return "", f"a file lists all labels: up to {MOST_LABELS:,}"
    text = written(
        *(asked.name, asked.purpose, asked.epsilon, asked.people),
        [wanted.draft() for wanted in asked.attributes],
    )
    try:
        load.read(text)
    except MurmurationError as problem:
        return "", str(problem)
    return text, ""
