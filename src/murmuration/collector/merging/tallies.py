"""Other collectors' tallies into a store: each report counts exactly once, in whatever order.

A collector's tally is all it has ever counted, so of two of one collector the later one, which
contains the earlier, counts. The latest of each collector is kept under its name; so the order in
which tallies come, and whether they come again, changes nothing. Sums cannot be told apart, so
nothing is added that may count a report twice: sketches of ids (`counting.sketch`) show when
tallies of two collectors overlap, and when two of one collector do not contain one another (its
store was copied and both went on, or an old copy came back). What comes back to the collector that
counted it is left out: whoever sends tallies could learn this collector's sums by whether they fit.
For the same reason refusals tell how much came, and how much of it is here too, but not how much
there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.merging.known import Known, known, own_sketch, stored
from murmuration.collector.served import Served
from murmuration.collector.shown import show_merged
from murmuration.collector.store import Store
from murmuration.counting.cohort import needed
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.periods import Tallies, minus, plus
from murmuration.counting.sketch import Sketch, name_of
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, MismatchError
from murmuration.mechanisms.tally import MAX_PEOPLE

MOST_MERGED = MAX_PEOPLE >> 1
"""More people than that are not taken over: there must be room for this collector's own."""
NEARLY_ALL = 0.995
"""From this estimated share on, an overlap is called all, or nearly all."""
NO_KEY = (
    "tallies without reports are merged by collectors that share a key, by which they see whether "
    "both count the same reports: `murmur merge STORE --key FILE`, with the same file for each"
)
NO_SKETCH = (
    "these tallies are of files, and were counted without the key that collectors share: "
    "`murmur tally --key FILE` writes tallies that can be merged"
)
OWN_NAME = (
    "these tallies are from a store that goes by the name of this collector: it is this one, or a "
    "copy of it. Merge a copy by its reports: `murmur merge STORE COPY`"
)


@dataclass(frozen=True)
class Taken:
    """What came of merging tallies.

    news, known: how many were news, and how many were not
    left_out: how many were this collector's own, or not for this sender to bring
    is_behind: whether others have counted reports of this collector that it does not have: its
        store is an old copy, or was copied and both went on. For its operator, not for the sender.
    """

    news: int
    known: int
    left_out: int
    is_behind: bool = False


def merge_tallies(
    store: Store,
    served: Served[SurveyCampaign],
    other: CampaignTallies,
    sources: Collection[str] | None = None,
    sketch: Sketch | None = None,
) -> Taken:
    """Take over other collectors' tallies, those of `sources` if they are named.

    `sketch` is that of this store's own ids; taking it beforehand keeps nobody waiting.
    """
    secret = store.merge_secret()
    if "" in other.parts:
        raise MismatchError(NO_SKETCH)
    if secret is None or other.key != name_of(secret):
        raise MismatchError(NO_KEY)
    with store.transaction():
        ours = known(store, served.campaign)
        if other.collector == ours.mine:
            raise MismatchError(OWN_NAME)
        wanted = set(other.parts if sources is None else sources) - {ours.mine}
        brought = {name: part for name, part in other.parts.items() if name in wanted}
        for part in brought.values():
            require_possible(served.campaign, part)
            _require_sampled(ours, part)
        own = Part(
            ours.own.tallies, own_sketch(store, served.campaign) if sketch is None else sketch
        )
        news = _later_ones(ours, own, brought, other.collector)
        check_sum(ours, {**ours.counted, **news})
        for name, part in news.items():
            keep(store, served.key, name, part, ours)
        show_merged(store, served.key, served.campaign)
    left, back = len(other.parts) - len(brought), other.parts.get(ours.mine)
    is_behind = back is not None and _is_more(ours, back, own)
    return Taken(len(news), len(brought) - len(news), left, is_behind)


def require_possible(campaign: SurveyCampaign, part: Part) -> None:
    """Refuse what no collector can have counted: entries without reports, a sketch of others."""
    n = sum(_possible_reports(campaign, own) for own in part.tallies.values())
    if n and not part.sketch.below:
        raise MismatchError(
            "a tally comes with a sketch of its ids, and this one has none: let its collector send "
            "it again with the key that both share, after merging again what it had merged before"
        )
    if not part.sketch.fits(n):
        raise MismatchError(f"a sketch of {part.sketch.people:,} reports is not that of {n:,}")


def _possible_reports(campaign: SurveyCampaign, tallies: Tallies) -> int:
    """Return how many reports one period's tallies count; refuse entries without reports."""
    frame = campaign.frame
    n = frame.reports(tallies)
    groups = [sum(tally.n for tally in group) for group in frame.by_group(tallies)]
    if sum(groups) != n * len(frame.slots):  # n is the largest of them, at least
        raise MismatchError("no reports have so many entries of each kind")
    return n


def _require_sampled(ours: Known, part: Part) -> None:
    """Refuse a sketch that shows nothing of the reports that it is said to be of."""
    if ours.n(part) and not len(part.sketch.values):
        raise MismatchError(
            f"an empty sketch is that of no reports, and this tally has {ours.n(part):,}: merge "
            "the stores, by their reports"
        )


def _is_more(ours: Known, back: Part, own: Part) -> bool:
    """Whether what comes back has reports that this collector has not. Sums are not looked at."""
    return ours.n(back) > ours.n(own) or len(back.sketch.without(own.sketch).values) > 0


def _later_ones(
    ours: Known, own: Part, brought: Mapping[str, Part], sender: str
) -> dict[str, Part]:
    """Return the parts that are later than what is known; refuse what does not fit together."""
    before = {**ours.counted, ours.mine: own}
    news = {}
    for name, part in brought.items():
        if _is_news(ours, before, name, part, sender):
            news[name] = part
    after = {**before, **news}
    for name in news:
        for other in after.keys() - {name}:
            if other not in news or name < other:
                require_apart(ours, after[name], after[other])
    return news


def _is_news(ours: Known, before: Mapping[str, Part], name: str, part: Part, sender: str) -> bool:
    """Whether a part counts more than what is known of its collector."""
    if name not in before:
        return True
    old, n = before[name], ours.n(part)
    if n > ours.n(old) and ours.is_reduced(name):
        if name == sender:
            raise MismatchError(
                "some reports of that collector are counted here under another name: merge its "
                "store, and not its tallies"
            )
        return False
    require_contained(ours, old, part)
    if name == sender and n < ours.n(old):
        raise MismatchError(
            f"that collector has sent a later tally than this one of {n:,} reports: an old copy of "
            "its store came back, or an old tally"
        )
    return n > ours.n(old)


def require_current(ours: Known, part: Part) -> None:
    """Refuse to go on as a store that has counted less than others know of it."""
    if ours.n(part) > ours.n(ours.own):
        raise MismatchError(
            f"others have counted {ours.n(part):,} reports of this collector, and it has "
            f"{ours.n(ours.own):,}: its store is an old copy. Make a new store, and merge this one "
            "into it"
        )


def require_contained(ours: Known, part: Part, other: Part) -> None:
    """Refuse two tallies of one collector of which neither contains the other; `other` came."""
    small, large = sorted((part, other), key=ours.n)
    missing = small.sketch.without(large.sketch)
    try:
        grown = minus(large.tallies, small.tallies)
    except FormatError:
        grown = None
    if grown is None or len(missing.values) or (ours.n(small) == ours.n(large) and grown):
        both = small.sketch.shared(large.sketch).people
        raise MismatchError(
            "two stores go by the name of one collector and have parted: of the "
            f"{ours.n(other):,} reports that came, about {both:,} are known here, and there are "
            "others. Merge the stores, by their reports"
        )


def _overlap(shared: int, counted: int) -> str:
    """Say how many reports two collectors share: `shared` is an estimate, and may be too large.

    >>> _overlap(57, 1000)
    'about 57 reports would count twice: they are among the 1,000'
    >>> _overlap(32_574, 32_561)
    'reports would count twice: all, or nearly all, of the 32,561'
    """
    if shared > NEARLY_ALL * counted:
        return f"reports would count twice: all, or nearly all, of the {counted:,}"
    return f"about {shared:,} reports would count twice: they are among the {counted:,}"


def require_apart(ours: Known, part: Part, other: Part) -> None:
    """Refuse tallies of two collectors that count the same reports."""
    both = part.sketch.shared(other.sketch)
    if len(both.values):
        raise MismatchError(
            f"{_overlap(both.people, ours.n(part))} of one collector, and another has counted "
            "them, too. Merge the stores, by their reports"
        )


def keep(store: Store, key: int, name: str, part: Part, ours: Known, held: bool = False) -> None:
    """Keep a collector's part, instead of the one before."""
    store.set_merged(key, stored(name, part, ours), held=held)


def check_sum(ours: Known, counted: Mapping[str, Part]) -> None:
    """Refuse more people than leave room for this collector's own."""
    if sum(map(ours.n, counted.values())) > MOST_MERGED:
        raise MismatchError("with these tallies there are more people than can be")


def remove(store: Store, name: str, source: str) -> int | None:
    """Forget the tallies of a source; its reports that were merged one by one stay.

    Return how many reports count no more, or None if nothing was known of that source. This
    collector's own are not touched. Figures may still contain them (`removed_in_figures`).
    """
    gone = removed = 0
    with store.transaction():
        for digest in store.digests(name):
            key, document = store.key_of(digest), store.document_of(name, digest)
            if key is None or document is None:
                continue
            ours = known(store, campaign_document.read(document, SurveyCampaign))
            counted, held = ours.counted.get(source), ours.held.get(source)
            removed += counted is not None
            if held is None and counted is not None:
                store.drop_merged(key, source)
                gone += ours.n(counted)
            elif held is not None and not ours.is_whole(source):
                keep(store, key, source, held, ours)
                gone += ours.n(counted) - ours.n(held)
            show_merged(store, key, ours.campaign)
    return gone if removed else None


def removed_in_figures(store: Store, name: str) -> int:
    """Return 0, or the cohort if figures contain answers that were merged and are removed since.

    Figures without fewer people than the cohort would tell about these, by the difference. So those
    of an attribute change once what is merged differs from what they show by a cohort, at each
    level that they show.
    """
    waits_for = 0
    with store.snapshot():
        for digest in store.digests(name):
            key, document = store.key_of(digest), store.document_of(name, digest)
            if key is None or document is None:
                continue
            campaign = campaign_document.read(document, SurveyCampaign)
            if _shows_more(store, key, campaign):
                waits_for = max(waits_for, needed(campaign))
    return waits_for


def _shows_more(store: Store, key: int, campaign: SurveyCampaign) -> bool:
    """Whether figures contain more answers than were merged, in any cell."""
    frame = campaign.frame
    now: ByPeriod = {}
    for part in known(store, campaign).counted.values():
        now = plus(now, part.tallies)
    return any(
        old.n > new.n
        for period, tallies in store.shown(key, frame.cells, merged=True).items()
        for old, new in zip(tallies, now.get(period) or frame.empty(), strict=True)
    )
