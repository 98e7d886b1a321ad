"""A campaign file, written for somebody who goes on editing it: every key has its comment."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

import msgspec

from murmuration.campaign.answers import EXACT, IGNORE
from murmuration.campaign.question import ANSWERED, NO_ANSWER
from murmuration.campaign.terms import Told
from murmuration.errors import MurmurationError
from murmuration.planning.choose import LITTLE, cost_of_missing

LISTED = 1000
"""Labels that are listed in the comment on a column that is left out, at most."""


@dataclass(frozen=True)
class Draft:
    """One attribute to be written; a skipped one is written as a comment, its labels too."""

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: tuple[str, ...] = ()
    note: str = ""
    skipped: str = ""
    missing: int = 0
    """How many rows have none."""
    markers: tuple[str, ...] = ()
    case: str = EXACT
    alike: int = 0
    """How many labels differ from another in case only."""
    costs: float | None = None
    """By how much `missing = true` makes standard errors larger; None where it is not known."""
    hint: str = ""
    """What is said on the terminal, and not in the file."""
    doubtful: tuple[str, ...] = ()
    """Values that may stand for no answer, too."""

    @property
    def may_be_missing(self) -> bool:
        """Whether the file says `missing = true`: some rows have none, or it costs little."""
        return self.missing > 0 or (self.costs is not None and self.costs <= LITTLE)

    @property
    def became(self) -> str:
        """What it is in the file."""
        if self.skipped:
            return "left out"
        if self.labels:
            return f"category, {len(self.labels)} labels"
        return f"number, {_plain(self.low)} to {_plain(self.high)}"

    @property
    def why(self) -> str:
        """Why it is that."""
        kinds = ["texts" if self.labels else "numbers; the range is rounded outwards: replace it"]
        reasons = [self.skipped] if self.skipped else kinds
        if self.missing:
            marks = " ".join(self.markers)
            reasons.append(f"{self.missing:,} missing" + (f" (empty or {marks})" if marks else ""))
        if self.alike and self.case == EXACT:
            reasons.append(f"{self.alike} labels differ in case only: --ignore-case makes them one")
        return "; ".join([*reasons, self.hint] if self.hint else reasons)


def shown_name(name: str) -> str:
    r"""Return a column's name in one line.

    >>> shown_name("age"), shown_name(" "), shown_name("a\nb")
    ('age', '(no name)', "'a\\nb'")
    """
    if not name.strip():
        return "(no name)"
    return name if name.isprintable() else ascii(name)


def written(name: str, purpose: str, epsilon: float, people: int, asked: Sequence[Draft]) -> str:
    """Return the text of a campaign file.

    `missing = true` is written wherever it makes standard errors at most 10% larger at the number
    of people that is expected (`LITTLE`), every attribute asked as often.
    """
    asked = priced(asked, epsilon, people)
    head = _HEAD.format(
        name=_quoted(name),
        purpose=_quoted(purpose),
        plain=_comment("purpose"),
        epsilon=f"{epsilon:g}",
        people=people,
        expected=_comment("people"),
        terms=_terms(),
    )
    first = next(draft for draft in asked if not draft.skipped)
    parts = [head, *(_attribute(draft, draft is first) for draft in asked), _TAIL]
    return "\n".join(parts)


def priced(asked: Sequence[Draft], epsilon: float, people: int) -> list[Draft]:
    """Return attributes with what `missing = true` costs them."""
    share = 1 / max(1, sum(not draft.skipped for draft in asked))
    priced_drafts: dict[int | None, float | None] = {}
    priced = []
    for draft in asked:
        k = len(draft.labels) or None
        if draft.skipped or not {NO_ANSWER, ANSWERED}.isdisjoint(draft.labels):
            priced.append(draft)
            continue
        if k not in priced_drafts:
            priced_drafts[k] = _price(epsilon, k, share, people)
        priced.append(replace(draft, costs=priced_drafts[k]))
    return priced


def _price(epsilon: float, k: int | None, share: float, people: int) -> float | None:
    try:
        return cost_of_missing(epsilon, k, share, people)
    except MurmurationError:  # nothing is for so many labels: the file's reader says so
        return None


def _terms() -> str:
    """Return the other terms: each below its comment, commented out unless it is a usual choice."""
    lines = []
    for field in msgspec.structs.fields(Told):
        if field.name in ("purpose", "people"):
            continue
        if comment := _comment(field.name):
            lines += ["", *(f"# {line}" for line in comment.splitlines())]
        example = _meta(field.name).extra["example"]
        lines.append(
            f"# {field.name} = {example}" if example else f"{field.name} = {field.default}"
        )
    return "\n".join(lines[1:])


def _comment(term: str) -> str:
    return _meta(term).description or ""


def _meta(term: str) -> Any:
    """Return what is written about a term."""
    _, about, *_ = get_args(get_type_hints(Told, include_extras=True)[term])
    return about


def _quoted(text: str) -> str:
    """Return text as TOML has it; for one line that is as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def _plain(number: float | None) -> str:
    whole = number is not None and number.is_integer() and abs(number) < 1e15
    return str(int(number)) if whole and number is not None else repr(number)


def _attribute(draft: Draft, explained: bool) -> str:
    if draft.skipped:
        kept = _commented(draft) if 2 <= len(draft.labels) <= LISTED else ""
        return f"# Column {shown_name(draft.name)} was left out: {draft.skipped}.\n{kept}"
    lines = ["[[attributes]]", f"name = {_quoted(draft.name)}"]
    if draft.labels:
        if draft.note:
            lines.append(
                "# Found in the data; the list must be public knowledge. Add what is missing."
            )
        labels = ", ".join(map(_quoted, draft.labels))
        lines += ['kind = "category"', f"labels = [{labels}]"]
        if draft.case == IGNORE:
            lines.append('case = "ignore"  # capital and small letters are the same')
        if not draft.may_be_missing:
            lines.append('outside = "spread"  # other answers count as one by chance; or a label')
    else:
        if draft.note:
            lines += [
                "# The range must come from public knowledge, NOT from the data: it could",
                "# show what one person's value is. This one was rounded outwards from the data:",
                "# replace it.",
            ]
        lines += [f"low = {_plain(draft.low)}", f"high = {_plain(draft.high)}"]
        lines.append(f"unit = {_quoted(draft.unit)}")
        if not draft.may_be_missing:
            lines.append('outside = "clamp"  # values beyond count as the nearer end')
    missing = _missing(draft)
    more = [line for line in _MORE if explained and _key(line) not in map(_key, [*lines, *missing])]
    return "\n".join([*lines, *missing, *more]) + "\n"


def _key(line: str) -> str:
    return line.removeprefix("# ").partition(" = ")[0]


def _commented(draft: Draft) -> str:
    """Return a column that is left out as it would be kept."""
    text = _attribute(replace(draft, skipped=""), False)
    return "# To keep it, take these marks away:\n" + re.sub(r"(?m)^(?=.)", "# ", text)


def _missing(draft: Draft) -> list[str]:
    """Return the lines about answers that are missing, and what it costs that they may be."""
    cost = "" if draft.costs is None else f"standard errors are {max(0, draft.costs):.0%} larger"
    if not draft.may_be_missing:
        return [
            "# Without it who has no answer is silent, and what does not fit changes figures.",
            f"# missing = true  # no answer is one, as well protected{cost and f'; {cost}'}",
        ]
    why = "some rows have none" if draft.missing else "for who has none, and for what does not fit"
    lines = [
        f"# No answer is one, as well protected: {why}.",
        f"missing = true{cost and f'  # it costs accuracy: {cost}'}",
    ]
    if draft.markers:
        markers = ", ".join(map(_quoted, draft.markers))
        lines.append(f"markers = [{markers}]  # texts that stand for no answer")
    rule, what = ("spread", "a label by chance") if draft.labels else ("clamp", "the nearer end")
    lines.append(f'# outside = "{rule}"  # what does not fit counts as {what}; left out: no answer')
    return lines


_HEAD = """\
# A campaign: what is asked, and what it may cost. `murmur check` says what it means.

name = {name}  # small letters, digits and -
purpose = {purpose}  # {plain}

# What one report may reveal, at most. 1 is usual; less is more private and less exact.
# Left out, each attribute needs an epsilon of its own.
epsilon = {epsilon}

people = {people}  # {expected}

{terms}

# Several attributes: "auto" asks each person one of them, with all of epsilon ("sample");
# "split" and "split-optimal" ask everyone everything and share epsilon out; "block" (numbers),
# "harmony" and others answer all in one report.
# strategy = "auto"
# sample = 1  # how many attributes each person is asked, for "sample"

# The most that this campaign may ever cost one device. Left out: one report.
# lifetime = 1.0

# Only for a mechanism that breaks its promise: the audit's sentence on what it costs.
# accept_loss = "an infinite loss where 1.0 is promised"
"""
_MORE = [
    '# markers = ["?"]  # texts that stand for no answer, with missing = true',
    '# case = "ignore"  # capital and small letters of labels are the same',
    '# mechanism = "auto"  # the planner\'s choice, or a name: murmur mechanisms',
    "# parameters = {}  # of a mechanism that is named",
    "# epsilon = 0.5  # of this attribute alone",
]
_TAIL = """\
# A number whose whole distribution is wanted, not only its mean:
# [[attributes]]
# name = "screen time"
# kind = "distribution"
# low = 0
# high = 24
# unit = "hours"
# bins = 64

# A number whose ranges need different protection: budgets, one for each range; edges, where they
# meet; semantics, what values in different ranges may cost ("max", "min" or a matrix).
# [[attributes]]
# name = "income"
# kind = "graded"
# low = 0
# high = 125000
# edges = [30000, 100000]
# budgets = [1.0, 0.5, 0.25]
# semantics = "max"

# Labels that need different protection: budgets, one for each label; semantics, what two different
# labels may cost ("min", "max" or a matrix).
# [[attributes]]
# name = "illness"
# kind = "category"
# labels = ["none", "cold", "flu", "hiv"]
# budgets = [1.0, 1.0, 1.0, 0.25]

# Levels of privacy that people choose themselves, each a part of epsilon:
# [levels]
# high = "1/3"
# medium = "1/2"
# low = 1

# The same question again and again (categories and numbers): one permanent noisy answer for each
# value, fresh noise on it each time. `permanent` is what all reports about one value cost together.
# [repeat]
# permanent = 2.0
# rounds = 12  # how often one device reports at most
# every = "week"  # or "day", "month": each report says its week, and figures are by week
# grace = 1  # for how many weeks after its end reports of a week are taken
# values = 3  # how many different values one person may report
# law = "spells"  # one permanent answer for each of some spells of periods: hides when it changed,
#                 # and intervals of changes of a number are narrower
# changes = 2  # with spells: one spell more than that, each costs permanent
# first = 2026-11-16  # with spells: a day of the first period

# How many answers do not fit, where they are clamped or spread: a planned share of the devices says
# so, privately, instead of an answer.
# [check_fit]
# error = 0.02  # the standard error of that share, at most

# Two attributes asked together, of a part of the people: a table. It takes no [repeat], no levels.
# [[tables]]
# of = ["age", "phone"]  # numbers say where they are cut: edges = [...], or bins = 5
# share = 0.2  # of the people; left out: as many as the planner says
"""
