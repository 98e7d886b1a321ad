"""What 52 weekly reports of one person tell at worst, if somebody reads them together.

    python -m experiments.evidence longrun

Devices as they are (`lab.fleet`: keys, words, the wire) report every week. Half of the people have
one answer and half another, and an attacker who knows the law reads all reports of each person
side by side, which no collector can. For the reports that speak most clearly for the first answer
the ratio of both groups is measured on people whom the attacker has not seen before:

    permanent    as devices do: permanent answers, fresh noise on them each week
    fresh        a new answer every week, as if nothing were kept: a new key each week

`at most` is the loss that is declared for so many reports, exactly. `measured` is a lower bound of
the real one (Clopper-Pearson, 95%): above `at most` a promise would be broken. `right` is how often
the attacker tells the two answers apart, if both are as likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import beta

from experiments.piece import Figures, Piece, Row, markdown
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load as campaign_file
from murmuration.device.words import CrowdWords
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import keys_of, made
from murmuration.mechanisms.item.memoised import Memoised

TEXT = """
name = "weekly"
purpose = "The same question every week."
epsilon = 1.0
cohort = 100
[repeat]
permanent = 2.0
rounds = 52
every = "week"
[[attributes]]
name = "answer"
kind = "category"
labels = ["yes", "no", "perhaps"]
"""
ORIGIN = "https://collector.example:443"
WEEKS = 52
FIRST = 2960
CHANCE = 0.05


@dataclass(frozen=True)
class Attack:
    """What an attacker gets out of so many reports a person."""

    reports: int
    declared: float
    measured: float
    right: float


def campaign() -> SurveyCampaign:
    """Return the campaign that is played."""
    return campaign_file.parse(TEXT, SurveyCampaign)


def sent(asked: SurveyCampaign, people: int, weeks: int, fresh: bool, seed: int) -> Ints:
    """Return what is read from the reports of each person, a row a week; half answer each way."""
    answers = {"answer": ["yes"] * (people // 2) + ["no"] * (people - people // 2)}
    devices, rows = np.arange(people), []
    for week in range(weeks):
        secret = Key(bytes([seed % 256, 1 + week if fresh else 0]) + bytes(30))
        words = CrowdWords(keys_of(secret, devices), ORIGIN, asked.digest)
        columns = asked.encode(answers, words.spread(answers))
        _, sent_rows = made(asked, words, columns, None, asked.name_of(FIRST + week))
        ((_, octets),) = asked.form.entries(sent_rows)
        rows.append(asked.frame.cells[0].from_rows(octets).astype(np.int64))
    return np.array(rows)


def clearness(law: Memoised, reports: Ints, fresh: bool) -> Floats:
    """Return ln of how much more likely each person's reports are for the first answer."""
    counts = np.array([(reports == item).sum(axis=0) for item in range(law.k)], dtype=float)
    if fresh:
        return np.asarray((counts[0] - counts[1]) * math.log(law.p / law.q))
    odds = counts * math.log(law.keep / law.swap)
    own, other = float(law.memory.truth), float(law.memory.lie)
    chances = [np.full((law.k, 1), other) for _ in range(2)]
    chances[0][0] = chances[1][1] = own
    first, second = (np.log((one * np.exp(odds - odds.max(axis=0))).sum(axis=0)) for one in chances)
    return np.asarray(first - second)


def attacked(law: Memoised, reports: Ints, fresh: bool) -> Attack:
    """Choose by one half of the people which reports speak most clearly; measure on the other."""
    weeks, people = reports.shape
    score, half = clearness(law, reports, fresh), people // 2
    groups = score[:half], score[half:]
    seen, new = ([one[turn::2] for one in groups] for turn in (0, 1))
    edges = np.unique(np.round(np.concatenate(seen), 9))
    edges = edges[:: max(1, len(edges) // 200)]
    best = max(edges, key=lambda edge: _bound(seen, edge))
    measured = _bound(new, best)
    right = ((new[0] > 0).mean() + (new[1] < 0).mean() + _ties(new)) / 2
    declared = weeks * law.loss().epsilon if fresh else law.loss_of(weeks).epsilon
    return Attack(weeks, declared, measured, float(right))


def _ties(groups: list[Floats]) -> float:
    """Return what tossing a coin adds where nothing is told."""
    return float(sum((one == 0).mean() for one in groups)) / 2


def _bound(groups: list[Floats], edge: float) -> float:
    """Return ln of the least ratio that counts above an edge allow: both bounds hold with 95%."""
    (ours, n), (theirs, m) = ((int((one >= edge).sum()), len(one)) for one in groups)
    if not ours:
        return -math.inf
    least = beta.ppf(CHANCE / 2, ours, n - ours + 1)
    most = beta.ppf(1 - CHANCE / 2, theirs + 1, m - theirs) if theirs < m else 1.0
    return float(math.log(least / most))


PEOPLE = 20_000
PLANS = {"permanent": False, "fresh": True}
LENGTHS = (1, 4, 13, 52)


def part(number: int) -> Row:
    """Attack what 40,000 devices have sent, with permanent answers (0) or fresh ones (1)."""
    name = list(PLANS)[number]
    asked = campaign()
    (law,) = asked.frame.cells
    assert isinstance(law, Memoised)
    reports = sent(asked, PEOPLE, WEEKS, PLANS[name], seed=1)
    attacks = [asdict(attacked(law, reports[:weeks], PLANS[name])) for weeks in LENGTHS]
    return {"name": name, "attacks": attacks}


def figures(rows: Sequence[Row]) -> Figures:
    """Return what is declared, what was measured, and how often the attacker is right."""
    found: Figures = {"people": PEOPLE}
    for row in rows:
        for attack in row["attacks"]:
            name = f"{row['name']}, {attack['reports']} reports"
            assert attack["measured"] <= attack["declared"], f"{name}: more than is declared"
            found |= {f"{name}, {key}": attack[key] for key in ("declared", "measured", "right")}
    return found


def table(found: Figures) -> str:
    """Return a table with a line for each number of reports."""
    lines = []
    for name in PLANS:
        for reports in LENGTHS:
            declared, measured, right = (
                found[f"{name}, {reports} reports, {key}"]
                for key in ("declared", "measured", "right")
            )
            line = [name, str(reports), f"{declared:.4f}", f"{measured:.4f}", f"{right:.1%}"]
            lines.append(line)
    head = ["answers", "reports", "declared, at most", "measured, at least", "tells two apart"]
    return markdown(head, lines)


PIECE = Piece(
    "what 52 weekly reports of one person tell somebody who reads them together",
    part,
    parts=len(PLANS),
    sample=(0,),
    figures=figures,
    table=table,
)
