"""Campaigns of a store: published in it, found again by name."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign
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


def serve(store: Store, campaign: Campaign) -> Served:
    """Publish a campaign in a store, as a new version if anything has changed."""
    with store.transaction():
        latest = store.latest(campaign.name)
        version = 1 if latest is None else latest[0]
        document = campaign_document.publish(campaign, version)
        if latest is not None and latest[2] != document:
            document = campaign_document.publish(campaign, version + 1)
        version = store.publish(campaign.name, campaign.digest, document)
        older = frozenset(store.digests(campaign.name) - {campaign.digest})
        return Served(campaign, version, document, store.open_collection(campaign.digest), older)


def served(store: Store, name: str) -> Served:
    """Return a campaign of a store as it was last published, to read what was collected."""
    latest = store.latest(name)
    if latest is None:
        raise ParameterError(f"there is no campaign {name!r}; {_listed(store)}")
    version, digest, document = latest
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
