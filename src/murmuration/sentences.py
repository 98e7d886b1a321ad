"""What people are told about cost, bounds, plans and intervals: facts in, one sentence out.

Every page, command and device says these sentences and no others of their kind. The same functions
are in TypeScript (`web/client/src/sentences.ts`), and `docs/vectors/sentences.json` holds both to
the same words. A bound is rounded up, and what is left of a budget down: no sentence promises more
than is kept.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

ENDLESS = "∞"
MOST_EXPONENT, MOST_SAID = 700.0, 20.0
"""Beyond the first e^loss is as good as infinite, beyond the second anybody as good as certain."""
NEAR = 1e-12
"""A factor that is a round number but for so much of itself is said to be that number."""


# --- numbers -------------------------------------------------------------------------------------


def rough(value: float, digits: int = 3, rounding: str = ROUND_HALF_UP) -> str:
    """Return a number to some significant digits, as English writes it.

    >>> [rough(value) for value in (0.5, 2.71828, 1234.5, 65_659_969.1, 0.000123456)]
    ['0.5', '2.72', '1,230', '65,700,000', '0.000123']
    """
    if math.isinf(value):
        return ENDLESS
    exact = Decimal(value)
    if not exact:
        return "0"
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    text = f"{exact.quantize(step, rounding=rounding):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def above(value: float, digits: int = 3) -> str:
    """Return a cost or a loss, never said to be less than it is.

    >>> above(2.001), above(1.0000000000000002)
    ('2.01', '1')
    """
    return rough(value * (1 - NEAR), digits, ROUND_CEILING)


def below(value: float, digits: int = 3) -> str:
    """Return what is left, never said to be more than it is."""
    return rough(value * (1 + NEAR), digits, ROUND_FLOOR)


def times(loss: float) -> str:
    """Return e^loss, rounded up to three digits: never said to be less than it is.

    >>> [times(loss) for loss in (0.0, 1.0, 2.0, math.inf)]
    ['1', '2.72', '7.39', '∞']
    """
    return ENDLESS if loss > MOST_EXPONENT else above(math.exp(loss))


def certainty(loss: float) -> str:
    """Return how sure of one of two answers anybody can be who thought both equally likely.

    Rounded up, with as many digits as it takes to stay below 100%.

    >>> [certainty(loss) for loss in (0.0, 1.0, 4.0, 12.0)]
    ['50%', '73.2%', '98.3%', '99.9994%']
    """
    doubt = Decimal(100) / (1 + Decimal(math.exp(loss) * (1 - NEAR)))
    decimals = max(1, -doubt.adjusted())
    text = f"{100 - doubt.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR):f}"
    return f"{text.rstrip('0').rstrip('.')}%"


# --- what one report tells -----------------------------------------------------------------------


def odds(loss: float) -> str:
    """Say by how much a report changes what anybody thought.

    >>> odds(2.0)
    'Whatever somebody thought before, a report changes the odds by at most a factor of 7.39.'
    """
    if math.isinf(loss):
        return "Some report is possible for one answer only: whoever sees it can be certain."
    return (
        "Whatever somebody thought before, a report changes the odds by at most a factor of "
        f"{times(loss)}."
    )


def sure(loss: float) -> str:
    """Say how sure a report can make somebody.

    >>> sure(1.0)[:79]
    'Somebody who thought two answers equally likely can then be at most 73.2% sure '
    """
    least = "Somebody who thought two answers equally likely can then be"
    if loss > MOST_SAID:
        return f"{least} as good as certain of one of them."
    return f"{least} at most {certainty(loss)} sure of one of them, whatever else they know."


def reveals(loss: float, promised: float, accepted: str | None = None) -> str:
    """Say the loss of one report beside what is promised.

    >>> reveals(0.99999999, 1.0), reveals(2.0986122886681096, 1.0, "a loss of ...")
    ('1 of a promised 1 (epsilon)', '2.098613, more than the promised 1 (epsilon), as the campaign \
says: a loss of ...')
    """
    amount, limit = above(loss, 7), rough(promised, 7)
    if accepted is None:
        return f"{amount} of a promised {limit} (epsilon)"
    return f"{amount}, more than the promised {limit} (epsilon), as the campaign says: {accepted}"


def promise(loss: float) -> str:
    """Say how much likelier a report is with the own answers.

    >>> promise(1.0)[:73]
    'Your report is at most 2.72 times as likely as with any other answers: wh'
    """
    return (
        f"Your report is at most {times(loss)} times as likely as with any other answers: whoever "
        "sees it cannot be sure."
    )


def level_offer(name: str, loss: float) -> str:
    """Say what a privacy level means.

    >>> level_offer("high", 1.0)
    'high: a report at most 2.72 times as likely as with any other answers'
    """
    return f"{name}: a report at most {times(loss)} times as likely as with any other answers"


# --- what all reports tell -----------------------------------------------------------------------


def all_reports(bound: float, hidden: bool) -> str:
    """Say what all reports to a question that comes back tell together.

    `hidden`: the bound holds whatever the answers do; else as long as each stays as it is.

    >>> all_reports(2.0, hidden=False)[-69:]
    ', as long as an answer stays as it is. When it changes is not hidden.'
    """
    first = (
        "This campaign asks again: all your reports together change the odds by at most a factor "
        f"of {times(bound)}"
    )
    if hidden:
        return f"{first}, whatever your answers do, and when."
    return f"{first}, as long as an answer stays as it is. When it changes is not hidden."


# --- what is spent -------------------------------------------------------------------------------


def cost(most: float) -> str:
    """Say what a report costs.

    >>> cost(1.0), cost(math.inf)
    ('A report costs at most 1 of your privacy budget (epsilon).', 'A report costs more than any \
privacy budget (epsilon).')
    """
    if math.isinf(most):
        return "A report costs more than any privacy budget (epsilon)."
    return f"A report costs at most {above(most)} of your privacy budget (epsilon)."


def reserve(amount: float) -> str:
    """Say what the first report costs more, so that "no answer" can be said later.

    >>> reserve(2.0)
    'The first report costs 2 more, for “no answer” later on.'
    """
    return f"The first report costs {above(amount)} more, for “no answer” later on."


def spent(campaign: float, left: float) -> str:
    """Say what a campaign was given so far, and what is left for all.

    >>> spent(1.0, 15.0)
    'Spent on this campaign: 1. Left for all campaigns: 15.'
    """
    rest = "no limit" if math.isinf(left) else below(left)
    return f"Spent on this campaign: {above(campaign)}. Left for all campaigns: {rest}."


# --- what an operator is told, before a collection -----------------------------------------------


def one_and_all_spells(
    one: float, everything: float, reports: int, spells: int, length: str, each: float
) -> str:
    """Say what the reports of all spells tell.

    >>> one_and_all_spells(1.0, 8.0, 52, 4, "13 weeks", 2.0)[:60]
    'one report 1, all 52 together 8 at most, whatever the value '
    """
    return (
        f"one report {one:.7g}, all {reports:,} together {everything:.7g} at most, whatever the "
        f"value does and when: {spells} spells of {length}, {each:.7g} each"
    )


CHANGES_IN_SPELLS = (
    "a change shows when the next spell begins, for everybody at once; that something changed "
    "before is hidden"
)


def one_and_all_alike(one: float, everything: float, new_value: bool) -> str:
    """Say what reports about a value that stays tell; `new_value`: another one costs that again.

    >>> one_and_all_alike(1.0, 2.0, new_value=False)
    'one report 1, any number of reports about a value that stays 2 together'
    """
    new = "; a new value costs that again" if new_value else ""
    return (
        f"one report {one:.7g}, any number of reports about a value that stays "
        f"{everything:.7g} together{new}"
    )


def changes_show(reports: int, told: float, threshold: bool) -> str:
    """Say what is not hidden where values change; `threshold`: a number's change alone shows.

    >>> changes_show(52, 36.8, threshold=True)[:71]
    'when the value passes the threshold that the device keeps; about that a'
    """
    side = "passes the threshold that the device keeps" if threshold else "changes"
    least = "" if threshold else "or more "
    return (
        f"when the value {side}; about that all {reports:,} reports can tell {told:.3g} {least}"
        '(law = "spells" bounds it)'
    )


def may_spend(
    one: float,
    limit: float | None,
    *,
    spells: bool,
    by_value: bool,
    numbers: bool,
    says_none: bool = False,
) -> str:
    """Say what a device may spend on a campaign.

    `by_value`: what is kept is paid for with each new value; `numbers`: for numbers only once;
    `says_none`: where the limit is reached it says "no answer", which is paid for by then.

    >>> may_spend(1.0, None, spells=False, by_value=False, numbers=False)
    '1 for its one report, and nothing after that'
    """
    report = f"{one:.6g}" if math.isfinite(one) else "an infinite amount"
    if limit is None:
        return f"{report} for its one report, and nothing after that"
    if spells:
        return (
            f"{report} for a report at most: once for each attribute and spell, whatever the "
            f"values, {limit:g} over the whole campaign"
        )
    if by_value:
        once = " (for a number once, whatever its values)" if numbers else ""
        return (
            f"{report} for each new value that it reports{once}, nothing for saying it again, "
            f"{limit:g} over the whole campaign; then it "
            + ('says "no answer"' if says_none else "stops")
        )
    return f"{report} per report at most, {limit:g} over the whole campaign; then it stops"
