"""Campaigns of the golden files. Laws on which processors differ are read from the file."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load
from murmuration.mechanisms.base import Mechanism
from tests.support.vectors import CAMPAIGNS

SOLVED = ("optimal", "optimal-sampled", "graded-optimal", "laplace")
"""Their values are found in floating point: the last bits differ from one processor to another."""


def golden_campaign(name: str) -> SurveyCampaign:
    """Load a campaign of `docs/vectors/campaigns`; solved laws are those of its golden file."""
    campaign = load.load(CAMPAIGNS / f"{name}.toml", SurveyCampaign)
    written = json.loads(json.loads((CAMPAIGNS / f"{name}.json").read_text())["collection"])
    laws = iter(cell["law"] for cell in written["cells"])
    groups = tuple(
        tuple(
            law.with_law(given) if law.name in SOLVED else law
            for law, given in zip(group, laws, strict=False)
        )
        for group in campaign.frame.groups  # cells are written in this order
    )
    return replace(campaign, frame=replace(campaign.frame, groups=groups))


def planted(law: Mechanism, given: dict[str, Any]) -> Mechanism:
    """Return the mechanism, with the law of the file if its own depends on the processor."""
    return law.with_law(given) if law.name in SOLVED else law
