"""Rounds that follow each other: each names the digest of the round before.

    campaign's digest <- round 1 <- round 2 <- round 3 ...

A round's digest is that of its text, and the text has the digest of the round before (`after`);
the first names the campaign's. So one round's digest stands for all rounds up to it: whoever
compares it with somebody else's has compared them all. A device that knows some rounds, as it saw
them or an app told it their digests, takes another one only if it stands in one chain with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from murmuration.errors import MismatchError, ParameterError

TWO, APART, EARLIER = "two-rounds", "does-not-follow", "earlier-round"
"""Why a round is refused: another has its number; it names another one before it; a later round is
known already."""

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class RoundLink:
    """A round in its chain: its number, its digest, and the digest of the round before.

    >>> RoundLink(1, "b" * 64, "a" * 64).problem({1: "b" * 64}) is None
    True
    >>> RoundLink(1, "b" * 64, "a" * 64).problem({1: "c" * 64})
    'two-rounds'
    """

    number: int
    digest: str
    after: str

    def problem(self, known: Mapping[int, str]) -> str | None:
        """Say why this round cannot be open where these digests are known, by their numbers.

        The campaign's digest is known as that of round 0.
        """
        if known.get(self.number, self.digest) != self.digest:
            return TWO
        if known.get(self.number - 1, self.after) != self.after:
            return APART
        return EARLIER if max(known, default=0) > self.number else None


def is_digest(text: str) -> bool:
    """Tell whether a text is written as a digest is."""
    return _DIGEST.fullmatch(text) is not None


def require_pins(pins: Mapping[int, str]) -> dict[int, str]:
    """Return the digests of rounds that an app knows, or say what is wrong with them."""
    for number, digest in pins.items():
        if type(number) is not int or number < 1 or not is_digest(digest):
            raise ParameterError(
                f"rounds: {number!r}: {digest!r}. A pin is the number of a round, 1 or more, and "
                "its digest, 64 hexadecimal digits"
            )
    return dict(pins)


def joined(shown: Mapping[int, str], pins: Mapping[int, str]) -> dict[int, str]:
    """Return the digests that were shown and those that are pinned, which must agree."""
    for number in sorted(shown.keys() & pins.keys()):
        _refuse(RoundLink(number, shown[number], ""), {number: pins[number]})
    return {**shown, **pins}


def followed(
    link: RoundLink, known: Mapping[int, str], fetch: Callable[[int], RoundLink], start: int
) -> list[RoundLink]:
    """Return the rounds from the one after `start` up to this one, or refuse what does not follow.

    `fetch` returns a round of a number before; each must be the one that the next one names.
    """
    _refuse(link, known)
    links = [link]
    while links[0].number > start + 1:
        before = fetch(links[0].number - 1)
        _refuse(links[0], {before.number: before.digest})
        _refuse(before, {number: one for number, one in known.items() if number <= before.number})
        links.insert(0, before)
    return links


def nearest(link: RoundLink, known: Mapping[int, str]) -> int:
    """Return the last round before this one that is known; where none is, the one right before it.

    The chain is followed back to there. Without any there is nothing to hold it against.
    """
    earlier = [number for number in known if 0 < number < link.number]
    return max(earlier, default=link.number - 1)


def _refuse(link: RoundLink, known: Mapping[int, str]) -> None:
    problem = link.problem(known)
    if problem is None:
        return
    raise MismatchError(f"{_told(link, known)[problem]}. Nothing was sent.", problem)


def _told(link: RoundLink, known: Mapping[int, str]) -> dict[str, str]:
    number, before = link.number, "the campaign" if link.number == 1 else f"round {link.number - 1}"
    other = known.get(number, "")[:16]
    return {
        TWO: f"two rounds have the number {number}: this one has the digest {link.digest[:16]}..., "
        f"and {other}... is known: this device may have been given a round of its own",
        APART: f"round {number} does not follow {before} as this device knows it: it names "
        f"{link.after[:16]}..., and {known.get(number - 1, '')[:16]}... is known",
        EARLIER: f"round {number} is offered, and round {max(known, default=0)} is known already: "
        "rounds do not go back",
    }
