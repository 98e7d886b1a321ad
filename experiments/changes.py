"""When did a value change? What somebody can say who reads all reports of a person together.

    python -m experiments.evidence changes

Devices as they are (`lab.fleet`: keys, words, the wire) report every week for 26 weeks. Of two
groups the first has "yes" all the time; the second says "no" from week 14 to week 24, and "yes"
again. An attacker who knows both histories, and the law of permanent answers, reads all reports of
each person side by side, which no collector can:

    permanent   one permanent answer for each value: the weeks in between show
    spells      two spells of 13 weeks, the second begins with week 13, before the change: what was
                said in the weeks between follows from the value of week 13, and nothing shows

`measured` is a lower bound of the loss between the two histories (Clopper-Pearson, 95%), `right` is
how often the attacker tells them apart. `declared` is for any two histories: the exact bound of
spells, and what is reached for permanent answers, where there is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import beta

from experiments.piece import Figures, Piece, Row, markdown
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load as campaign_file
from murmuration.device.words import CrowdWords
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import SpellStarts, keys_of, made
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.planning.longitudinal import InSpells, Permanent

TEXT = """
name = "weekly"
purpose = "The same question every week."
epsilon = 1.0
cohort = 100
[repeat]
permanent = 2.0
rounds = 26
every = "week"
{more}
[[attributes]]
name = "answer"
kind = "category"
labels = ["yes", "no", "perhaps"]
"""
MORE = {"permanent": "", "spells": 'law = "spells"\nchanges = 1\nfirst = 2026-11-16'}
FIRST, WEEKS = 2968, 26
AWAY = range(14, 25)
YES, NO = 0, 1
CHANCE = 0.05


def sent(asked: SurveyCampaign, people: int, seed: int) -> Ints:
    """Return what is read from the reports of each person, a row a week; half of them change."""
    devices, rows = np.arange(people), []
    secret, begun = Key(bytes([seed % 256]) + bytes(31)), SpellStarts(devices)
    words = CrowdWords(keys_of(secret, devices), "https://collector.example:443", asked.digest)
    changed = devices >= people // 2
    for week in range(WEEKS):
        values = np.where(changed & (week in AWAY), NO, YES)
        _, made_rows = made(asked, words, [values], None, asked.name_of(FIRST + week), begun)
        ((_, octets),) = asked.form.entries(made_rows)
        rows.append(asked.frame.cells[0].from_rows(octets).astype(np.int64))
    return np.array(rows)


def clearness(law: Memoised, reports: Ints) -> Floats:
    """Return ln of how much more likely each person's reports are for the value that changes."""
    away = np.isin(np.arange(WEEKS), AWAY)
    changes = likely(law, reports[~away], YES) + likely(law, reports[away], NO)
    return np.asarray(changes - likely(law, reports, YES))


def likely(law: Memoised, reports: Ints, value: int) -> Floats:
    """Return ln P(reports | value), up to what is the same for all."""
    counts = np.array([(reports == item).sum(axis=0) for item in range(law.k)], dtype=float)
    odds = counts * math.log(law.keep / law.swap)
    weights = np.full((law.k, 1), float(law.memory.q))
    weights[value] = float(law.memory.p)
    top = odds.max(axis=0)
    return np.asarray(top + np.log((weights * np.exp(odds - top)).sum(axis=0)))


def bound(groups: list[Floats], edge: float) -> float:
    """Return ln of the least ratio that counts above an edge allow: both bounds hold with 95%."""
    (theirs, m), (ours, n) = ((int((one >= edge).sum()), len(one)) for one in groups)
    if not ours:
        return -math.inf
    least = beta.ppf(CHANCE / 2, ours, n - ours + 1)
    most = beta.ppf(1 - CHANCE / 2, theirs + 1, m - theirs) if theirs < m else 1.0
    return float(math.log(least / most))


def attacked(law: Memoised, reports: Ints) -> tuple[float, float]:
    """Choose on half of the people which reports speak most clearly; measure on the other half."""
    score, half = clearness(law, reports), reports.shape[1] // 2
    groups = score[:half], score[half:]
    seen, new = ([one[turn::2] for one in groups] for turn in (0, 1))
    edges = np.quantile(np.concatenate(seen), np.linspace(0, 1, 201))
    best = max(edges, key=lambda edge: bound(seen, edge))
    right = ((new[0] < 0).mean() + (new[1] > 0).mean()) / 2
    return bound(new, best), float(right)


def study(name: str, people: int, seed: int) -> dict[str, float]:
    """Attack one law: what is declared, what was measured, how often the attacker is right."""
    asked = campaign_file.parse(TEXT.format(more=MORE[name]), SurveyCampaign)
    (law,) = asked.frame.cells
    assert isinstance(law, Memoised)
    over = Permanent(law) if asked.spells is None else InSpells(law, asked.spells.length)
    measured, right = attacked(law, sent(asked, people, seed))
    return {"declared": over.changes(WEEKS), "measured": measured, "right": right}


PEOPLE = 20_000
HEADS = ("declared", "measured", "right")


def part(number: int) -> Row:
    """Attack permanent answers (0) and spells (1)."""
    name = list(MORE)[number]
    return {"name": name, **study(name, PEOPLE, seed=1)}


def figures(rows: Sequence[Row]) -> Figures:
    """Return what is declared, what was measured, and how often the attacker is right."""
    for row in rows:
        assert row["measured"] <= row["declared"], f"{row['name']}: more than is declared"
    found = {f"{row['name']}, {key}": row[key] for row in rows for key in HEADS}
    return {"people": PEOPLE, "weeks": WEEKS, **found}


def table(found: Figures) -> str:
    """Return a table with a line for each law."""
    forms = dict(zip(HEADS, (".1f", ".1f", ".1%"), strict=True))
    lines = [
        [name, *(f"{found[f'{name}, {key}']:{form}}" for key, form in forms.items())]
        for name in MORE
    ]
    return markdown(["law", "declared", "measured, at least", "tells the two apart"], lines)


PIECE = Piece(
    "when a value changed: what all reports of a person tell, with and without spells",
    part,
    parts=len(MORE),
    sample=(1,),
    figures=figures,
    table=table,
)
