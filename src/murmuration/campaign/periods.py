"""Periods of a question that comes back: days, weeks or months, each a number and a name.

    day     2026-11-18   days since 1970-01-01
    week    2026-W47     Monday to Sunday, as ISO 8601 names them; that of 1970-01-01 is 0
    month   2026-11      months since January 1970

All in UTC: a period is the same for everybody. A report says its period, which the device reads off
its clock; how far off a clock may be, and for how long a period stays open, is said here too, and
the collector goes by it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from murmuration.errors import ParameterError

EVERY = ("day", "week", "month")
PERIOD_BYTES = 4
"""Of a period's number, little-endian, before a report's entries."""
CLOCK = timedelta(days=1)
"""By how much a device's clock may be ahead: a period that begins later cannot be."""
GRACE = 1
"""For how many periods more one stays open, so that devices that were offline can send."""
_FIRST, _LAST = date(1970, 1, 1), date(9998, 12, 31)


def period_of(every: str, moment: date | datetime) -> int:
    """Return the number of the period that a date, or a moment, lies in.

    >>> [period_of(every, date(2026, 11, 18)) for every in EVERY]
    [20775, 2968, 682]
    """
    day = moment.astimezone(UTC).date() if isinstance(moment, datetime) else moment
    if every == "month":
        return (day.year - _FIRST.year) * 12 + day.month - 1
    days = (day - _FIRST).days
    return days if every == "day" else (days + 3) // 7


def start_of(every: str, period: int) -> date:
    """Return the first day of a period.

    >>> [start_of(every, period_of(every, date(2026, 11, 18))).isoformat() for every in EVERY]
    ['2026-11-18', '2026-11-16', '2026-11-01']
    """
    if every == "month":
        return date(_FIRST.year + period // 12, period % 12 + 1, 1)
    return _FIRST + timedelta(days=period if every == "day" else 7 * period - 3)


def name_of(every: str, period: int) -> str:
    """Return the name of a period.

    >>> [name_of(every, period_of(every, date(2026, 11, 18))) for every in EVERY]
    ['2026-11-18', '2026-W47', '2026-11']
    """
    start = start_of(every, period)
    if every == "week":
        year, week, _ = start.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return start.isoformat()[: 7 if every == "month" else 10]


def number_of(every: str, text: str) -> int:
    """Return the number of a period by its name, or by any date or moment in it.

    >>> number_of("week", "2026-W47") == number_of("week", "2026-11-18")
    True
    """
    try:
        if every == "week" and len(text) == 8 and text[4:6] == "-W":
            return _possible(every, date.fromisocalendar(int(text[:4]), int(text[6:]), 4))
        if every == "month" and len(text) == 7:
            return _possible(every, date.fromisoformat(f"{text}-01"))
        if len(text) == 10:
            return _possible(every, date.fromisoformat(text))
        moment = datetime.fromisoformat(text)
        return _possible(every, moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        example = name_of(every, period_of(every, date(2026, 11, 18)))
        raise ParameterError(
            f"a {every} is named like {example}, or by a date in it; got {text!r}"
        ) from None


def _possible(every: str, moment: date | datetime) -> int:
    period = period_of(every, moment)
    if not 0 <= period <= last_possible(every):
        raise ValueError("before 1970, or after 9998")
    return period


def last_possible(every: str) -> int:
    """Return the last period that there is: beyond it nothing has a name."""
    return period_of(every, _LAST)


def open_at(every: str, now: datetime, opens: datetime | None = None, grace: int = GRACE) -> range:
    """Return the periods of which a collector takes reports at that moment.

    Not one that begins more than a day from now (clocks are off), nor one that ended before the
    campaign opened, or more than `grace` periods ago.

    >>> wednesday = datetime(2026, 11, 18, tzinfo=UTC)
    >>> [name_of("week", week) for week in open_at("week", wednesday)]
    ['2026-W46', '2026-W47']
    >>> [name_of("week", week) for week in open_at("week", wednesday + timedelta(days=4))]
    ['2026-W46', '2026-W47', '2026-W48']
    """
    first = max(0, period_of(every, now) - grace)
    if opens is not None:
        first = max(first, period_of(every, opens))
    return range(first, period_of(every, now + CLOCK) + 1)
