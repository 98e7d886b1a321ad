"""Which form of estimates a client likes best, by its Accept header."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def _range(part: str) -> tuple[str, float]:
    name, _, parameters = part.partition(";")
    found = re.search(r"\bq=(0(?:\.\d*)?|1)", parameters)
    return name.strip(), float(found[1]) if found else 1.0


def _quality(ranges: Mapping[str, float], media: str) -> float:
    """Return how welcome a media type is, by the most specific range that has it."""
    names = (media, f"{media.partition('/')[0]}/*", "*/*")
    return next((ranges[name] for name in names if name in ranges), 0.0)
