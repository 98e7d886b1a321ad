"""Where an analyst reads: a store, a collector's address, or a file of tallies."""

from __future__ import annotations

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.store import open_store
from murmuration.counting.container import CampaignTallies
from murmuration.errors import ParameterError
from murmuration.sources.address import CollectorSource
from murmuration.sources.base import Source
from murmuration.sources.file import TallySource, are_reports, campaign_tallies
from murmuration.sources.store import StoreSource

__all__ = ["Source", "open_source"]


def open_source(
    where: str,
    campaign: str | SurveyCampaign = "",
    token: str = "",
    *,
    plain_http: bool = False,
    version: int | None = None,
) -> Source:
    """Open a store (a path, sqlite:///..., postgresql://...), a collector (http...), or a file.

    A file is one that `murmur tally` wrote, or of a collector's tallies. Of a store an earlier
    `version` of the campaign can be read; a collector serves the latest. The `campaign` is its
    name, or itself where a file of tallies does not say what was asked.
    """
    name, asked = (campaign, None) if isinstance(campaign, str) else (campaign.name, campaign)
    if where.startswith(("http://", "https://")):
        if version is not None:
            raise ParameterError(
                f"a collector answers for the latest version: version {version} is read from its "
                "store"
            )
        return CollectorSource(where, name, token, plain_http=plain_http)
    if (data := campaign_tallies(where)) is not None:
        return TallySource(CampaignTallies.from_bytes(data, asked), name, version)
    if are_reports(where):
        raise ParameterError(
            f"{where} has reports, and no sums of them: first `murmur tally {where} -o tallies.bin`"
        )
    store = open_store(where, readonly=True)
    try:
        return StoreSource(store, name, version)
    except BaseException:
        store.close()
        raise
