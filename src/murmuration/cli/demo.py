"""`murmur demo`: a million simulated people, every mechanism, from device to estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from murmuration import protocol
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    progress_bar,
    pyplot,
    save_plot,
)
from murmuration.estimate import Estimate, FrequencyEstimate
from murmuration.law import Floats
from murmuration.mechanisms import numeric_mechanism, numeric_names
from murmuration.mechanisms.sampled import Sampled
from murmuration.randomness import system_rng

EPSILONS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Attribute:
    """Something that people are asked: its unit, its declared range, and how it is spread."""

    name: str
    unit: str
    low: float
    high: float
    sample: Callable[[np.random.Generator, int], Floats]

    def rescale(self, values: Floats) -> Floats:
        """Clamp to the declared range and map it to [-1, 1]."""
        inside = np.clip(values, self.low, self.high)
        return 2 * (inside - self.low) / (self.high - self.low) - 1


ATTRIBUTES = (
    Attribute("age", "years", 18, 98, lambda rng, n: 18 + 80 * rng.beta(1.6, 2.6, n)),
    Attribute("screen time", "hours a day", 0, 16, lambda rng, n: rng.gamma(3.2, 1.25, n)),
    Attribute("commute", "km", 0, 100, lambda rng, n: rng.lognormal(2.2, 0.9, n)),
)


PHONES = ("android", "ios", "other", "none")
PHONE_SHARES = (0.62, 0.31, 0.05, 0.02)
TUPLE_EPSILON = 2.0
REPLICATES = 40
"""Resampled crowds behind the band of the distribution plot."""


@dataclass(frozen=True)
class Answer:
    """What one mechanism said about one attribute, next to the truth."""

    attribute: Attribute
    mechanism: str
    truth: float
    estimate: Estimate

    @property
    def covered(self) -> bool:
        """Whether the 95% interval holds the truth."""
        low, high = self.estimate.interval()
        return low <= self.truth <= high


def demo(
    people: Annotated[int, typer.Option(min=100, help="How many simulated people.")] = 1_000_000,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the simulated people, not of the noise.")
    ] = 7,
    out: Annotated[Path, typer.Option(help="Folder for the plots.")] = Path("out"),
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Only the tables.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask simulated people three numbers with every mechanism; show truth, estimate, interval."""
    if not no_plot:
        checked_plot(out / "demo-intervals.png")
    start = time.perf_counter()
    crowd = np.random.default_rng(seed)
    values = {a: np.clip(a.sample(crowd, people), a.low, a.high) for a in ATTRIBUTES}
    answers = _collect(values)
    seconds = time.perf_counter() - start
    if as_json:
        emit_json([_as_dict(answer) for answer in answers])
    else:
        for attribute in ATTRIBUTES:
            _print(attribute, [a for a in answers if a.attribute is attribute])
        _print_tuple(values, crowd.choice(len(PHONES), people, p=PHONE_SHARES))
        missed = sum(not answer.covered for answer in answers)
        console.print(
            f"{people:,} people, {len(answers)} collections in {seconds:.1f} s. The 95% interval "
            f"missed the truth in {missed} of them (*); {0.05 * len(answers):.0f} are expected. "
            "Every report was an integer; no device sent a true value."
        )
    if not no_plot:
        shapes = {a: _shape(a, values[a]) for a in ATTRIBUTES}
        save_plot(_draw_intervals(answers), out / "demo-intervals.png")
        save_plot(_draw_shapes(values, shapes), out / "demo-distributions.png")


def _collect(values: dict[Attribute, Floats]) -> list[Answer]:
    """Run device, collector and analyst for each attribute, mechanism and epsilon."""
    jobs = [(a, name, eps) for a in values for name in numeric_names() for eps in EPSILONS]
    answers = []
    with progress_bar() as bar:
        task = bar.add_task("collecting", total=len(jobs))
        for attribute, name, epsilon in jobs:
            chosen = numeric_mechanism(name, epsilon=epsilon)
            upload = protocol.device(chosen, attribute.rescale(values[attribute]), system_rng())
            tally = protocol.collector(chosen, [upload])
            estimate = chosen.estimate(tally).scaled(attribute.low, attribute.high)
            answers.append(Answer(attribute, name, float(values[attribute].mean()), estimate))
            bar.advance(task)
    return answers


def _shape(attribute: Attribute, values: Floats) -> Any:
    """Collect with the square wave at epsilon 1 and read the whole distribution."""
    wave = numeric_mechanism("square-wave", epsilon=1.0)
    tally = wave.tally(wave.privatize(attribute.rescale(values), system_rng()))
    return wave.distribution(tally, replicates=REPLICATES).scaled(attribute.low, attribute.high)


def _as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "attribute": answer.attribute.name,
        "unit": answer.attribute.unit,
        "mechanism": answer.mechanism,
        "epsilon": answer.estimate.epsilon,
        "truth": answer.truth,
        "estimate": answer.estimate.value,
        "interval": list(answer.estimate.interval()),
        "n": answer.estimate.n,
    }


def _print(attribute: Attribute, answers: list[Answer]) -> None:
    truth = answers[0].truth
    table = Table(title=f"{attribute.name} ({attribute.unit}), true mean {truth:.2f}")
    table.add_column("mechanism")
    for epsilon in EPSILONS:
        table.add_column(f"epsilon {epsilon:g}", justify="right")
    for name in dict.fromkeys(answer.mechanism for answer in answers):
        cells = [_cell(answer) for answer in answers if answer.mechanism == name]
        table.add_row(name, *cells)
    console.print(table)


def _cell(answer: Answer) -> str:
    low, high = answer.estimate.interval()
    text = f"{answer.estimate.value:.2f} ± {(high - low) / 2:.2f}"
    return text if answer.covered else f"[yellow]* {text}[/]"


def _print_tuple(values: dict[Attribute, Floats], phones: NDArray[np.int64]) -> None:
    """Ask all three numbers and the phone in one report a person, and print what comes out."""
    chosen = Sampled(epsilon=TUPLE_EPSILON, domains=(0, 0, 0, len(PHONES)))
    columns = [*(a.rescale(values[a]) for a in ATTRIBUTES), phones]
    upload = protocol.device(chosen, columns, system_rng())
    *means, shares = chosen.estimate(protocol.collector(chosen, [upload])).parts
    table = Table(title=f"all four in one report of {chosen.report_bytes} bytes, epsilon 2")
    for heading in ("attribute", "truth", "estimate", "95% interval"):
        table.add_column(heading, justify="left" if heading == "attribute" else "right")
    for attribute, part in zip(ATTRIBUTES, means, strict=True):
        if isinstance(part, Estimate):
            mean = part.scaled(attribute.low, attribute.high)
            truth = float(values[attribute].mean())
            _row(table, f"mean {attribute.name}", truth, mean.value, mean.interval())
    if isinstance(shares, FrequencyEstimate):
        truths = np.bincount(phones, minlength=len(PHONES)) / len(phones)
        for name, truth, share, *ends in zip(
            PHONES, truths, shares.value, *shares.interval(), strict=True
        ):
            _row(table, f"share of {name}", truth, share, (ends[0], ends[1]))
    console.print(table)


def _row(
    table: Table, name: str, truth: float, estimate: float, interval: tuple[float, float]
) -> None:
    low, high = interval
    table.add_row(name, f"{truth:.4f}", f"{estimate:.4f}", f"{low:.4f} to {high:.4f}")


def _draw_intervals(answers: list[Answer]) -> Any:
    """Return a figure: each mechanism's interval around the truth, a panel per attribute."""
    plt = pyplot()
    figure, panels = plt.subplots(1, len(ATTRIBUTES), figsize=(14, 5), sharey=True)
    names = list(dict.fromkeys(answer.mechanism for answer in answers))
    for axes, attribute in zip(panels, ATTRIBUTES, strict=True):
        mine = [answer for answer in answers if answer.attribute is attribute]
        for answer in mine:
            step = EPSILONS.index(answer.estimate.epsilon)
            place = names.index(answer.mechanism) + 0.18 * (step - 1.5)
            half = answer.estimate.interval()[1] - answer.estimate.value
            axes.errorbar(answer.estimate.value, place, xerr=half, fmt="o", ms=3, color=f"C{step}")
        axes.axvline(mine[0].truth, color="black", lw=1)
        axes.set(title=attribute.name, xlabel=attribute.unit)
        axes.set_yticks(range(len(names)), names)
    handles = [plt.Line2D([], [], color=f"C{i}", marker="o") for i in range(len(EPSILONS))]
    labels = [f"epsilon {epsilon:g}" for epsilon in EPSILONS]
    figure.legend(handles, labels, loc="lower center", ncol=4, bbox_to_anchor=(0.5, -0.06))
    figure.suptitle("95% intervals; the line is the truth")
    return figure


def _draw_shapes(values: dict[Attribute, Floats], shapes: dict[Attribute, Any]) -> Any:
    """Return a figure: the true histogram and what the square wave saw at epsilon 1."""
    plt = pyplot()
    figure, panels = plt.subplots(1, len(ATTRIBUTES), figsize=(14, 4))
    for axes, attribute in zip(panels, ATTRIBUTES, strict=True):
        shape = shapes[attribute]
        truth, _ = np.histogram(values[attribute], shape.edges)
        axes.stairs(truth / truth.sum(), shape.edges, fill=True, alpha=0.3, label="truth")
        low, high = shape.band(0.95)
        reach = {
            "fill": True,
            "color": "C3",
            "alpha": 0.3,
            "label": "95% of resamples (not the blur)",
        }
        axes.stairs(high, shape.edges, baseline=low, **reach)
        axes.stairs(shape.histogram, shape.edges, color="C3", label="square wave, EMS, epsilon 1")
        axes.set(title=attribute.name, xlabel=attribute.unit, ylabel="share of people")
        axes.legend(fontsize=8)
    figure.tight_layout()
    return figure
