"""Figure 4: linear regression with DCT, PM and Duchi on the drawn coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from murmuration.learn.papers.schedule import MiniBatches
from murmuration.learn.papers.side_by_side import InTheClear, OneCoordinate, Sender
from murmuration.mechanisms.registry import numeric_mechanism
from murmuration.reproduce.curves import Curves, over
from murmuration.reproduce.dct.means import DCT, DUCHI, LAWS, PM, _audits
from murmuration.reproduce.figure import (
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    below,
    between,
    noted,
)
from murmuration.reproduce.regression import (
    CONSTANT,
    OURS,
    RUNS,
    Default,
    References,
    Trained,
)

EPSILONS = (0.5, 1.0, 4.0)
SHAPES = {"br-90": "BR (90)", "mx-94": "MX (94)", "wisdm-43": "WISDM (43)"}
POOL, PEOPLE = 60_000, 1_000_000
OWN, CLEAR = OURS.format(POOL), "not private"
RATE = 0.01


@dataclass(frozen=True)
class Way:
    """One coordinate by a law for one number; or nothing randomised."""

    name: str
    epsilon: float

    def __call__(self, d: int) -> Sender:
        """The same for all numbers of coordinates."""
        del d
        if self.name == CLEAR:
            return InTheClear()
        return OneCoordinate(numeric_mechanism(LAWS[self.name], epsilon=self.epsilon))


def _jobs(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    pool, options = scale.pick(20_000, POOL, 400_000), (("coding", "bits"),)
    schedule = MiniBatches(factor=1.0, part=0.0, rate=RATE, constant=True)
    for shape, panel in SHAPES.items():
        own, n = (shape, pool), scale.pick(30_000, 200_000, PEOPLE)
        epsilons = scale.pick((1.0,), EPSILONS, EPSILONS)
        jobs[shape, "lines"] = Job(References(panel, tuple(epsilons), own, "squared", options))
        for epsilon in epsilons:
            for name in (DCT, PM, DUCHI, CLEAR):
                jobs[shape, name, epsilon] = Job(
                    Trained(
                        *(panel, name, epsilon, own, "squared", schedule, Way(name, epsilon)),
                        *(n, epsilon),
                        options=options,
                    ),
                    scale.pick(1, 1, 4),
                )
            fit = Default(panel, OWN, epsilon, own, "squared", epsilon, options)
            jobs[shape, "ours", epsilon] = Job(fit, scale.pick(RUNS, RUNS, 25))
    return jobs


def _judge(curves: Curves) -> list[Finding]:
    found = []
    for panel in curves.panels():
        for epsilon in curves.xs(panel, DCT):
            at = f"{panel}, epsilon {epsilon:g}"
            for rival in (PM, DUCHI):
                ratio = curves.ratio(panel, DCT, rival, epsilon)
                found.append(below(f"{at}: DCT below {rival}", ratio, 1.0))
            near = curves.ratio(panel, PM, DUCHI, epsilon)
            found.append(between(f"{at}: PM and Duchi are close", near, 0.5, 2.0))
            constant = curves.quotient((panel, DCT, epsilon), (panel, CONSTANT, epsilon))
            found.append(noted(f"{at}: DCT over the best constant", constant))
            clear = curves.ratio(panel, DCT, CLEAR, epsilon)
            found.append(noted(f"{at}: DCT over the same batches without noise", clear))
            ours = over(curves.at(panel, OWN, epsilon), curves.at(panel, DCT, epsilon))
            found.append(noted(f"{at}: ours, which keeps epsilon, over DCT", ours))
    return found


FIGURES = {
    "D-4": Figure(
        id="D-4",
        where="Fig. 4",
        claim="Linear regression: DCT's mean squared error is below PM's and Duchi's at every "
        "epsilon; PM and Duchi are close to each other.",
        jobs=_jobs,
        judge=_judge,
        verdict="in part",
        panels=tuple(
            Panel(panel, "epsilon", "mean squared error", True, True) for panel in SHAPES.values()
        ),
        instead="`learn.LinearRegression` by default. DCT trains as if nothing were randomised "
        "because next to nothing is: its loss is infinite (D-L1).",
        choices=(
            "Batches are Omega(k lg k / eps^2): taken as k ln k / eps^2; steps .01, all alike; "
            "eight trainings a point; one coordinate per person.",
            "How many people there are is not given: 1 million (quick: 200,000), from a generator "
            "of the shapes of BR, MX and WISDM (3 numbers, 36 people, 6 activities).",
        ),
        audits=_audits,
        hours=1,
    )
}
