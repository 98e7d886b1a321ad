"""What a device is given, before it answers: a campaign, a round; checked, pinned, witnessed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from murmuration.campaign.kind import Campaign
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.device.sending import Link
from murmuration.errors import MismatchError, ParameterError, SendError
from murmuration.training import round as round_document
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.chain import APART, RoundLink, followed, nearest
from murmuration.training.round import Round
from murmuration.wire.address import Address

NO_ROUND = "no-round"
"""The problem by which a collector says that no round of a training is open."""


def load(
    source: str | Path,
    allow_plain_http: bool = False,
    digest: str | None = None,
    witness: str | None = None,
) -> tuple[Campaign, Address | None]:
    """Return a campaign from its address, its published document or its file, and its address.

    A document's digest is checked and every law in it is audited; a law that leaks is refused. So
    is a document whose digest is not the one that is pinned (`digest`), or not the one that a
    second collector shows (`witness`): one of its own for each device would tell devices apart.
    """
    campaign, address = _loaded(source, allow_plain_http)
    if digest is not None and campaign.digest != digest:
        raise MismatchError(
            f"{campaign.name} has the digest {campaign.digest[:16]}..., and {digest[:16]}... was "
            "expected: this is another campaign. Nothing was sent."
        )
    if witness is not None:
        seen = _witness(address, witness, allow_plain_http)
        _require_same(campaign.name, campaign.digest, _fetched(seen).digest, seen, "campaign")
    return campaign, address


def _loaded(source: str | Path, allow_plain_http: bool) -> tuple[Campaign, Address | None]:
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        address = Address.parse(source, allow_plain_http)
        return _fetched(address), address
    path = Path(source)
    if not path.is_file():
        raise ParameterError(f"{path} is neither a file nor an address (https://...)")
    if path.suffix == ".toml":
        return campaign_file.load(path), None
    return campaign_document.read(path.read_bytes()), None


def _fetched(address: Address) -> Campaign:
    """Return the campaign that an address publishes, if it is the one that the address names."""
    with Link(address) as link:
        answer = link.get(campaign_document.MOST_BYTES)
    if answer.status != 200:
        hint = "; an address ends in /v1/campaigns/NAME" if answer.status == 404 else ""
        raise SendError(f"no campaign from {address}: {answer.reason}{hint}")
    campaign = campaign_document.read(answer.data)
    if address.path.rpartition("/")[2] != campaign.name:
        raise MismatchError(
            f"{address} publishes a campaign of another name, {campaign.name!r}: a limit on one "
            "campaign would mean nothing. Nothing was sent."
        )
    return campaign


def open_round(
    campaign: TrainingCampaign,
    address: Address,
    witness: str | None,
    allow_plain_http: bool,
    known: Mapping[int, str],
) -> Round | None:
    """Return the round that is open, checked and (if there is one) witnessed; None if none is.

    `known` are digests of rounds by their numbers: the open one stands in one chain with them.
    """
    found = _round(campaign, address, "/round")
    if found is not None:
        _links(campaign, address, found, known, nearest(found.link, known))
    if found is not None and witness is not None:
        seen = _witness(address, witness, allow_plain_http)
        shown = _round(campaign, seen, f"/rounds/{found.number}")
        digest = "" if shown is None else shown.digest
        _require_same(
            f"round {found.number} of {campaign.name}", found.digest, digest, seen, "round"
        )
    return found


def chain(
    campaign: TrainingCampaign, address: Address, known: Mapping[int, str]
) -> list[RoundLink]:
    """Return all rounds up to the open one, each checked to follow the one before."""
    found = _round(campaign, address, "/round")
    return [] if found is None else _links(campaign, address, found, known, 0)


def _links(
    campaign: TrainingCampaign, address: Address, found: Round, known: Mapping[int, str], start: int
) -> list[RoundLink]:
    """Return the rounds after `start` up to this one, in one chain with those that are known."""

    def fetch(number: int) -> RoundLink:
        before = _round(campaign, address, f"/rounds/{number}")
        if before is not None and before.number == number:
            return before.link
        raise MismatchError(
            f"{address} does not show round {number} of {campaign.name}, and a later one is open: "
            "nothing says that it follows. Nothing was sent.",
            APART,
        )

    return followed(found.link, {**known, 0: campaign.digest}, fetch, start)


def _round(campaign: TrainingCampaign, address: Address, below: str) -> Round | None:
    with Link(address) as link:
        answer = link.get(round_document.MOST_BYTES, below)
    if answer.status == 404 and answer.reason == NO_ROUND:
        return None
    if answer.status != 200:
        raise SendError(f"no round from {address}: {answer.reason}")
    return round_document.read(answer.data, campaign)


def _witness(address: Address | None, witness: str, allow_plain_http: bool) -> Address:
    seen = Address.parse(witness, allow_plain_http)
    if address is not None and address.origin == seen.origin:
        raise ParameterError("a witness is another collector than the one that is asked")
    return seen


def _require_same(name: str, digest: str, shown: str, witness: Address, what: str) -> None:
    """Refuse what somebody else does not show in the same words."""
    if shown != digest:
        raise MismatchError(
            f"{name} has the digest {digest[:16]}..., and {witness} shows "
            f"{shown[:16] or 'none'}...: this device may have been given a {what} of its own. "
            "Nothing was sent."
        )
