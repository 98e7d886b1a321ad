"""A whole study: campaigns x epsilon x mechanisms x repetitions, as one tidy table.

    people = 20000             # in campaigns without data
    repetitions = 50
    seed = 1
    epsilon = [0.5, 1, 2]
    mechanism = ["auto", "optimal+subset"]   # each for the attributes that it takes

    [[campaigns]]
    file = "campaign.toml"     # its own epsilon and mechanisms are set aside
    data = "people.parquet"    # its rows are the people; left out: people are made up

Where answers may be missing, the truth is that of those who answered, and a tenth of the people who
are made up have none. Rows of data with an answer that does not fit are left out: nobody knows what
would have been true of them.

A contest of the engine (`lab.engine`) is a campaign at one epsilon by one choice of mechanisms. A
finished cell is a file, and is not run again.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import compress, product
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.analysis.read import figures
from murmuration.campaign.question import ANSWERED, FITS, SPREAD, Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.load import CampaignFile, opened
from murmuration.definition.schema import CampaignTable
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Bits
from murmuration.exact.randomness import Rng, seeded_rng
from murmuration.files import ANYBODY, write_file
from murmuration.lab.compare import crowd
from murmuration.lab.engine import Cell, Engine, Name
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.results.figure import Figure
from murmuration.wire.parquet import arrow

AUTO = "auto"
CLAMPED, UNKNOWN, NONE = (FITS.index(name) for name in ("clamped", "unknown", "missing"))
MIN_PEOPLE = 2
Answers = Mapping[str, Any]
Reader = Callable[[Path, SurveyCampaign], Answers]
PEOPLE = 10_000
"""People who are made up, unless the study says how many."""
SILENT = 10
"""One of so many people who are made up has no answer, where that may be."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    data: str = ""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    campaigns: list[_Entry]
    epsilon: list[float]
    mechanism: list[str] = msgspec.field(default_factory=lambda: [AUTO])
    repetitions: int = 20
    people: int | None = None
    seed: int = 1
    confidence: float = 0.95


@dataclass(frozen=True)
class Row:
    """One figure of one collection, beside the truth and the theory."""

    campaign: str
    epsilon: float
    mechanism: str
    repetition: int
    attribute: str
    item: str
    laws: str
    """The mechanism that answered the attribute."""
    people: int
    answers: int
    truth: float
    estimate: float
    stderr: float
    low: float
    high: float
    covered: bool
    squared_error: float
    predicted: float
    """The squared error that the theory expects; nan where it has no simple form."""


@dataclass(frozen=True)
class Collected:
    """A contest: a campaign, at one epsilon and by one choice of mechanisms, and its people."""

    name: tuple[str, float, str]
    campaign: SurveyCampaign
    columns: tuple[NDArray[np.generic], ...]
    confidence: float

    def collect(self, rng: Rng, repetition: int) -> list[Row]:
        """Collect once: devices, tally, estimate; return a row for each figure."""
        tallies = self.campaign.tally(self.campaign.privatize(self.columns, rng))
        shown = figures(self.campaign, tallies, confidence=self.confidence, cohort=1)
        truths = _truths(self.campaign.questions, self.columns)
        return [
            _row(self, repetition, figure, truths[figure.attribute, figure.item])
            for figure in shown
            if (figure.attribute, figure.item) in truths and figure.stderr is not None
        ]

    @cached_property
    def whom(self) -> str:
        """A digest of the people."""
        return hashlib.sha256(b"".join(column.tobytes() for column in self.columns)).hexdigest()


@dataclass(frozen=True)
class Study:
    """The contests of a study file, and how often each is run."""

    contests: Mapping[Name, Collected]
    repetitions: int
    seed: int
    confidence: float

    @cached_property
    def engine(self) -> Engine[list[Row]]:
        """What runs them."""
        return Engine(self.contests, self.repetitions, self.seed)

    @property
    def cells(self) -> list[Cell]:
        """All collections."""
        return self.engine.cells

    def key(self, cell: Cell) -> str:
        """Return a name for what a cell depends on: a changed study runs it again."""
        contest = self.contests[cell.name]
        named = dict(zip(NAMED, (*cell.name, cell.repetition), strict=True))
        parts = [contest.campaign.digest, contest.whom, self.seed, self.confidence, named]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


NAMED = ("campaign", "epsilon", "mechanism", "repetition")
"""What a cell is called by, in this order."""


# --- reading a study -----------------------------------------------------------------------------


def read(path: Path, reader: Reader) -> Study:
    """Return the study of a file; `reader` reads columns of data files."""
    try:
        table = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Table)
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise ParameterError(f"{path} is not a study: {problem}") from None
    if not (table.campaigns and table.epsilon and table.mechanism) or table.repetitions < 1:
        raise ParameterError(f"{path}: a study has campaigns, epsilon, mechanism and repetitions")
    made_up = PEOPLE if table.people is None else table.people
    if table.people is not None and all(entry.data for entry in table.campaigns):
        raise ParameterError(
            f"{path}: people is for campaigns without data. Each campaign here has data, and its "
            "rows are the people: leave people out"
        )
    if made_up < MIN_PEOPLE or not 0 < table.confidence < 1:
        raise ParameterError(f"{path}: people are 2 or more, and confidence is between 0 and 1")
    contests: dict[Name, Collected] = {}
    people: dict[str, tuple[NDArray[np.generic], ...]] = {}
    for entry in table.campaigns:
        file = opened(path.parent / entry.file)
        file.require(SurveyCampaign)
        if file.name in people:
            raise ParameterError(f"{path}: two campaigns are called {file.name}")
        made = {
            (file.name, float(epsilon), mechanism): _with(file, epsilon, mechanism)
            for epsilon, mechanism in product(table.epsilon, table.mechanism)
        }
        for campaign in made.values():
            _check(campaign)
        data = path.parent / entry.data if entry.data else None
        people[file.name] = columns = _people(campaign, data, reader, made_up, table.seed)
        for name, campaign in made.items():
            contests[name] = Collected(name, campaign, columns, table.confidence)
    return Study(contests, table.repetitions, table.seed, table.confidence)


def _with(file: CampaignFile, epsilon: float, mechanism: str) -> SurveyCampaign:
    """Return a file's campaign at another epsilon, by other mechanisms."""
    names = mechanism.split("+")
    known = list_mechanisms()
    if unknown := [name for name in names if name != AUTO and name not in known]:
        raise ParameterError(f"no mechanism is called {', '.join(unknown)}")
    chosen, asked = [], cast(CampaignTable, file.table)
    for row in asked.attributes:
        kind = "category" if row.kind == "category" else "number"
        fit = [name for name in names if name != AUTO and _takes(known[name], kind)]
        law = fit[0] if fit and row.kind in ("category", "number") else AUTO
        chosen.append(msgspec.structs.replace(row, mechanism=law, parameters={}, epsilon=None))
    table = msgspec.structs.replace(asked, epsilon=float(epsilon), attributes=chosen)
    return replace(file, table=table).of_kind(SurveyCampaign)


def _takes(kind: Any, wanted: str) -> bool:
    return {"Number": "number", "Items": "category"}.get(kind.takes.__name__) == wanted


def _check(campaign: SurveyCampaign) -> None:
    if campaign.levels is not None or campaign.repeated:
        raise ParameterError(f"{campaign.name}: a study asks each question once, without levels")


def _people(
    campaign: SurveyCampaign, data: Path | None, reader: Reader, n: int, seed: int
) -> tuple[NDArray[np.generic], ...]:
    """Return encoded columns: of a file, or of people who are made up."""
    if data is None:
        made = {
            question: _made_up(question, n, seed + place)
            for place, question in enumerate(campaign.questions)
            if not question.of
        }
        named = {question.name: column for question, column in made.items()}
        for table, sides in campaign.tables.items():
            made[table] = sides.cells(*(named[name] for name in table.of))
        return tuple(made[question] for question in campaign.questions)
    answers = reader(data, campaign)
    kept = np.logical_and.reduce(
        [_fitting(question, answers[question.name]) for question in campaign.given]
    )
    if kept.sum() < MIN_PEOPLE:
        raise ParameterError(f"{data}: fewer than {MIN_PEOPLE} rows have answers that fit")
    fitting = {name: list(compress(values, kept.tolist())) for name, values in answers.items()}
    return tuple(campaign.encode(fitting, seeded_rng(seed)))


def _fitting(question: Question, values: Any) -> Bits:
    """Say which values have one true answer; no answer is one where it may be missing."""
    fits = question.fits(values)
    drawn = question.outside == SPREAD or not (
        question.missing or question.outside in question.labels
    )
    fine: Bits = fits <= CLAMPED
    if not drawn:
        fine |= fits == UNKNOWN
    if question.missing:
        fine |= fits == NONE
    return fine


def _made_up(question: Question, n: int, seed: int) -> NDArray[np.generic]:
    """Numbers around a third above the middle; labels that are ever rarer."""
    silent = np.random.default_rng([seed, SILENT]).random(n) < (question.missing / SILENT)
    if question.k is None:
        return np.where(silent, math.nan, crowd("gaussian", n, seed))
    k = len(question.labels)
    shares = 1 / np.arange(1, k + 1)
    labels = np.random.default_rng(seed).choice(k, n, p=shares / shares.sum())
    return np.where(silent, k, labels)


# --- truth and theory ----------------------------------------------------------------------------


def _truths(
    questions: Sequence[Question], columns: Sequence[NDArray[np.generic]]
) -> dict[tuple[str, str], float]:
    truths = {}
    for question, column in zip(questions, columns, strict=True):
        answered = _answered(question, column)
        if question.missing:
            truths[question.name, ANSWERED] = float(answered.mean())
        told = column[answered].astype(np.float64)
        if not len(told):
            continue
        if question.k is None:
            low, high = question.range
            truths[question.name, "mean"] = low + (float(np.mean(told)) + 1) / 2 * (high - low)
        else:
            counts = np.bincount(told.astype(np.int64), minlength=len(question.labels))
            truths |= {
                (question.name, label): float(share)
                for label, share in zip(question.labels, counts / len(told), strict=True)
            }
    return truths


def _answered(question: Question, column: NDArray[np.generic]) -> Bits:
    """Say who has an answer."""
    if question.k is None:
        return ~np.isnan(column.astype(np.float64))
    return column.astype(np.int64) < len(question.labels)


def _predicted(
    campaign: SurveyCampaign, columns: Sequence[NDArray[np.generic]], figure: Figure, truth: float
) -> float:
    """Return the theory's squared error: noise, and that those asked are some of all."""
    place = [question.name for question in campaign.questions].index(figure.attribute)
    if campaign.strategy.gathers or not figure.n or campaign.questions[place].missing:
        return math.nan
    (law,), question = campaign.laws_of(place), campaign.questions[place]
    silent = 1 - figure.n / len(columns[place])
    if question.k is not None:
        spread = truth * (1 - truth)
        return float((law.variance(np.array([truth]))[0] + silent * spread) / figure.n)
    values, (low, high) = columns[place].astype(np.float64), question.range
    noise = float(law.variance(values).mean() + silent * values.var())
    return noise / figure.n * ((high - low) / 2) ** 2


def _row(contest: Collected, repetition: int, figure: Figure, truth: float) -> Row:
    campaign, columns = contest.campaign, contest.columns
    place = [question.name for question in campaign.questions].index(figure.attribute)
    low = -math.inf if figure.low is None else figure.low
    high = math.inf if figure.high is None else figure.high
    name, epsilon, mechanism = contest.name
    return Row(
        campaign=name,
        epsilon=epsilon,
        mechanism=mechanism,
        repetition=repetition,
        attribute=figure.attribute,
        item=figure.item,
        laws=campaign.laws_of(place)[0].name,
        people=len(columns[0]),
        answers=figure.n,
        truth=truth,
        estimate=figure.value,
        stderr=math.nan if figure.stderr is None else figure.stderr,
        low=low,
        high=high,
        covered=low <= truth <= high,
        squared_error=(figure.value - truth) ** 2,
        predicted=_predicted(campaign, columns, figure, truth),
    )


# --- running, and what is there already ----------------------------------------------------------


def run(
    study: Study, folder: Path, advance: Callable[[int], None], session: Any = None
) -> tuple[int, int]:
    """Run the cells that are not there yet; return how many were run, and how many were there.

    Each cell is written when it is finished, so a study that is interrupted goes on from there.
    """
    cells = folder / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in study.cells if not (cells / f"{study.key(cell)}.json").exists()]
    known = len(study.cells) - len(left)
    advance(known)
    for cell, rows in study.engine.outcomes(left, session):
        text = json.dumps([asdict(row) for row in rows])
        write_file(cells / f"{study.key(cell)}.json", text, ANYBODY)
        advance(1)
    return len(left), known


def results(study: Study, folder: Path) -> Any:
    """Return all rows as an Arrow table: campaign by campaign, in the order of the study."""
    rows: list[Mapping[str, Any]] = []
    for cell in sorted(study.cells):
        path = folder / "cells" / f"{study.key(cell)}.json"
        try:
            rows += json.loads(path.read_bytes())
        except (OSError, ValueError) as problem:
            raise ParameterError(f"{path} cannot be read: {problem}; delete it") from None
    names = [field.name for field in fields(Row)]
    return arrow().table({name: [row[name] for row in rows] for name in names})


@dataclass(frozen=True)
class Line:
    """A campaign's attribute at one epsilon by one choice, over all repetitions and items."""

    campaign: str
    attribute: str
    epsilon: float
    mechanism: str
    laws: str
    rmse: float
    predicted: float
    covered: float
    figures: int


def summary(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Return one line per attribute, epsilon and mechanism."""
    groups: dict[tuple[str, str, float, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (row["campaign"], row["attribute"], row["epsilon"], row["mechanism"], row["laws"])
        groups.setdefault(key, []).append(row)
    return [_line(*key, own) for key, own in sorted(groups.items(), key=lambda group: group[0])]


def _line(
    campaign: str,
    attribute: str,
    epsilon: float,
    mechanism: str,
    laws: str,
    rows: Sequence[Mapping[str, Any]],
) -> Line:
    def mean(name: str) -> float:
        return float(np.mean([row[name] for row in rows]))

    return Line(
        campaign,
        attribute,
        epsilon,
        mechanism,
        laws,
        rmse=math.sqrt(mean("squared_error")),
        predicted=math.sqrt(mean("predicted")),
        covered=mean("covered"),
        figures=len(rows),
    )
