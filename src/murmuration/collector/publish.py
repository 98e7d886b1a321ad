"""Campaigns of a store: published in it, found again by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.terms import Terms
from murmuration.collector.served import Served
from murmuration.collector.store import Store
from murmuration.collector.survey import ServedSurvey
from murmuration.collector.training.served import ServedTraining
from murmuration.definition import document as campaign_document
from murmuration.definition.load import CampaignFile
from murmuration.errors import ParameterError
from murmuration.training.campaign import TrainingCampaign

KINDS: dict[str, type[Served[Any]]] = {
    SurveyCampaign.kind: ServedSurvey,
    TrainingCampaign.kind: ServedTraining,
}
"""How the campaigns of each kind are collected."""

Kind = TypeVar("Kind", bound=Campaign)


def published(store: Store, file: CampaignFile) -> Campaign | None:
    """Return the campaign of a file with the laws that were published for the same questions.

    Laws that are chosen or solved once more may come out different: on another machine, by a newer
    release. That would be another collection, whose people are asked again; so what is published
    stays. Only the terms are the file's. None if other questions were published, or none.
    """
    document = store.document_asking(file.name, file.asked)
    return None if document is None else campaign_document.read(document).with_terms(file.terms)


def serve(store: Store, campaign: Kind, asked: str = "") -> Served[Kind]:
    """Publish a campaign in a store, as a new version if anything has changed.

    `asked` is the digest of what its file asks. A training's first round is published when it is
    first looked after.
    """
    with store.transaction():
        before = store.document_of(campaign.name, campaign.digest)
        if before is not None:
            _require_lasting(campaign, campaign_document.terms_in(before))
        version, document = _publish(store, campaign, asked)
        older = frozenset(store.digests(campaign.name) - {campaign.digest})
        key = store.open_collection(campaign.digest)
        served = KINDS[campaign.kind](campaign, version, document, key, older)
        served.resume(store)
        return served


def _require_lasting(campaign: Campaign, before: Terms) -> None:
    """Refuse another value of a term that a collection keeps once it has begun."""
    for term in campaign.lasting:
        if (value := getattr(before, term)) != getattr(campaign.terms, term):
            raise ParameterError(
                f"{campaign.name} has begun with a {term} of {value}, and keeps it: say {term} = "
                f"{value}, or give the campaign another name"
            )


def _publish(store: Store, campaign: Campaign, asked: str) -> tuple[int, bytes]:
    """Note a campaign as it is served now; return its version and document."""
    latest = store.latest(campaign.name)
    version = 1 if latest is None else latest[0]
    document = campaign_document.publish(campaign, version)
    if latest is not None and latest[2] != document:
        document = campaign_document.publish(campaign, version + 1)
    return store.publish(campaign.name, campaign.digest, document, asked), document


def only(served: Iterable[Served[Any]], wanted: type[Kind]) -> list[Served[Kind]]:
    """Return the campaigns that are of the wanted kind."""
    return [each for each in served if each.campaign.kind == wanted.kind]


def served(store: Store, name: str, version: int | None = None) -> Served[Campaign]:
    """Return a campaign of a store as it was last published, or one version of it."""
    versions = store.versions(name)
    if not versions:
        raise ParameterError(f"there is no campaign {name!r}; {_listed(store)}")
    version = max(versions) if version is None else version
    document = store.document(name, version)
    if document is None:
        numbers = ", ".join(map(str, versions))
        raise ParameterError(f"{name} has no version {version}; this store has {numbers}")
    digest = versions[version]
    campaign, older = campaign_document.read(document), frozenset(store.digests(name) - {digest})
    return KINDS[campaign.kind](campaign, version, document, store.key_of(digest) or 0, older)


def named_or_only(store: Store, name: str = "") -> str:
    """Return the name of a campaign; it may be left out where there is only one."""
    names = store.campaigns()
    if name or len(names) == 1:
        return name or names[0]
    raise ParameterError(f"say which campaign: {_listed(store)}")


def _listed(store: Store) -> str:
    names = store.campaigns()
    return f"this store has {', '.join(names)}" if names else "this store has none"
