"""Table 2, Theorems 2, 3 and 5, and Algorithm 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.analysis import combine
from murmuration.campaign.levels import Levels, Survey
from murmuration.exact.randomness import Rng
from murmuration.lab import oracle
from murmuration.lab.levels import SIZES
from murmuration.planning import allocate
from murmuration.reproduce.curves import Curves, Mean, Point, over
from murmuration.reproduce.figure import (
    Audited,
    Exact,
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    agrees,
    audited,
    below,
    beside,
    fact,
    noted,
)
from murmuration.reproduce.mpldp.levels import tallies

TICKS = tuple(1 + place / 2 for place in range(11))
PRINTED = {
    10_000: (
        (0.0847, 0.1067, 0.1221, 0.1344, 0.1448),
        (0.1078, 0.1358, 0.1555, 0.1711, 0.1844),
        (0.1434, 0.1807, 0.2068, 0.2276, 0.2452),
        (0.1789, 0.2255, 0.2581, 0.2841, 0.3060),
        (0.2145, 0.2703, 0.3094, 0.3405, 0.3668),
        (0.2502, 0.3152, 0.3608, 0.3971, 0.4277),
        (0.2859, 0.3602, 0.4123, 0.4538, 0.4889),
        (0.3215, 0.4051, 0.4637, 0.5104, 0.5498),
        (0.3573, 0.4501, 0.5152, 0.5670, 0.6108),
        (0.3930, 0.4951, 0.5667, 0.6237, 0.6719),
        (0.4286, 0.5400, 0.6181, 0.6803, 0.7327),
    ),
    1_000: (
        (0.0723, 0.0911, 0.1043, 0.1148, 0.1236),
        (0.1078, 0.1358, 0.1555, 0.1711, 0.1843),
        (0.1433, 0.1806, 0.2067, 0.2275, 0.2450),
        (0.1789, 0.2255, 0.2581, 0.2841, 0.3060),
        (0.2141, 0.2697, 0.3087, 0.3398, 0.3660),
        (0.2502, 0.3152, 0.3608, 0.3971, 0.4278),
        (0.2858, 0.3600, 0.4121, 0.4536, 0.4886),
        (0.3214, 0.4049, 0.4635, 0.5101, 0.5495),
        (0.3573, 0.4501, 0.5152, 0.5671, 0.6108),
        (0.3930, 0.4951, 0.5668, 0.6238, 0.6719),
        (0.4287, 0.5401, 0.6182, 0.6804, 0.7328),
    ),
}
"""Table 2: rows are epsilon 1, 1.5, ..., 6, columns the attributes of 5 to 25 items."""
SUM, EXCESS = "printed budgets added up, over epsilon", "squared error over the optimum's"


def _table() -> Sequence[Point]:
    found = []
    for people, rows in PRINTED.items():
        for epsilon, row in zip(TICKS, rows, strict=True):
            series = f"n = {people:,}"
            found.append(Point(SUM, series, epsilon, sum(row) / epsilon))
            best = allocate.optimal(SIZES, epsilon)
            ideal = allocate.summed_variance(SIZES, best)
            scaled = np.array(row) / sum(row) * epsilon
            shares = allocate.summed_variance(SIZES, scaled) / ideal
            found.append(Point(EXCESS, f"shares of {series}", epsilon, shares))
            taken = allocate.summed_variance(SIZES, row) / ideal
            found.append(Point(EXCESS, f"as printed, {series}", epsilon, taken))
    return found


def _jobs_table(scale: Scale) -> Mapping[Name, Job]:
    del scale
    return {("table",): Job(Exact(_table))}


def _judge_table(curves: Curves) -> list[Finding]:
    names = [f"n = {people:,}" for people in PRINTED]
    shares = max(curves.at(EXCESS, f"shares of {name}", e).value for name in names for e in TICKS)
    sums = [curves.at(SUM, name, e).value for name in names for e in TICKS]
    taken = [curves.at(EXCESS, f"as printed, {name}", e).value for name in names for e in TICKS]
    doubled = [2 * one for one in sums]
    return [
        fact(
            "the shares of the attributes are the optimal ones",
            shares < 1.001,
            f"with these shares the squared error is {100 * (shares - 1):.2g}% above the optimum's "
            "at most",
            shares,
        ),
        fact(
            "the budgets of a row add up to epsilon",
            all(abs(one - 1) < 0.005 for one in sums),
            f"they add up to {min(sums):.3f} to {max(sums):.3f} of epsilon; doubled (they are "
            f"what one bit may spend, half of a budget) to {min(doubled):.3f} to "
            f"{max(doubled):.3f}, above epsilon",
            max(doubled),
        ),
        fact(
            "the table depends on n",
            False,
            "the least squared error does not depend on n; the row of epsilon 1, n = 10,000 is a "
            "slip: it adds up to .593",
        ),
        beside(
            "taken as budgets",
            f"the squared error is {min(taken):.2f} to {max(taken):.2f} times the optimum's",
        ),
    ]


# --- Theorem 2 -----------------------------------------------------------------------------------

ERRORS, WEIGHTS = "squared error over equation 11", "equation 9 at other weights over its minimum"


@dataclass(frozen=True)
class Weighted:
    """The squared error of OC over k n^2 / sum D, all attributes; and the mean of one item."""

    people: int
    epsilon: float

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once."""
        budgets = allocate.optimal(SIZES, self.epsilon)
        square = said = 0.0
        off = []
        for (own, truth), budget in zip(
            tallies(self.people, self.epsilon, rng, repetition), budgets, strict=True
        ):
            found = np.asarray(combine.optimal(own).value)
            square += float(((found - truth) ** 2).sum())
            roots = np.exp(np.array(Levels().budgets(float(budget))) / 2)
            numbers = np.array([tally.n for tally in own])
            said += len(truth) / float((numbers * (roots - 1) ** 2 / roots).sum())
            off.append(float(found[0] - truth[0]))
        return [
            Point(ERRORS, f"n = {self.people:,}", self.epsilon, square / said, repetition),
            Point(
                "bias of a share",
                f"n = {self.people:,}",
                self.epsilon,
                float(np.mean(off)),
                repetition,
            ),
        ]


def _weights() -> Sequence[Point]:
    """Compare the theorem's weights with others that add up to 1, by equation 9."""
    draw = np.random.default_rng(1)
    found = []
    for epsilon in (0.2, 1.0, 4.0):
        roots = np.exp(np.array(Levels().budgets(epsilon)) / 2)
        costs = roots / (roots - 1) ** 2  # n_t alike
        best = (1 / costs) / (1 / costs).sum()
        others = draw.dirichlet(np.ones(3), 1000)
        least = float((costs * others**2).sum(axis=1).min() / (costs * best**2).sum())
        found.append(Point(WEIGHTS, "least of 1,000", epsilon, least))
    return found


def _jobs_theorem2(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {("weights",): Job(Exact(_weights))}
    for people in (10_000, 1_000):
        for epsilon in (1.0, 6.0):
            jobs[people, epsilon] = Job(Weighted(people, epsilon), scale.pick(10, 40, 400))
    return jobs


def _judge_theorem2(curves: Curves) -> list[Finding]:
    found = [
        fact(
            "the weights of equation 10 are the minimum of equation 9",
            all(curves.at(WEIGHTS, "least of 1,000", e).value >= 1 for e in (0.2, 1.0, 4.0)),
            "none of 1,000 other weights has less, at any of three epsilon",
        )
    ]
    for people in (10_000, 1_000):
        name = f"n = {people:,}"
        for epsilon in (1.0, 6.0):
            found.append(
                agrees(
                    f"{name}, epsilon {epsilon:g}: the squared error is equation 11's",
                    curves.at(ERRORS, name, epsilon),
                    1.0,
                    "over equation 11",
                )
            )
        bias = curves.at("bias of a share", name, 6.0)
        found.append(agrees(f"{name}: unbiased (Lemma 1)", bias, 0.0, "bias"))
    return found


# --- Theorem 3 and Algorithm 3 -------------------------------------------------------------------

RISES, GROWTH = "part of runs in which the largest error rises", "largest error after over before"
STEPS = {
    oracle.PROOF: "as the proof shows",
    oracle.THEOREM: "Theorem 3 as printed",
    oracle.ALGORITHM: "Algorithm 3 as printed",
}
ITERATIONS = 20


@dataclass(frozen=True)
class Perturbed:
    """OP with each of the three steps, on the same reports: and whether the largest error rises."""

    people: int
    epsilon: float

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once; all five attributes."""
        found = []
        pairs = tallies(self.people, self.epsilon, rng, repetition)
        for step, name in STEPS.items():
            paths = [
                np.array(oracle.perturbed(own, truth, ITERATIONS, step).errors)
                for own, truth in pairs
            ]
            rose = [bool((np.diff(path) > 1e-9 * path[:-1]).any()) for path in paths]
            first = [bool(path[1] > path[0] * (1 + 1e-9)) for path in paths]
            grown = float(np.mean([min(path[-1] / path[0], 1e6) for path in paths]))
            places = (
                (RISES, name, float(np.mean(rose))),
                (f"{RISES}, first step", name, float(np.mean(first))),
                (GROWTH, name, grown),
            )
            found += [Point(*place[:2], self.epsilon, place[2], repetition) for place in places]
        return found


def _jobs_theorem3(scale: Scale) -> Mapping[Name, Job]:
    return {
        (epsilon,): Job(Perturbed(1_000, epsilon), scale.pick(10, 60, 400))
        for epsilon in (1.0, 3.0, 6.0)
    }


def _everywhere(curves: Curves, panel: str, name: str) -> Mean:
    means = [curves.at(panel, name, x) for x in curves.xs(panel, name)]
    value = float(np.mean([mean.value for mean in means]))
    spread = float(np.sqrt(np.sum([mean.stderr**2 for mean in means]))) / len(means)
    return Mean(value, spread, sum(mean.runs for mean in means))


def _judge_theorem3(curves: Curves) -> list[Finding]:
    printed, proof = STEPS[oracle.THEOREM], STEPS[oracle.PROOF]
    first = _everywhere(curves, f"{RISES}, first step", printed)
    every = _everywhere(curves, RISES, printed)
    return [
        below("as printed, no step makes the largest error larger", every, 1e-9, "part of runs"),
        noted("the same, already in the first step", first, "part of runs"),
        noted(
            "with |G_kj| for |G_jj|, as the proof has it: it rises",
            _everywhere(curves, RISES, proof),
            "part of runs",
        ),
    ]


def _judge_algorithm(curves: Curves) -> list[Finding]:
    name = STEPS[oracle.ALGORITHM]
    grown = _everywhere(curves, GROWTH, name)
    fixed = _everywhere(curves, GROWTH, STEPS[oracle.PROOF])
    return [
        below(
            f"after {ITERATIONS} iterations the largest error is smaller", grown, 1.0, "over first"
        ),
        noted("the same, with errors against the truth and the proof's step", fixed, "over first"),
        noted("as printed over that", over(grown, fixed)),
    ]


# --- Theorem 5 -----------------------------------------------------------------------------------


def _survey(epsilon: float) -> Survey:
    return Survey(epsilon, SIZES, Levels(), "sue", how="optimal")


def _losses() -> Sequence[Point]:
    found = []
    for epsilon in TICKS:
        survey = _survey(epsilon)
        found.append(Point("all attributes", "most open level", epsilon, survey.loss().epsilon))
        for level, loss in zip(survey.levels.names, survey.losses(0), strict=True):
            found.append(Point("attribute of 5 items", level, epsilon, loss.epsilon))
            found.append(Point("attribute of 5 items: promised", level, epsilon, loss.claimed))
    return found


def _jobs_theorem5(scale: Scale) -> Mapping[Name, Job]:
    del scale
    return {("losses",): Job(Exact(_losses))}


def _judge_theorem5(curves: Curves) -> list[Finding]:
    over_all = max(curves.at("all attributes", "most open level", e).value - e for e in TICKS)
    panel = "attribute of 5 items"
    over_level = max(
        curves.at(panel, level, e).value - curves.at(f"{panel}: promised", level, e).value
        for level in Levels().names
        for e in TICKS
    )
    return [
        fact(
            "each attribute costs what its level may spend",
            over_level <= 0,
            f"exact loss less budget: {over_level:.1g} at most",
            over_level,
        ),
        fact(
            "all attributes together cost epsilon at most",
            over_all <= 0,
            f"exact loss less epsilon: {over_all:.1g} at most",
            over_all,
        ),
        beside(
            "the level itself travels in the open",
            "the proof takes it as public: a level that depends on the value tells something",
        ),
    ]


def _audits() -> Sequence[Audited]:
    return [audited(f"epsilon {epsilon:g}", _survey(epsilon)) for epsilon in (1.0, 3.0, 6.0)]


OP_INSTEAD = "`combine.generalised`: OP needs the true histogram at every step, in whichever form."
FIGURES = {
    "M-T2": Figure(
        id="M-T2",
        where="Table 2",
        claim="The optimal privacy budget of each of five attributes, for total budgets 1 to 6.",
        jobs=_jobs_table,
        judge=_judge_table,
        verdict="in part",
        panels=(
            Panel(SUM, "epsilon", "sum / epsilon"),
            Panel(EXCESS, "epsilon", "ratio", log_y=True),
        ),
        instead="`planning.allocate.optimal(sizes, epsilon)`: the exact optimum, which adds up to "
        "epsilon. One attribute per person is better still up to epsilon 3 or so (`murmur plan`).",
        choices=("The printed heads are swapped: rows are epsilon, columns the attributes.",),
    ),
    "M-Th2": Figure(
        id="M-Th2",
        where="Theorem 2, equation 11",
        claim="Weights D_t / sum D have the least squared error, k n^2 / sum D.",
        jobs=_jobs_theorem2,
        judge=_judge_theorem2,
        verdict="holds",
        panels=(Panel(ERRORS, "epsilon", "squared error / equation 11"),),
        instead="`combine.generalised`: the same weights where levels agree, and a guard for when "
        "people's level depends on their answer, where these weights are biased.",
        choices=(
            "Equation 11 leaves out that each level is a sample of the people; that is below 1% of "
            "the error at these budgets.",
        ),
        hours=0.1,
    ),
    "M-Th3": Figure(
        id="M-Th3",
        where="Theorem 3",
        claim="With a step within the printed bounds the largest error does not rise.",
        jobs=_jobs_theorem3,
        judge=_judge_theorem3,
        verdict="false",
        panels=(Panel(RISES, "epsilon", "part of runs"),),
        instead=OP_INSTEAD,
        choices=("The largest step that the bounds allow; 20 iterations; n = 1,000.",),
        family="M-OP",
        hours=0.1,
    ),
    "M-Alg3": Figure(
        id="M-Alg3",
        where="Algorithm 3",
        claim="The perturbation method brings the largest error down, iteration by iteration.",
        jobs=_jobs_theorem3,
        judge=_judge_algorithm,
        verdict="false",
        panels=(Panel(GROWTH, "epsilon", "ratio", log_y=True),),
        instead=OP_INSTEAD,
        choices=(
            "As printed: errors against the target that the step before has moved, steps divided "
            "by G_jj.",
        ),
        family="M-OP",
        hours=0.1,
    ),
    "M-Th5": Figure(
        id="M-Th5",
        where="Theorem 5",
        claim="Each attribute satisfies the budget of the level that its holder picked, all "
        "together epsilon.",
        jobs=_jobs_theorem5,
        judge=_judge_theorem5,
        verdict="holds",
        panels=(Panel("all attributes", "epsilon", "exact loss"),),
        instead="The same law (`sue`), or subset, which has less error at the same loss.",
        audits=_audits,
    ),
}
