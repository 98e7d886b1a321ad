"""Figures by period: each period's own, several together, and what has changed in between.

In one period a person sends one report, so a period's figures are those of any campaign: reports of
different people are independent. Reports of one person in several periods are not: they rest on
permanent answers, and nobody can tell whose they are. So what is said over several periods assumes
the worst about that:

    together   sum w_t x_t, w_t the part of period t in the people of all periods. Its standard
               error is sum w_t s_t, which it is where the periods are fully correlated, and never
               more (Minkowski). Who reports in several periods counts in each
    change     x_t - x_s has Var s_t^2 + s_s^2 - 2 Cov(x_t, x_s), at most s_t^2 + s_s^2 where no
               person's reports vary against each other

Of a permanent answer A that is sent with fresh noise that is so: with one value in both periods the
covariance of a person's two reports is Var(E[report | A]) >= 0, with two values the two permanent
answers are drawn independently, and it is 0. It is so of figures among those who answered, too:
the covariance of what is read for two shares q and q' is P(v) P(none) (1-q) (1-q') or more. With
spells a device says one answer, and it is so of every law. A number without spells is read by a
threshold and a lie that are kept: a value that goes from one end to the other turns the report
round. Then the law says by how much at most (`Mechanism.opposition`), and 2 opposition/n comes on
top, n the reports of the period that has more. About the population a person's own answers may
swing, too; with n_t the noise alone and o_t the rest of s_t it is

    n_t^2 + n_s^2 + (o_t + o_s)^2.

Has anything changed? Of all pairs of periods and all figures the clearest difference, its chance
times their number (Bonferroni). If no value has changed, no two reports of a person vary against
each other; but other people may report, and those who do are other people then. So the variance is
s_t^2 + s_s^2, about the population from which those who report are drawn. Each difference is held
against the intervals of both figures with the confidence that so many comparisons need, so that
tails are those of the figures, and not normal where few reports differ. What differs among those
who reported is tested beside it: that is sharper, and says less. (A chi-square over all periods
would be sharper, and wrong: where some people report in the first half of the periods and others in
the second, all covariances are >= 0 and the halves differ by more than independent periods would.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import msgspec
import numpy as np
from scipy.special import ndtr

from murmuration.analysis import read
from murmuration.analysis.figures import Attribute, Period
from murmuration.analysis.read import Reading
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.question import ANSWERED
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.cohort import enough, needed
from murmuration.errors import CohortError, ParameterError
from murmuration.exact.arrays import Floats
from murmuration.results.change import Change, Changed
from murmuration.results.estimate import About
from murmuration.results.figure import Figure
from murmuration.statistics.liars import SHARE
from murmuration.statistics.score import normal_quantile

LAST, ALL = "last", "all"
ALPHA = 0.05
"""How often, at most, the test says that something has changed when nothing has."""
STEPS = 5
"""By which the chance of the clearest difference is found."""
NEAREST, FARTHEST = 0.01, 7.5
"""How many deviations are told apart: chances of 0.99 and more, and below 1e-13, are not."""
SAFE = "as if reports of two periods were independent: never too narrow"
SWINGS = (
    "as if reports of two periods were independent and every value had gone from one end to the "
    'other: never too narrow, and too wide where few did (law = "spells" has no such allowance)'
)

Item = tuple[str, str]
"""An attribute, and which of its figures."""
Ends = dict[Item, tuple[float, float]]
"""The interval of each figure."""


@dataclass(frozen=True)
class Over:
    """One figure over all periods that show it."""

    item: Item
    figures: Mapping[int, Figure]
    noise: Floats
    """Of each, the standard error of the noise alone."""
    opposition: float
    """By how much two reports of a person vary against each other, at most; squared units."""

    @cached_property
    def values(self) -> Floats:
        """The figures themselves."""
        return np.array([figure.value for figure in self.figures.values()])

    @cached_property
    def errors(self) -> Floats:
        """Their standard errors."""
        return np.array([_error(figure) for figure in self.figures.values()])

    def deviations(self) -> Floats:
        """Return the standard error of the difference of each two of them, at most."""
        own = np.sqrt(np.maximum(self.errors**2 - self.noise**2, 0.0))
        square = self.noise[:, None] ** 2 + self.noise**2 + (own[:, None] + own) ** 2
        reports = np.array([float(figure.n) for figure in self.figures.values()])
        turned = 2 * self.opposition / np.maximum(reports[:, None], reports)
        return np.asarray(np.minimum(np.sqrt(square + turned), self.errors[:, None] + self.errors))

    def only(self, places: Sequence[int]) -> Over:
        """Return the same figure over some of the periods."""
        periods = list(self.figures)
        kept = {periods[place]: self.figures[periods[place]] for place in places}
        return replace(self, figures=kept, noise=self.noise[list(places)])

    def deviations_of_chance(self) -> Floats:
        """Return the same where nobody's value has changed and those who report are drawn."""
        return np.asarray(np.hypot(self.errors[:, None], self.errors))


class Periods:
    """A campaign's tallies by period, and what they say."""

    def __init__(
        self,
        campaign: SurveyCampaign,
        tallies: ByPeriod,
        about: str = "participants",
        confidence: float = 0.95,
        combine: str = "",
        together: int | None = None,
        cohort: int | None = None,
        before: Periods | None = None,
        liars: float = SHARE,
    ) -> None:
        """Take all that `read.reading` does; the cohort holds for each period.

        `before` is the same at an earlier look: periods in which nothing has come since are not
        read again.
        """
        campaign.name_of(0)  # refuses a campaign without periods
        self.campaign, self.confidence, self.about = campaign, confidence, about
        self._tallies = dict(sorted(tallies.items()))
        self._how = (confidence, cohort, combine, together, liars)
        self._read: dict[tuple[int, str], Reading] = {}
        self._lines: dict[tuple[bool, str], list[Over]] = {}
        self._limits: dict[tuple[int, str, float], Ends] = {}
        if before is not None:
            same = {period for period in self._tallies if before._counts(self, period)}
            self._read = {key: reading for key, reading in before._read.items() if key[0] in same}
            self._limits = {key: limit for key, limit in before._limits.items() if key[0] in same}

    # --- one period ------------------------------------------------------------------------------

    @cached_property
    def people(self) -> dict[int, int]:
        """How many people each period shows: each sends one report."""
        least, reports = needed(self.campaign, self._how[1]), self.campaign.frame.reports
        return {period: reports(enough(own, least)) for period, own in self._tallies.items()}

    def least_people(self) -> int:
        """Return how many people all periods show at least: as many as the largest has."""
        sizes = self.people.values()
        return max([-(-sum(sizes) // self.campaign.max_reports), *sizes])

    def reading(self, period: int, about: str = "") -> Reading:
        """Return all figures of one period, and what is hidden; figures say their period."""
        subject = about or self.about
        if (period, subject) not in self._read:
            own = self._tallies.get(period) or self.campaign.frame.empty()
            reading = read.reading(self.campaign, own, subject, *self._how, one_each=True)
            named = self.campaign.name_of(period)
            dated = [replace(figure, period=named) for figure in reading.figures]
            self._read[period, subject] = replace(reading, figures=dated)
        return self._read[period, subject]

    def _counts(self, other: Periods, period: int) -> bool:
        """Whether both have the same counts of a period."""
        own, others = self._tallies.get(period, ()), other._tallies.get(period, ())
        return len(own) == len(others) and all(
            mine.n == theirs.n and np.array_equal(mine.counts, theirs.counts)
            for mine, theirs in zip(own, others, strict=True)
        )

    @cached_property
    def shown(self) -> list[int]:
        """The periods of which anything is shown, in their order."""
        return [period for period in self._tallies if self.reading(period).figures]

    def listed(self) -> list[Period]:
        """Return all periods that have reports."""
        name = self.campaign.name_of
        return [Period(name(p), n, p in self.shown) for p, n in self.people.items()]

    def chosen(self, text: str) -> int:
        """Return the number of a period by its name; "last" is the last one that is shown."""
        if text != LAST:
            return self.campaign.period_named(text)
        if not self._tallies:
            raise CohortError("no period has answers of enough people yet")
        return (self.shown or list(self._tallies))[-1]

    def before(self, period: int) -> int | None:
        """Return the last shown period before one; None if it is the first."""
        return max((earlier for earlier in self.shown if earlier < period), default=None)

    # --- several together ------------------------------------------------------------------------

    def pooled(self) -> Reading:
        """Return the figures of all periods together, each period weighed by its people."""
        figures = [self._pooled(over) for over in self._over(bounded=False)]
        by_period = [self.reading(period).attributes for period in self._tallies]
        attributes = [_over_all(own) for own in zip(*by_period, strict=True)]
        said = [warning for period in self.shown for warning in self.reading(period).warnings]
        return Reading(figures, attributes, said)

    def _pooled(self, over: Over) -> Figure:
        figures = list(over.figures.values())
        people = np.array([float(self.people[period]) for period in over.figures])
        weights = people / people.sum()
        first, value = figures[0], float(weights @ [figure.value for figure in figures])
        many = f"{len(figures)} {self.campaign.every}{'s' * (len(figures) != 1)}"
        said = (
            f"{many}, each weighed by its people: who reports in several counts in each, and the "
            "interval is as if a person's reports were all alike"
        )
        return replace(
            first,
            value=value,
            stderr=_weighed(weights, [figure.stderr for figure in figures]),
            low=_weighed(weights, [figure.low for figure in figures]),
            high=_weighed(weights, [figure.high for figure in figures]),
            n=sum(figure.n for figure in figures),
            note="; ".join(filter(None, [first.note, said])),
            period=ALL,
            liars=self._moved(over),
        )

    def _moved(self, over: Over) -> float | None:
        """Return how far liars can have moved a figure of all periods, if that can be said.

        Wherever they lie: in period t a lie moves the whole by N_t/(N n_t) of what it can move, so
        that s N lies move it by s max(N_t/n_t) of that at most: the most of all periods. Not so for
        quotients, and where levels differ in how far a lie moves.
        """
        names = [question.name for question in self.campaign.questions]
        attribute, item = over.item
        quotient = self.campaign.questions[names.index(attribute)].missing and item != ANSWERED
        bounds = [figure.liars for figure in over.figures.values()]
        known = [bound for bound in bounds if bound is not None]
        if quotient or self.campaign.levels is not None or len(known) < len(bounds):
            return None
        return max(known)

    def _over(self, bounded: bool = True, about: str = "") -> list[Over]:
        """Return each figure over the periods that show it; if `bounded`, where it has an error."""
        key = bounded, about or self.about
        if key not in self._lines:
            self._lines[key] = list(self._collected(*key))
        return self._lines[key]

    def _collected(self, bounded: bool, about: str) -> Iterator[Over]:
        collected: dict[Item, dict[int, Figure]] = {}
        for period in self.shown:
            for figure in self.reading(period, about).figures:
                if not bounded or _error(figure) < math.inf:
                    collected.setdefault((figure.attribute, figure.item), {})[period] = figure
        population = About.parse(about) is About.POPULATION
        quiet = self._quiet() if bounded and population else {}
        for item, figures in collected.items():
            noise = np.array(
                [quiet.get((period, *item), _error(figure)) for period, figure in figures.items()]
            )
            yield Over(item, figures, noise, self._opposition(item[0]))

    def _quiet(self) -> dict[tuple[int, str, str], float]:
        """Return the error of each figure that is its noise."""
        return {
            (period, figure.attribute, figure.item): _error(figure)
            for period in self.shown
            for figure in self.reading(period, About.PARTICIPANTS.value).figures
        }

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each attribute is."""
        return {question.name: at for at, question in enumerate(self.campaign.questions)}

    def _opposition(self, attribute: str) -> float:
        """Return by how much two reports of a person vary against each other in this attribute.

        In a spell a device says one answer, whatever its values; spells are drawn apart.
        """
        if self.campaign.spells is not None:
            return 0.0
        place = self._places[attribute]
        scale = self.campaign.questions[place].scale
        return scale**2 * max(law.opposition for law in self.campaign.laws_of(place))

    # --- what has changed ------------------------------------------------------------------------

    def changes(self, after: int, before: int | None = None) -> list[Change]:
        """Return by how much each figure has changed since a period, or since the one before."""
        since = self.before(after) if before is None else before
        if since is None:
            return []
        if since == after:
            raise ParameterError("a change is between two periods")
        changes = []
        for over in self._over():
            if since in over.figures and after in over.figures:
                changes.append(self._change(over, since, after))
        return changes

    def _change(self, over: Over, before: int, after: int) -> Change:
        """Return one change; its interval reaches as far as those of both figures do (MOVER)."""
        places = list(over.figures)
        earlier, other = over.figures[before], over.figures[after]
        stderr = float(over.deviations()[places.index(before), places.index(after)])
        value, factor = (
            other.value - earlier.value,
            stderr / math.hypot(_error(earlier), _error(other)),
        )
        down = factor * math.hypot(other.value - _low(other), _high(earlier) - earlier.value)
        up = factor * math.hypot(_high(other) - other.value, earlier.value - _low(earlier))
        names = (self.campaign.name_of(before), self.campaign.name_of(after))
        note = SWINGS if over.opposition else SAFE
        return Change(*over.item, *names, value, stderr, value - down, value + up, other.unit, note)

    def changed(self) -> Changed | None:
        """Return whether anything has changed over all periods; None if none can be compared.

        With it comes the test of those who reported, who may have been others in each period.
        """
        clearest = self._clearest(About.POPULATION)
        return clearest and replace(clearest, reporters=self._clearest(About.PARTICIPANTS))

    def _clearest(self, about: About) -> Changed | None:
        """Test all differences at once, about the population or those who reported."""
        lines = [over for over in self._over(about=about.value) if len(over.figures) > 1]
        tried = sum(math.comb(len(over.figures), 2) for over in lines)
        if not tried:
            return None
        z = normal_quantile(1 - ALPHA / tried)
        ratios = [self._ratios(over, about, partial(self._ends, z=z)) for over in lines]
        clearest = int(np.argmax([ratio.max() for ratio in ratios]))
        over = lines[clearest].only(_clearest_pair(ratios[clearest]))
        for _ in range(STEPS):
            ends = partial(self._ends_at, z=z, attribute=over.item[0])
            z = max(min(z * float(self._ratios(over, about, ends).max()), FARTHEST), NEAREST)
        p_value = min(1.0, 2 * float(ndtr(-z)) * tried)
        before, after = map(self.campaign.name_of, over.figures)
        said = (p_value <= ALPHA, p_value, ALPHA, tried, *over.item)
        return Changed(*said, before, after, about.value)

    @staticmethod
    def _ratios(over: Over, about: About, ends: Callable[[int, About], Ends]) -> Floats:
        """Return each two periods' difference, in what the interval of it reaches (MOVER).

        A row for the larger figure, a column for the smaller one; 0 elsewhere.
        """
        low, high = np.array([ends(period, about)[over.item] for period in over.figures]).T
        apart = over.values[:, None] - over.values
        reach = np.hypot((over.values - low)[:, None], high - over.values)
        if about is About.PARTICIPANTS:
            reach = reach * over.deviations() / over.deviations_of_chance()
        larger = (apart > 0) & (reach > 0)
        return np.asarray(np.divide(apart, reach, out=np.zeros_like(apart), where=larger))

    def _ends(self, period: int, about: About, z: float) -> Ends:
        """Return the ends of all intervals of one period, and keep them for the next look."""
        key = period, about.value, z
        if key not in self._limits:
            self._limits[key] = self._ends_at(period, about, z)
        return self._limits[key]

    def _ends_at(self, period: int, about: About, z: float, attribute: str = "") -> Ends:
        """Return the ends of all intervals of one period (of one attribute) at this z."""
        own, (_, cohort, combine, *_) = self._tallies[period], self._how
        least = needed(self.campaign, cohort)
        parts = read.parts(self.campaign, own, about.value, combine, one_each=True, least=least)
        confidence = 1 - 2 * float(ndtr(-z))
        return {
            (figure.attribute, figure.item): (_low(figure), _high(figure))
            for question, part in zip(self.campaign.questions, parts, strict=True)
            if part is not None and attribute in ("", question.name)
            for figure in read.in_units(question, part, [], confidence)
        }

    # --- the trend -------------------------------------------------------------------------------

    def trend(self, attribute: str = "") -> list[Figure]:
        """Return every figure (of an attribute) in every period that is shown, figure by figure."""
        kept = [over for over in self._over(bounded=False) if attribute in ("", over.item[0])]
        return [figure for over in kept for figure in over.figures.values()]


def _over_all(own: Sequence[Attribute]) -> Attribute:
    """Return an attribute over all periods: shown if one of them shows it."""
    answers = sum(figure.answers for figure in own if not figure.hidden)
    left = sum(figure.hidden for figure in own)
    if not answers:
        most = max(own, key=lambda figure: figure.answers)
        return msgspec.structs.replace(most, note="of no period there are enough")
    note = f"{left} of {len(own)} periods are left out: too few answers" if left else ""
    note = "; ".join(filter(None, [own[-1].note, note]))
    return msgspec.structs.replace(own[-1], answers=answers, hidden=False, note=note)


def _clearest_pair(ratios: Floats) -> list[int]:
    """Return the two periods that differ most; the first two where none differ.

    >>> _clearest_pair(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.7, 0.2, 0.0]]))
    [0, 2]
    """
    either = np.triu(np.maximum(ratios, ratios.T), 1)
    first, second = np.triu_indices(len(ratios), 1)
    place = int(either[first, second].argmax())
    return [int(first[place]), int(second[place])]


def _error(figure: Figure) -> float:
    return math.inf if figure.stderr is None or figure.low is None else figure.stderr


def _low(figure: Figure) -> float:
    return -math.inf if figure.low is None else figure.low


def _high(figure: Figure) -> float:
    return math.inf if figure.high is None else figure.high


def _weighed(weights: Floats, parts: Sequence[float | None]) -> float | None:
    """Return the weighed sum; None if a part is not known."""
    known = [part for part in parts if part is not None]
    return float(weights @ known) if len(known) == len(parts) else None
