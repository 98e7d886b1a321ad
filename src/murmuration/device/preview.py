"""What a person is told before a report is sent: in words, and with an example."""

from __future__ import annotations

import math

import numpy as np

from murmuration import sentences
from murmuration.campaign.bounds import reserved
from murmuration.campaign.survey import SurveyCampaign
from murmuration.device.costs import Cost, spent_on
from murmuration.device.ledger import Entry
from murmuration.device.record import Record
from murmuration.device.survey import Columns, Levels
from murmuration.exact.randomness import system_rng
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.ids import ID_BYTES


def in_words(
    campaign: SurveyCampaign, address: Address | None, record: Record, most: Cost
) -> list[str]:
    """Say what a report is about, who gets it, what it costs and what is left."""
    totals, limit = record.totals(), record.limits()["lifetime"]
    here = spent_on(totals, None if address is None else address.origin, campaign.name)
    gone = spent_on(record.committed())
    left = max(0.0, float(limit - gone)) if limit != math.inf else math.inf
    asked = ", ".join(_shown(question.name) for question in campaign.questions)
    entries = len(campaign.frame.slots)
    some = entries < len(campaign.frame.groups)
    which = f" ({entries} of these, drawn independently of the answers)" if some else ""
    later = [sentences.reserve(more)] if (more := reserved(campaign)) else []
    return [
        f"{campaign.name}: {_shown(campaign.terms.purpose)}",
        f"Sent to: {address or 'nobody, as there is no address'}",
        f"A report is about: {asked}{which}, with noise added here.",
        " ".join([sentences.cost(float(most)), *later, sentences.spent(float(here), left)]),
    ]


def example(campaign: SurveyCampaign, columns: Columns, levels: Levels, period: int | None) -> str:
    """Show a report that is drawn now, by words of its own, and thrown away."""
    rows = campaign.privatize(columns, system_rng(), levels, period)
    nameless = np.zeros((1, ID_BYTES), dtype=np.uint8)
    body = report.to_json(campaign.form, nameless, rows).decode()
    return f"EXAMPLE, drawn now and thrown away; the real report is another draw: {body}"


def known(entry: Entry) -> str:
    """Show the report that was made."""
    if entry.report is None:
        return f"It was answered on {entry.made_at} ({entry.outcome}); nothing more is sent."
    state = entry.outcome or "not acknowledged: these bytes are sent again"
    return f"The report was made on {entry.made_at} ({state}): {entry.report.decode()}"


def _shown(text: str) -> str:
    """Return a campaign's words for a terminal: without control codes."""
    return "".join(c if c.isprintable() else " " for c in text)
