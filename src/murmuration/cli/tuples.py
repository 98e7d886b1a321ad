"""`murmur tuples`: many attributes of one person, by every mechanism that takes them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import Progress, TaskID

from murmuration import tour as protocol
from murmuration.cli.options import Epsilon, Json, Mechanisms, PeopleSeed
from murmuration.cli.output import console, emit_json, errors, explain, progress_bar, table_of
from murmuration.errors import MurmurationError, ParameterError
from murmuration.exact.randomness import SystemRng
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.domain import Ball, Box
from murmuration.mechanisms.registry import mechanism, mechanisms_for
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import TupleEstimate

Columns = list[NDArray[np.generic]]
STEP = 50_000
"""People between two steps of the progress bar."""


@dataclass(frozen=True)
class Outcome:
    """How far one mechanism's estimates were from the truth, over all attributes."""

    mechanism: str
    epsilon: float
    loss: float
    bytes: int
    numeric_rms: float
    numeric_worst: float
    categorical_rms: float
    categorical_worst: float
    covered: float
    """Share of the 95% intervals that hold the truth."""


def tuples(
    numeric: Annotated[int, typer.Option(min=0, help="How many numbers each person has.")] = 6,
    categorical: Annotated[
        str, typer.Option(help="The sizes of the categorical attributes, such as 2,5,12.")
    ] = "2,2,3,4,5,5,6,8,10,12,20,50",
    epsilon: Epsilon = 1.0,
    people: Annotated[int, typer.Option(min=1000, help="How many simulated people.")] = 1_000_000,
    chosen: Mechanisms = None,
    seed: PeopleSeed = 1,
    as_json: Json = False,
) -> None:
    """Collect mixed tuples from simulated people with every mechanism that takes them.

    The default shape is that of the Harmony paper's Brazilian census: 6 numbers, 12 categories.
    """
    domains = (0,) * numeric + parse_sizes(categorical)
    epsilon = checked_epsilon(epsilon)
    contestants = _contestants(domains, epsilon, people, chosen)
    columns = simulate(domains, people, seed)
    outcomes = []
    with progress_bar() as bar:
        task = bar.add_task("collecting", total=len(contestants) * math.ceil(people / STEP))
        for contestant in contestants:
            try:
                estimate = contestant.estimate(_collect(contestant, columns, people, bar, task))
            except MurmurationError as problem:  # one that does not fit does not stop the others
                _leave_out(contestant.name, problem)
                continue
            if isinstance(estimate, TupleEstimate):
                outcomes.append(_outcome(contestant, estimate, columns, domains))
    if not outcomes:
        raise ParameterError("no mechanism takes these attributes at this epsilon")
    if as_json:
        emit_json([asdict(outcome) for outcome in outcomes])
    else:
        _print(
            outcomes, f"{numeric} numbers, {len(domains) - numeric} categories, {people:,} people"
        )


def _collect(
    contestant: Mechanism, columns: Columns, people: int, bar: Progress, task: TaskID
) -> Tally:
    """Run devices and collector, a part of the people at a time."""
    tally = contestant.empty()
    for start in range(0, people, STEP):
        part = [column[start : start + STEP] for column in columns]
        tally += protocol.collector(contestant, [protocol.device(contestant, part, SystemRng())])
        bar.advance(task)
    return tally


def _leave_out(name: str, problem: MurmurationError) -> None:
    errors.print(f"left out: {name}: {problem}", highlight=False, markup=False, soft_wrap=True)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read sizes with commas between; none is fine.

    >>> parse_sizes("2, 12")
    (2, 12)
    """
    try:
        sizes = tuple(int(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        sizes = (0,)
    if any(size < 2 for size in sizes):
        raise ParameterError(f"--categorical takes sizes such as 2,5,12; got {text!r}")
    return sizes


def simulate(domains: tuple[int, ...], people: int, seed: int) -> Columns:
    """Return a column for each attribute: skewed numbers, and items of falling frequency."""
    rng = np.random.default_rng(seed)
    columns: Columns = []
    for place, k in enumerate(domains):
        if k:
            weights = 1 / np.arange(1, k + 1) ** 0.8
            columns.append(rng.choice(k, people, p=weights / weights.sum()))
        else:
            columns.append(np.clip(rng.normal(0.6 - 0.25 * (place % 6), 0.35, people), -1, 1))
    return columns


def _contestants(
    domains: tuple[int, ...], epsilon: float, people: int, chosen: list[str] | None
) -> list[Mechanism]:
    """Return the mechanisms that keep their promise and take these attributes."""
    kinds = {**mechanisms_for(Box), **mechanisms_for(Ball)}
    if unknown := sorted(set(chosen or ()) - set(kinds)):
        raise ParameterError(
            f"no tuple mechanism is called {unknown[0]!r}; there are {', '.join(kinds)}"
        )
    contestants = []
    for name in chosen or [name for name, kind in kinds.items() if kind.keeps_promise]:
        extra = {"people": people} if "people" in kinds[name].__dataclass_fields__ else {}
        try:
            contestants.append(mechanism(name, epsilon=epsilon, domains=domains, **extra))
        except ParameterError as problem:
            if chosen:
                raise
            _leave_out(name, problem)
    return contestants


def _outcome(
    contestant: Mechanism, estimate: TupleEstimate, columns: Columns, domains: tuple[int, ...]
) -> Outcome:
    """Compare all estimates with the truth."""
    misses: dict[bool, list[float]] = {False: [], True: []}
    covered: list[bool] = []
    for part, column, k in zip(estimate.parts, columns, domains, strict=True):
        counts = np.bincount(column.astype(np.int64), minlength=k) if k else None
        truth = column.astype(np.float64).mean() if counts is None else counts / len(column)
        low, high = part.interval()
        misses[bool(k)] += np.atleast_1d(part.value - truth).tolist()
        covered += np.atleast_1d((low <= truth) & (truth <= high)).tolist()
    return Outcome(
        contestant.name,
        contestant.epsilon,
        contestant.loss().epsilon,
        contestant.report_bytes,
        *_summary(misses[False]),
        *_summary(misses[True]),
        float(np.mean(covered)),
    )


def _summary(misses: list[float]) -> tuple[float, float]:
    """Return the root mean square and the largest error; nothing has neither."""
    if not misses:
        return math.nan, math.nan
    return float(np.sqrt(np.mean(np.square(misses)))), float(np.abs(misses).max())


def _print(outcomes: list[Outcome], title: str) -> None:
    title = f"error of all estimates: {title}, epsilon {outcomes[0].epsilon:g}"
    headings = ("bytes", "means", "worst", "shares", "worst", "covered")
    table = table_of(title, ("mechanism",), headings)
    for outcome in outcomes:
        numbers = (
            outcome.numeric_rms,
            outcome.numeric_worst,
            outcome.categorical_rms,
            outcome.categorical_worst,
        )
        cells = ["-" if math.isnan(number) else f"{number:.4f}" for number in numbers]
        table.add_row(outcome.mechanism, str(outcome.bytes), *cells, f"{outcome.covered:.1%}")
    console.print(table)
    explain(
        "means (in [-1, 1]) and shares: root mean square error, then the worst; covered: 95% "
        "intervals that hold the truth."
    )
