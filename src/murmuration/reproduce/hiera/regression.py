"""Figure 3: linear regression with graded and with single budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from murmuration.learn.papers.own_grades import GradedLaplace, HieraComponents
from murmuration.learn.papers.schedule import MiniBatches
from murmuration.learn.papers.side_by_side import InTheClear, OneCoordinate, Sender
from murmuration.mechanisms.registry import numeric_mechanism
from murmuration.reproduce.curves import Curves, over
from murmuration.reproduce.figure import Figure, Finding, Job, Name, Panel, Scale, below, noted
from murmuration.reproduce.hiera.layout import EDGES, GRADES, audits, hiera
from murmuration.reproduce.regression import (
    CONSTANT,
    OURS,
    RUNS,
    Default,
    References,
    Trained,
)

EPSILONS = (0.1, 0.5, 1.0)
PEOPLE = {"us-2010": 1_216_000, "br-2010": 3_088_000}
"""Four fifths: the folds that are trained on."""
POOL = 60_000
HIERA, LAPLACE, PM, HARMONY, CLEAR = "HierA", "graded Laplace", "PM", "Harmony", "not private"
OWN = OURS.format(POOL)
SHAPES = {"us-2010": "US", "br-2010": "BR"}


@dataclass(frozen=True)
class Way:
    """How a gradient is sent, at an epsilon that is the smallest budget."""

    name: str
    epsilon: float

    def __call__(self, d: int) -> Sender:
        """The same for all numbers of coordinates."""
        del d
        if self.name == CLEAR:
            return InTheClear()
        if self.name in (HIERA, LAPLACE):
            kind = HieraComponents if self.name == HIERA else GradedLaplace
            return kind(tuple(grade * self.epsilon for grade in GRADES), EDGES)
        single = "piecewise" if self.name == PM else "duchi"
        return OneCoordinate(numeric_mechanism(single, epsilon=self.epsilon))


def _jobs(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    pool = scale.pick(20_000, POOL, 400_000)
    options = (("every", True), ("intercept", True))
    schedule = MiniBatches(factor=1.0, part=0.0)
    for shape, people in PEOPLE.items():
        panel, own = SHAPES[shape], (shape, pool)
        n = scale.pick(50_000, 300_000, people)
        epsilons = scale.pick((1.0,), EPSILONS, EPSILONS)
        jobs[shape, "lines"] = Job(References(panel, tuple(epsilons), own, "squared", options))
        for epsilon in epsilons:
            for name in (HIERA, LAPLACE, PM, HARMONY, CLEAR):
                jobs[shape, name, epsilon] = Job(
                    Trained(
                        *(panel, name, epsilon, own, "squared", schedule, Way(name, epsilon)),
                        *(n, epsilon),
                        options=options,
                    ),
                    scale.pick(1, 1, 7),
                )
            fit = Default(panel, OWN, epsilon, own, "squared", epsilon, (("every", True),))
            jobs[shape, "ours", epsilon] = Job(fit, scale.pick(RUNS, RUNS, 5 * RUNS))
    return jobs


def _judge(curves: Curves) -> list[Finding]:
    found = []
    for panel in curves.panels():
        for epsilon in curves.xs(panel, HIERA):
            at = f"{panel}, epsilon {epsilon:g}"
            for one, other in (
                (LAPLACE, HARMONY),
                (LAPLACE, PM),
                (HIERA, HARMONY),
                (HIERA, LAPLACE),
            ):
                ratio = curves.ratio(panel, one, other, epsilon)
                found.append(below(f"{at}: {one} below {other}", ratio, 1.0))
            constant = curves.quotient((panel, HIERA, epsilon), (panel, CONSTANT, epsilon))
            found.append(noted(f"{at}: HierA over the best constant", constant))
            ours = over(curves.at(panel, OWN, epsilon), curves.at(panel, HIERA, epsilon))
            found.append(noted(f"{at}: ours, at the smallest budget, over HierA", ours))
    return found


def _lost(epsilon: float) -> str:
    return f"{hiera(epsilon).loss().epsilon:.2f}"


FIGURES = {
    "A-3": Figure(
        id="A-3",
        where="Fig. 3",
        claim="Linear regression: graded methods (graded Laplace, HierA) tell income better than "
        "single-grade ones (Harmony, PM), and HierA better than graded Laplace.",
        jobs=_jobs,
        judge=_judge,
        verdict="holds",
        panels=tuple(
            Panel(panel, "epsilon (smallest budget)", "mean squared error", True, True)
            for panel in SHAPES.values()
        ),
        instead="`learn.LinearRegression` by default at the smallest budget: it keeps that budget, "
        "and its error is below the best constant's from epsilon 1 on.",
        choices=(
            "How the grade of a gradient's component is found is not said: by the range of its own "
            "attribute; the constant has that of 1, the most private. One component per person.",
            "Batches of d ln d / eps^2 with eps the smallest budget; penalty 1e-4; mu = 2; eight "
            "trainings a point; quick asks 300,000 people, who are drawn from a pool.",
        ),
        audits=audits,
        hours=2,
    )
}
