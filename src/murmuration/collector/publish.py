"""Campaigns of a store: published in it, found again by name."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from murmuration.campaign.survey import SurveyCampaign, Terms
from murmuration.collector.store import Store
from murmuration.definition import document as campaign_document
from murmuration.definition import training_text as model_document
from murmuration.definition.load import CampaignFile, ModelFile
from murmuration.errors import ParameterError
from murmuration.training.campaign import TrainingCampaign


@dataclass(frozen=True)
class Served:
    """A campaign that is being collected, and where its reports go."""

    campaign: SurveyCampaign
    version: int
    document: bytes
    key: int
    older: frozenset[str]
    """Digests of its earlier versions."""


@dataclass(frozen=True)
class ServedTraining:
    """A training that is being collected for, and where its rounds are."""

    campaign: TrainingCampaign
    version: int
    document: bytes
    key: int


Serving = Served | ServedTraining

TRAINS = (
    "{name} trains a model: there are no figures of attributes, and nothing to export or merge. "
    "`murmur status` says how far it is, `murmur model` reads what it ends with"
)
"""What is said where something is asked that only campaigns with questions have."""


def opened(document: bytes) -> SurveyCampaign | TrainingCampaign:
    """Return the campaign of a document, of either kind."""
    if model_document.trains(document):
        return model_document.read(document)
    return campaign_document.read(document)


def publication(campaign: SurveyCampaign | TrainingCampaign, version: int = 1) -> bytes:
    """Return the document of a campaign, of either kind."""
    if isinstance(campaign, TrainingCampaign):
        return model_document.publish(campaign, version)
    return campaign_document.publish(campaign, version)


def published(store: Store, file: CampaignFile) -> SurveyCampaign | None:
    """Return the campaign of a file with the laws that were published for the same questions.

    Laws that are chosen or solved once more may come out different: on another machine, by a newer
    release. That would be another collection, whose people are asked again; so what is published
    stays. Only the terms are the file's. None if other questions were published, or none.
    """
    document = store.document_asking(file.name, file.asked)
    if document is not None:
        return _with_terms(campaign_document.read(document), file.terms)
    for digest in store.digests(file.name):  # of a release that did not note what was asked
        document = store.document_of(file.name, digest)
        found = None if document is None else campaign_document.read(document)
        if found is not None and _but_for_laws(found) == _but_for_laws(file.campaign):
            return _with_terms(found, file.terms)
    return None


def published_any(
    store: Store, file: CampaignFile | ModelFile
) -> SurveyCampaign | TrainingCampaign | None:
    """Return what was published for a file of either kind, if it asks the same."""
    if isinstance(file, CampaignFile):
        return published(store, file)
    document = store.document_asking(file.name, file.asked)
    if document is None or not model_document.trains(document):
        return None
    found = model_document.read(document)
    changed = replace(found, terms=file.terms)
    return changed if changed.digest == found.digest else None


def _with_terms(campaign: SurveyCampaign, terms: Terms) -> SurveyCampaign:
    """Return a published campaign with other terms: what affects a report is the same text."""
    changed = replace(campaign, terms=terms)
    changed.__dict__["text"] = campaign.text
    return changed


def _but_for_laws(campaign: SurveyCampaign) -> str:
    """Return all that affects a report but the integers of its laws."""
    collection = json.loads(campaign.text)
    for cell in collection["cells"]:
        del cell["law"]
    return json.dumps(collection)


def serve(store: Store, campaign: SurveyCampaign, asked: str = "") -> Served:
    """Publish a campaign in a store, as a new version if anything has changed.

    `asked` is the digest of what its file asks.
    """
    with store.transaction():
        version, document = _publish(store, campaign, asked)
        older = frozenset(store.digests(campaign.name) - {campaign.digest})
        return Served(campaign, version, document, store.open_collection(campaign.digest), older)


def serve_training(store: Store, campaign: TrainingCampaign, asked: str = "") -> ServedTraining:
    """Publish a training in a store; its first round is published when it is first looked after.

    What was asked of whom follows from the cohort: a training keeps the one that it began with.
    """
    with store.transaction():
        before = store.document_of(campaign.name, campaign.digest)
        cohort = None if before is None else campaign_document.decoded(before).cohort
        if cohort not in (None, campaign.terms.cohort):
            raise ParameterError(
                f"{campaign.name} has begun with a cohort of {cohort}, and keeps it: say cohort = "
                f"{cohort}, or give the campaign another name"
            )
        version, document = _publish(store, campaign, asked)
        return ServedTraining(campaign, version, document, store.open_collection(campaign.digest))


def serve_any(
    store: Store, campaign: SurveyCampaign | TrainingCampaign, asked: str = ""
) -> Serving:
    """Publish a campaign of either kind."""
    if isinstance(campaign, TrainingCampaign):
        return serve_training(store, campaign, asked)
    return serve(store, campaign, asked)


def _publish(
    store: Store, campaign: SurveyCampaign | TrainingCampaign, asked: str
) -> tuple[int, bytes]:
    """Note a campaign as it is served now; return its version and document."""
    latest = store.latest(campaign.name)
    version = 1 if latest is None else latest[0]
    document = publication(campaign, version)
    if latest is not None and latest[2] != document:
        document = publication(campaign, version + 1)
    return store.publish(campaign.name, campaign.digest, document, asked), document


def served(store: Store, name: str, version: int | None = None) -> Served:
    """Return a campaign of a store as it was last published, or one version of it, to be read."""
    found = served_any(store, name, version)
    if isinstance(found, ServedTraining):
        raise ParameterError(TRAINS.format(name=name))
    return found


def served_training(store: Store, name: str, version: int | None = None) -> ServedTraining:
    """Return a training of a store, to be read."""
    found = served_any(store, name, version)
    if isinstance(found, Served):
        raise ParameterError(f"{name} trains no model: `murmur estimate` reads it")
    return found


def served_any(store: Store, name: str, version: int | None = None) -> Serving:
    """Return a campaign of either kind as it was last published, or one version of it."""
    versions = store.versions(name)
    if not versions:
        raise ParameterError(f"there is no campaign {name!r}; {_listed(store)}")
    version = max(versions) if version is None else version
    document = store.document(name, version)
    if document is None:
        numbers = ", ".join(map(str, versions))
        raise ParameterError(f"{name} has no version {version}; this store has {numbers}")
    digest = versions[version]
    key, campaign = store.key_of(digest) or 0, opened(document)
    if isinstance(campaign, TrainingCampaign):
        return ServedTraining(campaign, version, document, key)
    older = frozenset(store.digests(name) - {digest})
    return Served(campaign, version, document, key, older)


def named_or_only(store: Store, name: str = "") -> str:
    """Return the name of a campaign; it may be left out where there is only one."""
    names = store.campaigns()
    if name or len(names) == 1:
        return name or names[0]
    raise ParameterError(f"say which campaign: {_listed(store)}")


def _listed(store: Store) -> str:
    names = store.campaigns()
    return f"this store has {', '.join(names)}" if names else "this store has none"
