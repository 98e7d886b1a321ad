"""What an open dashboard is sent: the crowd's answer as it is now, again whenever it has changed.

`GET /v1/campaigns/{campaign}/live` answers with server-sent events:

    event: trail     once, at the start: how the running figures have come here (`Trails`)
    event: state     at once, and after each change, at most once a second (`Live`)
    : still here     a comment every 15 seconds, so that nobody in between closes the connection

Both are JSON on one line. Without `Accept: text/event-stream`, which a browser's EventSource says,
the answer is one state as JSON, and ends. Numbers are in the attribute's own units, shares between
0 and 1 (raw ones may lie outside). Two kinds of interval are there, and mean different things:

    low, high        right with probability `confidence` at one look: what `murmur estimate` prints
    running          a confidence sequence: right at all looks together, with that probability.
                     This is what a chart that goes on changing has to draw

An example, cut short:

    {"campaign": "commute", "version": 1, "digest": "9f...", "purpose": "How people ...",
     "open": true, "at": 1794976702, "confidence": 0.95, "epsilon": 2.0, "loss": 1.9999,
     "people": 65100, "reports": 65100, "people_expected": 200000, "cohort": 1000,
     "received": 65120, "outcomes": {"stored": 65100, "duplicate": 20}, "balanced": true,
     "merged_collectors": 0, "last_report": "2026-11-18T04:00Z",
     "pace": {"per_hour": 11718000.0, "seconds": 20.0},
     "attributes": [
      {"name": "age", "kind": "number", "unit": "years", "low": 18.0, "high": 98.0, "labels": 0,
       "answers": 21305, "needed": 1000, "hidden": false, "missing": false,
       "share_asked": 0.3256, "mechanisms": ["optimal"],
       "figures": [{"item": "mean", "value": 48.5, "stderr": 0.28, "low": 47.9, "high": 49.0,
                    "n": 21305, "unit": "years", "note": "", "processed": null,
                    "running": {"n": 65100, "value": 48.5, "low": 47.6, "high": 49.3},
                    "truth": 48.47}],
       "left_out": 0, "bins": [], "levels": [], "assumption": "", "steps": [], "note": "",
       "forecast": {"people": 200000, "stderr": 0.16, "half": 0.31, "planned": 0.18},
       "liars": {"share": 0.01, "shift": 0.9}}],
     "demo": true}
"""

from __future__ import annotations

import msgspec

from murmuration.analysis.figures import Period
from murmuration.analysis.running import Running
from murmuration.collector.training.model import Coefficient, ModelLiars, Point, Score
from murmuration.results.change import Change, Changed


class Shown(msgspec.Struct, frozen=True):
    """One number of an attribute: the mean, a label's share, or the share that answered."""

    item: str
    """The label; "mean"; "answered" (the share that answered), where answers may be missing."""
    value: float
    """Raw: unbiased, nothing cut off; a share may be below 0."""
    stderr: float | None
    low: float | None
    """The interval for one look; None where there is no honest one."""
    high: float | None
    n: int
    unit: str
    note: str
    processed: float | None
    """A share after the steps that the attribute names: between 0 and 1, all adding up to 1."""
    running: Running | None
    """The interval for all looks; None where there is none (`running_note` says why)."""
    truth: float | None = None
    """Only in the demo: what is really so."""
    liars: float | None = None
    """How far 1% of liars can have moved it; None: no bound."""


class Bin(msgspec.Struct, frozen=True):
    """A bin of a fitted distribution: a shape, without an interval."""

    low: float
    high: float
    share: float


class LevelState(msgspec.Struct, frozen=True):
    """A level that people choose: what it may cost, and how many answered at it."""

    name: str
    epsilon: float
    answers: int


class Forecast(msgspec.Struct, frozen=True):
    """The error when as many people have answered as are expected.

    Of a mean, or of one share (root mean square), in the attribute's units.
    """

    people: int
    stderr: float | None
    """If the rest answers like those so far; None while the attribute is hidden."""
    half: float | None
    """Half of the 95% interval then."""
    planned: float
    """The standard error that the plan allows for: the hardest crowd."""


class Liars(msgspec.Struct, frozen=True):
    """How far this share of all reports could move a figure, all lying one way."""

    share: float
    shift: float


class TrendPoint(msgspec.Struct, frozen=True):
    """One figure in one period."""

    period: str
    value: float
    low: float | None
    high: float | None
    n: int


class TrendLine(msgspec.Struct, frozen=True):
    """One figure over all periods that show it, the oldest first."""

    item: str
    points: list[TrendPoint]


class Card(msgspec.Struct, frozen=True):
    """One attribute, shown or hidden."""

    name: str
    kind: str
    """"number", "distribution" or "category"."""
    unit: str
    low: float | None
    """The attribute's scale; None for a category."""
    high: float | None
    labels: int
    """How many labels there are in all."""
    answers: int
    needed: int
    """Of fewer answers nothing is shown."""
    hidden: bool
    missing: bool
    """Whether answers may be missing: then the first figure is the share that answered."""
    share_asked: float
    """The part of the people who are asked this."""
    mechanisms: list[str]
    """By which laws people answer: one, or one per level."""
    figures: list[Shown]
    """Of many labels only the largest, with intervals that are right for all labels at once."""
    left_out: int
    """Labels that are not among the figures; the estimates have them all."""
    bins: list[Bin]
    bins_note: str
    """What is known of the distribution: how it was fitted."""
    levels: list[LevelState]
    assumption: str
    """How levels became one figure, and what that assumes; "" without levels."""
    steps: list[str]
    """The post-processing behind `processed`, in order; empty where there is none."""
    note: str
    running_note: str
    """Whom `running` is about; or why there is none."""
    forecast: Forecast
    liars: Liars | None
    trend: list[TrendLine] = []
    """Where a question comes back: its figures by period; of many labels the largest."""


class Pace(msgspec.Struct, frozen=True):
    """How fast reports arrive, over the last so many seconds: up to an hour."""

    per_hour: float
    seconds: float


class Asking(msgspec.Struct, frozen=True):
    """A question of a round, and how many have answered it."""

    question: str
    people: int


class RoundState(msgspec.Struct, frozen=True):
    """One round of a training."""

    number: int
    state: str
    """"open", "closed", or "aside": too few had answered when the campaign closed."""
    people: int
    size: int
    opened: int
    """Seconds since 1970."""
    deadline: int | None
    """From then on it closes with fewer people than its size."""
    asks: list[Asking]


class TrainingState(msgspec.Struct, frozen=True):
    """A training as it is now."""

    model: str
    """"linear", "logistic" or "svm"."""
    target: str
    rounds: list[RoundState]
    curve: list[Point]
    score: Score | None
    coefficients: list[Coefficient]
    """Of the model that training has ended with; empty until then."""
    ended: bool
    notes: list[str]
    liars: ModelLiars | None = None
    """How far 1% of liars have moved score and coefficients, at most."""


class Live(msgspec.Struct, frozen=True):
    """A campaign as it is now."""

    campaign: str
    version: int
    digest: str
    purpose: str
    open: bool
    """Whether reports are accepted now."""
    at: int
    """When this was computed: seconds since 1970."""
    confidence: float
    epsilon: float
    loss: float
    """What one report reveals at most, exactly."""
    people: int
    reports: int
    people_expected: int
    cohort: int
    received: int
    outcomes: dict[str, int]
    """What became of all that was received: stored, duplicate, and refused by reason."""
    balanced: bool
    merged_collectors: int
    last_report: str
    pace: Pace | None
    """None until there is something to go by."""
    attributes: list[Card]
    demo: bool = False
    """Whether truths are known, because the people are simulated."""
    warnings: list[str] = []
    """Reports that honest devices never send, if there are any; nothing was removed."""
    period: str = ""
    """Where a question comes back: the period that people and figures are about, the last shown."""
    periods: list[Period] = []
    changes: list[Change] = []
    """What has changed in that period since the one before."""
    changed: Changed | None = None
    """Whether anything has changed over all periods."""
    training: TrainingState | None = None
    """Of a campaign that trains a model: it has no attributes with figures."""


class Trail(msgspec.Struct, frozen=True):
    """How one running figure has come here, thinned: the oldest first."""

    attribute: str
    item: str
    looks: list[Running]


class Trails(msgspec.Struct, frozen=True):
    """The trails of means and of the shares of short lists, since this collector was started."""

    trails: list[Trail]


class SessionState(msgspec.Struct, frozen=True):
    """`GET /v1/session`: who is signed in."""

    name: str
    """The name of the token behind the session."""
    role: str
    """"analyst" or "admin"."""
    campaigns: list[str]
    """Those that the session may read, of those that are collected here."""
    expires: int
    """Seconds since 1970."""
