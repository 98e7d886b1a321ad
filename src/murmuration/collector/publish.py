"""Campaigns of a store: published in it, found again by name."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from murmuration.campaign import document as campaign_document
from murmuration.campaign.file.load import CampaignFile
from murmuration.campaign.model import Campaign, Terms
from murmuration.collector.store import Store
from murmuration.errors import ParameterError


@dataclass(frozen=True)
class Served:
    """A campaign that is being collected, and where its reports go."""

    campaign: Campaign
    version: int
    document: bytes
    key: int
    older: frozenset[str]
    """Digests of its earlier versions."""


def published(store: Store, file: CampaignFile) -> Campaign | None:
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


def _with_terms(campaign: Campaign, terms: Terms) -> Campaign:
    """Return a published campaign with other terms: what affects a report is the same text."""
    changed = replace(campaign, terms=terms)
    changed.__dict__["text"] = campaign.text
    return changed


def _but_for_laws(campaign: Campaign) -> str:
    """Return all that affects a report but the integers of its laws."""
    collection = json.loads(campaign.text)
    for cell in collection["cells"]:
        del cell["law"]
    return json.dumps(collection)


def serve(store: Store, campaign: Campaign, asked: str = "") -> Served:
    """Publish a campaign in a store, as a new version if anything has changed.

    `asked` is the digest of what its file asks.
    """
    with store.transaction():
        latest = store.latest(campaign.name)
        version = 1 if latest is None else latest[0]
        document = campaign_document.publish(campaign, version)
        if latest is not None and latest[2] != document:
            document = campaign_document.publish(campaign, version + 1)
        version = store.publish(campaign.name, campaign.digest, document, asked)
        older = frozenset(store.digests(campaign.name) - {campaign.digest})
        return Served(campaign, version, document, store.open_collection(campaign.digest), older)


def served(store: Store, name: str, version: int | None = None) -> Served:
    """Return a campaign of a store as it was last published, or one version of it, to be read."""
    versions = store.versions(name)
    if not versions:
        raise ParameterError(f"there is no campaign {name!r}; {_listed(store)}")
    version = max(versions) if version is None else version
    document = store.document(name, version)
    if document is None:
        numbers = ", ".join(map(str, versions))
        raise ParameterError(f"{name} has no version {version}; this store has {numbers}")
    digest = versions[version]
    key, older = store.key_of(digest) or 0, frozenset(store.digests(name) - {digest})
    return Served(campaign_document.read(document), version, document, key, older)


def named_or_only(store: Store, name: str = "") -> str:
    """Return the name of a campaign; it may be left out where there is only one."""
    names = store.campaigns()
    if name or len(names) == 1:
        return name or names[0]
    raise ParameterError(f"say which campaign: {_listed(store)}")


def _listed(store: Store) -> str:
    names = store.campaigns()
    return f"this store has {', '.join(names)}" if names else "this store has none"
