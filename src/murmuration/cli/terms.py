"""The terms of a campaign, as `murmur check` says them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from murmuration.campaign.terms import ONE_DEVICE, Terms, Told


def terms_data(terms: Terms) -> dict[str, Any]:
    """Return the terms as plain data; times in ISO 8601."""
    values: dict[str, Any] = msgspec.to_builtins(terms)
    return {key: values[key] for key in Told.__struct_fields__}


def kept(terms: Terms, always: str) -> str:
    """Say what is kept, who may send, and when; `always` where there are no times."""
    what = "randomised reports and counts" if terms.keep_reports else "counts and ids only"
    who = {
        "open": "anyone may send",
        "token": "a token is needed to send",
        ONE_DEVICE: "each device needs a token of its own: one report of it per period counts",
    }[terms.upload]
    times = [
        f"{word} {moment.isoformat()}"
        for word, moment in (("opens", terms.opens), ("closes", terms.closes))
        if moment is not None
    ]
    over = terms.closes is not None and terms.closes <= datetime.now(UTC)
    past = " [bold yellow](that is over)[/]" if over else ""
    pages = f"; pages of {', '.join(terms.origins)} may take part" if terms.origins else ""
    return f"{what}; {who}; {', '.join(times) or always}{past}{pages}"
