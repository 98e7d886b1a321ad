"""Murmuration: the crowd's answer is sharp, no bird's path is known.

Everything a user needs is here; it is imported when it is first used, so that `import murmuration`
costs nothing.

>>> import murmuration
>>> duchi = murmuration.mechanism("duchi", epsilon=1.0)
>>> duchi.loss().holds
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from murmuration.analysis.combine import generalised as combine_levels
    from murmuration.analysis.postprocess import base_cut, bayes, project_simplex
    from murmuration.analysis.read import figures
    from murmuration.audit.admission import admit
    from murmuration.audit.exact import Audit
    from murmuration.audit.exact import audit as audit_mechanism
    from murmuration.campaign.kind import Campaign
    from murmuration.campaign.levels import Levels, Survey
    from murmuration.campaign.survey import SurveyCampaign
    from murmuration.definition.load import load
    from murmuration.device.client import Client
    from murmuration.device.ledger import Ledger
    from murmuration.errors import (
        AnswerError,
        BudgetError,
        MisfitWarning,
        MurmurationError,
        SendError,
    )
    from murmuration.exact.loss import Loss
    from murmuration.exact.randomness import seeded_rng, system_rng
    from murmuration.mechanisms.base import Mechanism, Task
    from murmuration.mechanisms.graded.base import to_domain
    from murmuration.mechanisms.item.base import Labels
    from murmuration.mechanisms.registry import list_mechanisms
    from murmuration.mechanisms.tally import Tally
    from murmuration.mechanisms.units import InUnits
    from murmuration.planning.choose import Attribute, plan
    from murmuration.planning.factory import mechanism
    from murmuration.results.distribution import Distribution
    from murmuration.results.estimate import Estimate, FrequencyEstimate, TupleEstimate
    from murmuration.results.figure import Figure, Figures
    from murmuration.sources.opened import opened as open  # noqa: A004 - murmuration.open
    from murmuration.training.campaign import TrainingCampaign

__version__ = "0.1.0"

_HOMES = {
    "AnswerError": "errors",
    "Attribute": "planning.choose",
    "Audit": "audit.exact",
    "BudgetError": "errors",
    "Campaign": "campaign.kind",
    "Client": "device.client",
    "Distribution": "results.distribution",
    "Estimate": "results.estimate",
    "Figure": "results.figure",
    "Figures": "results.figure",
    "FrequencyEstimate": "results.estimate",
    "InUnits": "mechanisms.units",
    "Labels": "mechanisms.item.base",
    "Ledger": "device.ledger",
    "Levels": "campaign.levels",
    "Loss": "exact.loss",
    "Mechanism": "mechanisms.base",
    "MisfitWarning": "errors",
    "MurmurationError": "errors",
    "SendError": "errors",
    "Survey": "campaign.levels",
    "SurveyCampaign": "campaign.survey",
    "Tally": "mechanisms.tally",
    "Task": "mechanisms.base",
    "TrainingCampaign": "training.campaign",
    "TupleEstimate": "results.estimate",
    "admit": "audit.admission",
    "audit_mechanism": "audit.exact:audit",
    "base_cut": "analysis.postprocess",
    "bayes": "analysis.postprocess",
    "combine_levels": "analysis.combine:generalised",
    "figures": "analysis.read",
    "list_mechanisms": "mechanisms.registry",
    "load": "definition.load",
    "mechanism": "planning.factory",
    "open": "sources.opened:opened",
    "plan": "planning.choose",
    "project_simplex": "analysis.postprocess",
    "seeded_rng": "exact.randomness",
    "system_rng": "exact.randomness",
    "to_domain": "mechanisms.graded.base",
}
"""Where each public name lives; after a colon, what it is called there."""

__all__ = [
    "AnswerError",
    "Attribute",
    "Audit",
    "BudgetError",
    "Campaign",
    "Client",
    "Distribution",
    "Estimate",
    "Figure",
    "Figures",
    "FrequencyEstimate",
    "InUnits",
    "Labels",
    "Ledger",
    "Levels",
    "Loss",
    "Mechanism",
    "MisfitWarning",
    "MurmurationError",
    "SendError",
    "Survey",
    "SurveyCampaign",
    "Tally",
    "Task",
    "TrainingCampaign",
    "TupleEstimate",
    "admit",
    "audit_mechanism",
    "base_cut",
    "bayes",
    "combine_levels",
    "figures",
    "list_mechanisms",
    "load",
    "mechanism",
    "open",
    "plan",
    "project_simplex",
    "seeded_rng",
    "system_rng",
    "to_domain",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'murmuration' has no attribute {name!r}")
    module, _, there = _HOMES[name].partition(":")
    value = getattr(import_module(f"murmuration.{module}"), there or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
