"""What any campaign is, whatever it asks: `SurveyCampaign` and `TrainingCampaign` are its kinds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from murmuration.campaign.question import Question
from murmuration.campaign.terms import Terms
from murmuration.errors import ParameterError
from murmuration.exact.loss import Loss
from murmuration.mechanisms.base import Mechanism

WIRE = 1
"""The version of the report format, on every report."""


class Campaign(Protocol):
    """Questions, laws and terms: all that a device, a collector and an analyst go by.

    A program that needs one kind says which: `of_kind(campaign, SurveyCampaign)`.
    """

    @property
    def kind(self) -> str:
        """The kind, as documents and files name it: "survey" or "model"."""

    @property
    def use(self) -> str:
        """What this kind is for: said where a campaign of another kind is needed."""

    @property
    def summary(self) -> str:
        """What it asks of whom, in one sentence without its name."""

    @property
    def name(self) -> str:
        """What it is called, in addresses too."""

    @property
    def terms(self) -> Terms:
        """What people are told, and what the collector goes by."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """What people are asked, or hold for themselves: each attribute."""

    @property
    def epsilon(self) -> float:
        """What one report may cost."""

    @property
    def limit(self) -> float | None:
        """The most that it may ever cost one device; None: one report."""

    @property
    def accept_loss(self) -> str | None:
        """The sentence by which the operator accepts a broken promise."""

    @property
    def every(self) -> str | None:
        """How long a period is, where a question comes back; None where there are none."""

    @property
    def repeated(self) -> bool:
        """Whether one device may send several reports."""

    @property
    def lasting(self) -> tuple[str, ...]:
        """The terms that stay as they were when a collection began."""

    @property
    def text(self) -> str:
        """Everything that affects a report, as JSON: what is published and what is digested."""

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""

    @property
    def charge(self) -> float:
        """What a device's ledger is charged for one report, at most."""

    def costliest(self) -> Sequence[Mechanism]:
        """Return the laws that one report can name at worst, by what they are charged."""

    def loss(self) -> Loss:
        """Return the exact loss of one report."""

    def admitted(self) -> Campaign:
        """Return this campaign with laws that may be sent, or refuse it with the numbers."""

    def with_terms(self, terms: Terms) -> Campaign:
        """Return this campaign with other terms: what affects a report stays the same text."""

    def open_periods(self, now: datetime) -> range:
        """Return the periods of which reports are taken at that time; 0 where there are none."""


Kind = TypeVar("Kind", bound=Campaign)


def of_kind(campaign: Campaign, wanted: type[Kind]) -> Kind:
    """Return a campaign that is of the wanted kind; of another, say what that one is for."""
    if isinstance(campaign, wanted):
        return campaign
    raise ParameterError(f"{campaign.name} {campaign.use}")
