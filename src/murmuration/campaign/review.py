"""What a campaign asks, sends, reveals and costs, for anyone who has to agree to it.

Everything here follows from the campaign's integer laws: losses are exact, errors are what the
planner expects of the number of people that the campaign expects, in each attribute's own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from murmuration.audit.exact import Audit, audit
from murmuration.campaign.question import REFUSE, Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.errors import MurmurationError
from murmuration.exact.loss import PairwiseLoss
from murmuration.mechanisms.base import Mechanism
from murmuration.planning.candidates import GRADED
from murmuration.planning.choose import choose_frequency, choose_numeric
from murmuration.planning.longitudinal import InSpells, OverTime, Permanent

TOLD = 3.0
"""So many standard errors from 0 a cell is most likely told from an empty one."""
HOPELESS = 0.5
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Law:
    """One law that an attribute is answered by: the only one, or that of a level."""

    level: str
    """"" where people choose no levels."""
    mechanism: str
    budget: float
    loss: float
    """The exact loss of one entry; infinity if the promise is broken altogether."""
    charge: float
    """What the device's ledger is charged for it."""
    long_run: float | None
    """What any number of reports about one value tell; None if it is asked once."""
    all_stay: float | None
    """What all reports of one device tell about a value that stays; None if it is asked once."""
    all_change: float | None
    """What they tell between histories of values: of spells at most, else at least that."""
    ranges: tuple[str, ...]
    """The ranges of a graded attribute, in its own units."""
    pairs: Matrix | None
    """The exact loss between any two ranges, for a graded attribute."""
    pair_budgets: Matrix | None
    stderr: float
    """Expected at most, in the attribute's units; of a share, in root mean square."""
    certain: float
    """The same if no answer could be missing: what `missing = true` costs is the difference."""
    with_none: float | None
    """The same if an answer could be missing; None where it may be, or where no law takes that."""


@dataclass(frozen=True)
class Asked:
    """One attribute: how often it is asked, by which laws, and why by these."""

    question: Question
    share: float
    """How many of the people are asked."""
    laws: tuple[Law, ...]
    reason: str
    silence: tuple[str, ...]
    """When a device would be silent, and what that would tell; what is sent instead."""


@dataclass(frozen=True)
class Review:
    """A campaign in numbers."""

    campaign: SurveyCampaign
    asked: tuple[Asked, ...]
    loss: float
    """The exact loss of one whole report, at the most open level."""
    charge: float
    """What a device's ledger is charged for one report, at most."""
    audits: tuple[Audit, ...]
    """One for each different law."""

    @property
    def samplers_agree(self) -> bool:
        """Whether every sampler was tried and kept to its law."""
        return all(audit.sampler_agrees for audit in self.audits)

    @property
    def passed(self) -> bool:
        """Whether the promise is kept, or was given up in so many words, and samplers agree."""
        kept = self.loss <= self.campaign.epsilon or self.campaign.accept_loss is not None
        return kept and self.samplers_agree


def review(campaign: SurveyCampaign) -> Review:
    """Work out what a campaign reveals and what will come of it; run the audit on every law."""
    shares = shares_of(campaign)
    asked = tuple(
        Asked(question, share, *_laws(campaign, place, share), silence_of(campaign, place))
        for place, (question, share) in enumerate(zip(campaign.questions, shares, strict=True))
    )
    return Review(
        campaign,
        asked,
        campaign.loss().epsilon,
        campaign.charge,
        tuple(audit(law) for law in dict.fromkeys(campaign.frame.cells)),
    )


def shares_of(campaign: SurveyCampaign) -> list[float]:
    """Return how many of the people are asked about each attribute."""
    if campaign.strategy.gathers:
        return campaign.frame.cells[0].shares_asked()
    return campaign.strategy.shares(len(campaign.questions))


def _laws(campaign: SurveyCampaign, place: int, share: float) -> tuple[tuple[Law, ...], str]:
    question, people = campaign.questions[place], campaign.terms.people
    names = campaign.levels.names if campaign.levels is not None else ("",)
    laws = []
    for name, law in zip(names, campaign.laws_of(place), strict=True):
        loss, long_run = law.loss(), law.long_run()
        own = law.answering(place)
        certain = own.without_none() if question.missing else own
        with_none = None if question.missing else _with_none(campaign, own, question, share)
        graded = loss if isinstance(loss, PairwiseLoss) else None
        over_time = _over_time(campaign, law)
        told = _by_tables(campaign, question, own, share)
        laws.append(
            Law(
                level=name,
                mechanism=law.title,
                budget=law.budget,
                loss=loss.epsilon,
                charge=law.charge,
                long_run=None if long_run is None else long_run.epsilon,
                all_stay=None if over_time is None else over_time.stays(campaign.max_reports),
                all_change=None if over_time is None else over_time.changes(campaign.max_reports),
                ranges=_ranges(law, question),
                pairs=None if graded is None else _matrix(graded.pairwise.tolist()),
                pair_budgets=None if graded is None else graded.budgets,
                stderr=told * expected_stderr(own, question, share, people),
                certain=told * expected_stderr(certain, question, share, people),
                with_none=None
                if with_none is None
                else told * expected_stderr(with_none, question, share, people),
            )
        )
    return tuple(laws), _reason(campaign, law, question, share)


def _with_none(
    campaign: SurveyCampaign, law: Mechanism, question: Question, share: float
) -> Mechanism | None:
    """Return the law if an answer could be missing; None if there is no such law.

    Where the law is the planner's choice, it is the planner's choice for that, too.
    """
    if (
        campaign.strategy.gathers
        or question.derived
        or law.broken
        or (law.memoised and not law.domain.items)
    ):
        return None
    try:
        if _chosen(campaign, law, question, share, none=False).fingerprint == law.fingerprint:
            return _chosen(campaign, law, question, share, none=True)
        if law.domain.items:
            return replace(law, k=law.domain.items + 1)  # type: ignore[call-arg]
        return law.or_none()
    except MurmurationError:
        return None


def _chosen(
    campaign: SurveyCampaign, law: Mechanism, question: Question, share: float, none: bool
) -> Mechanism:
    """Return the planner's choice for a number or a category, with or without no answer."""
    asked, people = (1.0 if campaign.levels else share), campaign.terms.people
    if question.k is None:
        return choose_numeric(law.budget, asked, people, none).mechanism
    return choose_frequency(law.budget, question.k + none, asked, people).mechanism


def _ranges(law: Mechanism, question: Question) -> tuple[str, ...]:
    if question.kind == "graded":
        return tuple(law.domain.ranges(*question.range))
    return (*question.labels, *["no answer"] * question.missing) if law.graded else ()


def _over_time(campaign: SurveyCampaign, law: Mechanism) -> OverTime | None:
    """Return what all reports of one device tell; None where it is asked once."""
    if not law.memoised:
        return None
    return Permanent(law) if campaign.spells is None else InSpells(law, campaign.spells.length)


def _matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def expected_stderr(law: Mechanism, question: Question, share: float, people: int) -> float:
    """Return the expected standard error, for the crowd that is hardest, in the own units."""
    variance = law.cost(share) / share / people / law.domain.figures
    return math.sqrt(variance) * question.scale


def _by_tables(campaign: SurveyCampaign, question: Question, law: Mechanism, share: float) -> float:
    """Return what part of an expected error is left by what tables tell about a category."""
    tables = [(one, sides) for one, sides in campaign.tables.items() if question.name in one.of]
    if question.has_range or not tables:
        return 1.0
    people, shares = campaign.terms.people, shares_of(campaign)
    own = told = 1 / expected_stderr(law, question, share, people) ** 2
    for one, sides in tables:
        place = campaign.questions.index(one)
        cells = sides.shape[1 - one.of.index(question.name)]
        (asked,) = campaign.laws_of(place)
        told += people / _of_sum(asked, cells, shares[place])
    return math.sqrt(own / told)


def _of_sum(law: Mechanism, cells: int, share: float) -> float:
    """Return n times the squared error of a sum of cells, of a flat histogram."""
    quiet, slope = law.sum_noise(cells)
    flat = cells / law.domain.items
    return (quiet + slope * flat + (1 - share) * flat * (1 - flat)) / share


def _reason(campaign: SurveyCampaign, law: Mechanism, question: Question, share: float) -> str:
    """Say why this mechanism: the planner's words, if it is the planner's choice."""
    if campaign.strategy.gathers:
        return "all attributes are answered by one mechanism for tuples, as the file says"
    if law.memoised:
        kept = "a permanent answer" + ("" if campaign.spells is None else " for each spell")
        return f"the question may be asked again: {kept}, with fresh noise each time"
    if question.kind == "graded":
        optimal = law.without_none().name == GRADED
        return "least worst-case error that the budgets allow" if optimal else "as the file says"
    if law.graded:
        return "least error of the tables that the budgets of the labels allow"
    if question.of:
        return _of_table(expected_stderr(law, question, share, campaign.terms.people))
    if question.checks:
        return f"a part of the devices says whether {question.checks} fitted, instead of an answer"
    if question.kind == "distribution":
        return "shows the whole distribution, not only the mean"
    asked, people = (1.0 if campaign.levels else share), campaign.terms.people
    try:
        if question.k is None:
            choice = choose_numeric(law.epsilon, asked, people, question.missing)
        else:
            choice = choose_frequency(law.epsilon, question.k, asked, people)
    except MurmurationError:
        return "as the file says"
    if choice.mechanism.fingerprint == law.fingerprint:
        return choice.reason
    return f"as the file says; the planner would take {choice.mechanism.title}"


def _of_table(stderr: float) -> str:
    """Say from which share on a cell of a table can be told from 0, or that none can."""
    least = TOLD * stderr
    if least > HOPELESS:
        return (
            "both attributes together; hopeless at this epsilon with so few people: even a cell "
            f"with {HOPELESS:.0%} of all people could not be told from an empty one"
        )
    return f"both attributes together; a cell with {least:.2g} of all people is told from none"


# --- silence -------------------------------------------------------------------------------------


SPOKEN = "nobody needs to be silent: no answer is sent as one, and protected as any other"


def silence_of(campaign: SurveyCampaign, place: int) -> tuple[str, ...]:
    """Say when a device would be silent about an attribute, and what that would tell.

    Silence is no report: nothing of what is here is covered by any epsilon.
    """
    question = campaign.questions[place]
    if question.derived:
        return ()  # whoever answers the attributes that it is about answers it, too
    if question.missing:
        return (SPOKEN, *_running_out(campaign, place))
    texts = []
    if question.outside == REFUSE:
        other = "the nearer end" if question.kind != "category" else "a label by chance"
        texts.append(
            f"an answer outside is refused: a device that may be silent is silent, which tells "
            f"that the answer is outside (others send {other})"
        )
    alone = len(campaign.given) == 1
    whole = "" if alone else ", and its other answers are lost too"
    memoised = campaign.repeated and question.kind != "category"  # such a number takes no missing
    hint = "" if memoised else ". missing = true makes no answer an answer"
    texts.append(
        f"without an answer a device sends nothing{whole}: that tells that there is none{hint}"
    )
    return (*texts, *_running_out(campaign, place))


def without_budget(campaign: SurveyCampaign) -> str:
    """Say what a device does whose limits do not hold a report, and what that would tell."""
    if campaign.can_say_none:
        return (
            "a device that must not spend more says no answer, at no cost: a report tells whether "
            "a budget was left by at most its epsilon"
        )
    return (
        "a device that must not spend more sends nothing: that tells that it has told somebody "
        "before. missing = true for all attributes lets it say no answer"
    )


def _running_out(campaign: SurveyCampaign, place: int) -> list[str]:
    """Say what a device does that has had more values than the limit of a campaign pays for."""
    if not campaign.repeated or campaign.limit is None or campaign.spells is not None:
        return []
    if not campaign.laws_of(place)[0].by_value:
        return []  # a number is paid for once, whatever its values
    dearest = max(law.charge for law in campaign.laws_of(place))
    once = [law for law in campaign.frame.cells if campaign.prepays_none or not law.by_value]
    reserved = sum(law.charge for law in once)
    most = max(0, math.floor((campaign.limit - reserved) / dearest + 1e-9))
    pays = f"the limit pays for {most} different value{'s' * (most != 1)}, of all attributes"
    if campaign.prepays_none:
        return [f"{pays}, then a device goes on with no answer, which was paid for at first"]
    return [
        f"{pays}, then it is silent for good: that tells how often the answer changed. "
        "missing = true for all attributes lets it go on with no answer"
    ]
