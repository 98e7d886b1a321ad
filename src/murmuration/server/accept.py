"""Which form of an answer a client likes best, by its Accept headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from murmuration.analysis.figures import FORMATS


def preferred(accept: str) -> str | None:
    """Return the form that an Accept header likes best; None if it likes none.

    >>> preferred("text/csv, */*;q=0.1"), preferred("text/html, */*"), preferred("text/html")
    ('csv', 'json', None)
    """
    ranges = dict(_range(part) for part in accept.lower().split(","))
    qualities = {form: _quality(ranges, media) for form, media in FORMATS.items()}
    best = max(qualities, key=lambda form: qualities[form])
    return best if qualities[best] else None


def encoding(accept: str, known: Iterable[str]) -> str:
    """Return the content encoding to answer in: of the most welcome ones, the first that is known.

    The last one that is known is the plain form, which is always welcome enough.

    >>> known = ("br", "gzip", "identity")
    >>> [encoding(accept, known) for accept in ("gzip, br", "gzip, *;q=0.5", "br;q=0", "")]
    ['br', 'gzip', 'identity', 'identity']
    """
    ranges = dict(_range(part) for part in accept.lower().split(","))
    *forms, plain = known
    qualities = {form: ranges.get(form, ranges.get("*", 0.0)) for form in forms}
    best = max(qualities, key=lambda form: qualities[form], default=plain)
    return best if qualities.get(best) else plain


def _range(part: str) -> tuple[str, float]:
    name, _, parameters = part.partition(";")
    weight = re.search(r"\bq=(0(?:\.\d*)?|1)", parameters)
    return name.strip(), float(weight[1]) if weight else 1.0


def _quality(ranges: Mapping[str, float], media: str) -> float:
    """Return how welcome a media type is, by the most specific range that has it."""
    names = (media, f"{media.partition('/')[0]}/*", "*/*")
    return next((ranges[name] for name in names if name in ranges), 0.0)
