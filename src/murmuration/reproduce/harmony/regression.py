"""Figure 2 (linear, logistic, SVM), and section 4.2: m participations with epsilon/m each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from murmuration.learn.papers.schedule import AsPublished, MiniBatches, OneByOne
from murmuration.learn.papers.side_by_side import InTheClear, OneCoordinate, Sender, WholeVector
from murmuration.mechanisms.registry import numeric_mechanism, vector_mechanism
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.reproduce.curves import Curves, least, worst
from murmuration.reproduce.figure import (
    Audited,
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    above,
    audited,
    below,
    noted,
)
from murmuration.reproduce.regression import (
    CONSTANT,
    LEAST,
    OURS,
    RUNS,
    Default,
    References,
    Trained,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
QUICK = (0.5, 4.0)
PEOPLE = {"us": 8_100_000, "br": 3_600_000}
"""Nine tenths: the folds that are trained on."""
POOL, OWN = 60_000, OURS.format(60_000)
R = 20
BATCHES = MiniBatches()
SGD, MGD, DR, CLEAR = "SGD (one by one)", "MGD", "MGD-DR", "SGD, not private"
CLEAR_BATCHES = "MGD, not private"
LOSSES = {"logistic": "logistic regression", "hinge": "SVM"}


@dataclass(frozen=True)
class Bit:
    """Algorithm 2: one coordinate, by Duchi's bit."""

    epsilon: float

    def __call__(self, d: int) -> Sender:
        """The same for all numbers of coordinates."""
        del d
        return OneCoordinate(numeric_mechanism("duchi", epsilon=self.epsilon))


@dataclass(frozen=True)
class Corner:
    """Duchi's mechanism for vectors."""

    epsilon: float

    def __call__(self, d: int) -> Sender:
        """Return it for d coordinates."""
        return WholeVector(DuchiMulti(epsilon=self.epsilon, d=d))


def in_the_clear(d: int) -> Sender:
    """Return what randomises nothing."""
    del d
    return InTheClear()


def _linear(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    epsilons = scale.pick((4.0,), QUICK, EPSILONS)
    pool = scale.pick(20_000, POOL, 400_000)
    for shape, people in PEOPLE.items():
        panel, own, few = (
            f"{shape.upper()}: linear",
            (shape, pool),
            scale.pick(2_000, 20_000, people),
        )
        n = scale.pick(400_000, people, people)
        r = (("projected", R),)
        jobs[shape, "lines"] = Job(References(panel, tuple(epsilons), own, "squared"))
        for epsilon in epsilons:
            plans: list[tuple[str, AsPublished, object, int, tuple[tuple[str, object], ...]]] = [
                (SGD, OneByOne(), Corner(epsilon), few, ()),
                (MGD, BATCHES, Bit(epsilon), n, ()),
                (DR, BATCHES, Bit(epsilon), n, r),
            ]
            for name, schedule, sender, asked, options in plans:
                jobs[shape, name, epsilon] = Job(
                    Trained(
                        *(panel, name, epsilon, own, "squared", schedule, sender, asked, epsilon),  # type: ignore[arg-type]
                        options=options,
                    ),
                    scale.pick(1, 1, 2),
                )
            fit = Default(panel, OWN, epsilon, (shape, pool), "squared", epsilon)
            jobs[shape, "ours", epsilon] = Job(fit, RUNS)
        clear = scale.pick(20_000, 200_000, people)
        for name, schedule, asked in (
            (CLEAR, OneByOne(), clear),
            (CLEAR_BATCHES, BATCHES, n),
        ):
            jobs[shape, name] = Job(
                Trained(
                    *(panel, name, epsilons[-1], own, "squared", schedule, in_the_clear, asked, 1.0)
                )
            )
    return jobs


def _judge_linear(curves: Curves) -> list[Finding]:
    found = []
    for panel in curves.panels():
        xs = curves.xs(panel, MGD)
        end = xs[-1]
        clear = (panel, CLEAR, end)
        over_clear = {
            name: [curves.quotient((panel, name, x), clear) for x in xs] for name in (SGD, MGD, DR)
        }
        found += [
            above(
                f"{panel}: private SGD is prohibitive (10 times SGD's error in the clear)",
                least(over_clear[SGD]),
                10,
                "at least",
            ),
            above(
                f"{panel}: MGD is unsatisfactory (above the best constant)",
                least([curves.quotient((panel, MGD, x), (panel, CONSTANT, x)) for x in xs]),
                1.0,
                "over the constant",
            ),
            below(
                f"{panel}: MGD-DR is near SGD in the clear (at most 1.25 times its error)",
                worst(over_clear[DR]),
                1.25,
                "at worst",
            ),
            below(
                f"{panel}: MGD-DR is useful (below the best constant)",
                worst([curves.quotient((panel, DR, x), (panel, CONSTANT, x)) for x in xs]),
                1.0,
                "over the constant",
            ),
            noted(
                f"{panel}: SGD in the clear",
                curves.quotient(clear, (panel, LEAST, end)),
                "over least squares",
            ),
            noted(
                f"{panel}: the same batches in the clear",
                curves.quotient((panel, CLEAR_BATCHES, end), (panel, CONSTANT, end)),
                "over the constant",
            ),
            *(
                noted(
                    f"{panel}: ours at epsilon {x:g}, with {POOL:,} people",
                    curves.quotient((panel, OWN, x), (panel, DR, x)),
                    "over MGD-DR",
                )
                for x in xs
            ),
        ]
    return found


# --- classes -------------------------------------------------------------------------------------


def _classes(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    epsilons = scale.pick((4.0,), QUICK, EPSILONS)
    pool, options = scale.pick(20_000, POOL, 400_000), (("classes", True),)
    for shape, people in PEOPLE.items():
        own, few = (shape, pool), scale.pick(2_000, 20_000, people)
        n = scale.pick(400_000, people, people)
        for loss, title in LOSSES.items():
            panel = f"{shape.upper()}: {title}"
            jobs[panel, "lines"] = Job(References(panel, tuple(epsilons), own, loss, options))
            for epsilon in epsilons:
                for name, schedule, sender, asked in (
                    (SGD, OneByOne(), Corner(epsilon), few),
                    (MGD, BATCHES, Bit(epsilon), n),
                ):
                    jobs[panel, name, epsilon] = Job(
                        Trained(
                            *(panel, name, epsilon, own, loss, schedule, sender, asked, epsilon),
                            options=options,
                        ),
                        scale.pick(1, 1, 2),
                    )
                fit = Default(panel, OWN, epsilon, own, loss, epsilon, options)
                jobs[panel, "ours", epsilon] = Job(fit, RUNS)
            clear = scale.pick(20_000, 200_000, people)
            jobs[panel, CLEAR] = Job(
                Trained(
                    *(panel, CLEAR, epsilons[-1], own, loss, OneByOne(), in_the_clear, clear, 1.0),
                    options=options,
                )
            )
    return jobs


def _judge_classes(curves: Curves) -> list[Finding]:
    found = []
    for panel in curves.panels():
        xs = curves.xs(panel, MGD)
        clear = (panel, CLEAR, xs[-1])
        found += [
            below(
                f"{panel}: MGD below private SGD at every epsilon",
                worst([curves.ratio(panel, MGD, SGD, x) for x in xs]),
                1.0,
                "at worst",
            ),
            *(
                noted(
                    f"{panel}: MGD at epsilon {x:g}",
                    curves.quotient((panel, MGD, x), (panel, CONSTANT, x)),
                    "over the best constant",
                )
                for x in xs
            ),
            noted(
                f"{panel}: MGD at epsilon {xs[-1]:g}",
                curves.quotient((panel, MGD, xs[-1]), clear),
                "over SGD in the clear",
            ),
            *(
                noted(
                    f"{panel}: ours at epsilon {x:g}, with {POOL:,} people",
                    curves.quotient((panel, OWN, x), (panel, MGD, x)),
                    "over MGD",
                )
                for x in xs
            ),
        ]
    return found


# --- m participations ----------------------------------------------------------------------------

TIMES = (1, 2, 4)
MANY = "US: {}, everybody in m rounds"


def _times(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    n = scale.pick(100_000, 810_000, PEOPLE["us"])
    own = ("us", scale.pick(20_000, POOL, 400_000))
    for loss, title, options in (
        ("squared", "MGD-DR, squared error", (("projected", R),)),
        ("logistic", "MGD, logistic", (("classes", True),)),
    ):
        for epsilon in scale.pick((4.0,), (0.5, 1.0, 4.0), EPSILONS):
            for m in TIMES:
                work = Trained(
                    *(MANY.format(title), f"epsilon {epsilon:g}", float(m), own, loss),
                    *(BATCHES, Bit(epsilon / m), n, epsilon, m),
                    options=options,
                )
                jobs[loss, epsilon, m] = Job(work, scale.pick(1, 2, 2))
    return jobs


def _judge_times(curves: Curves) -> list[Finding]:
    found = []
    for panel in curves.panels():
        for series in curves.series(panel):
            for m in TIMES[1:]:
                ratio = curves.quotient((panel, series, m), (panel, series, 1))
                found.append(above(f"{panel}, {series}: m = {m} is worse than 1", ratio, 1.0))
    return found


def _audits() -> Sequence[Audited]:
    return [
        audited("MGD: one coordinate, epsilon 1", vector_mechanism("harmony", epsilon=1.0, d=85)),
        audited("SGD: a corner, epsilon 1", vector_mechanism("duchi-multi", epsilon=1.0, d=85)),
        audited("ours: privunit, epsilon 1", vector_mechanism("privunit", epsilon=1.0, d=85)),
    ]


CHOICES = (
    "People come from a generator of the census's shape (85 and 95 columns of -1 and 1), drawn "
    "from a pool; held out are 20,000 others. Each point is eight trainings.",
    "Batches of the paper's size for 8.1 and 3.6 million people; all are asked, none twice.",
    "One by one, quick asks 20,000 people (in the clear 200,000).",
    "The penalty is the collector's, outside the clipped gradient; no intercept; steps 1/sqrt(t).",
    "SGD in the clear clips gradients as the private one does; without clipping a first step of 1 "
    "makes it diverge.",
    "The threshold of the classes is taken as declared: the true mean is private.",
)
INSTEAD = (
    "`learn.LinearRegression` and its kin by default: rounds that fit the noise, features centred, "
    "a private score of the model. For a number its error with 60,000 people is below that of "
    "MGD-DR with millions; for classes 60,000 people give about what MGD gives with millions at "
    "epsilon 4, and not at .5."
)

FIGURES = {
    "H-2ad": Figure(
        id="H-2ad",
        where="Fig. 2a, 2d",
        claim="Linear regression: private SGD is prohibitive, mini-batches (MGD) are "
        "unsatisfactory, with dimension reduction (MGD-DR) the error is close to SGD without "
        "privacy.",
        jobs=_linear,
        judge=_judge_linear,
        verdict="in part",
        panels=tuple(
            Panel(f"{shape.upper()}: linear", "epsilon", "mean squared error", True, True)
            for shape in PEOPLE
        ),
        instead=INSTEAD,
        choices=CHOICES,
        audits=_audits,
        hours=6,
    ),
    "H-2bcef": Figure(
        id="H-2bcef",
        where="Fig. 2b, 2c, 2e, 2f",
        claim="Logistic regression and SVM: mini-batches are effective under local privacy.",
        jobs=_classes,
        judge=_judge_classes,
        verdict="holds",
        panels=tuple(
            Panel(f"{shape.upper()}: {title}", "epsilon", "part told wrong", True)
            for shape in PEOPLE
            for title in LOSSES.values()
        ),
        instead=INSTEAD,
        choices=CHOICES,
        audits=_audits,
        hours=8,
    ),
    "H-m": Figure(
        id="H-m",
        where="section 4.2",
        claim="Letting each person take part in m > 1 rounds with epsilon/m each only degrades the "
        "model.",
        jobs=_times,
        judge=_judge_times,
        verdict="in part",
        panels=(
            Panel(MANY.format("MGD-DR, squared error"), "m", "mean squared error", False, True),
            Panel(MANY.format("MGD, logistic"), "m", "part told wrong"),
        ),
        instead="One round each (the default): the whole budget on one question.",
        choices=(
            "Batches are 2 d ln d m^2/eps^2, and at least a thousandth of all participations. "
            "Quick: 810,000 people.",
        ),
        audits=_audits,
        hours=3,
    ),
}
