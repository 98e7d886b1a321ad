"""`murmur check` of a campaign that asks for figures: what people are asked, reveal and spend."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from murmuration import sentences
from murmuration.campaign.bounds import bound_of
from murmuration.campaign.question import CLAMP, NO_ANSWER, REFUSE, SPREAD, Question
from murmuration.campaign.review import Asked, Law, Review, review, without_budget
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.output import console, say
from murmuration.cli.terms import kept, terms_data
from murmuration.device.costs import LIMITS
from murmuration.wire.ids import ID_BYTES

MOST_SHOWN = 12
"""Attributes whose choice is explained one by one."""


class SurveyPage:
    """What is said about a campaign that asks for figures."""

    def __init__(self, campaign: SurveyCampaign) -> None:
        self._reviewed = review(campaign)

    @property
    def passed(self) -> bool:
        """Whether every law keeps its promise, and its sampler keeps to the law."""
        return self._reviewed.passed

    def data(self) -> dict[str, Any]:
        """Return the review as plain data; an infinite loss is null."""
        return _data(self._reviewed)

    def show(self) -> None:
        """Print the review in plain words."""
        _print(self._reviewed)


# --- for machines --------------------------------------------------------------------------------


def _data(reviewed: Review) -> dict[str, Any]:
    campaign = reviewed.campaign
    return {
        "passed": reviewed.passed,
        "campaign": campaign.name,
        "digest": campaign.digest,
        "epsilon": campaign.epsilon,
        "loss": reviewed.loss,
        "charge": reviewed.charge,
        "limit": campaign.limit,
        "accept_loss": campaign.accept_loss,
        "strategy": campaign.strategy.name,
        "sample": campaign.strategy.settings().get("sample"),
        "levels": list(campaign.levels.names) if campaign.levels is not None else None,
        "repeated": campaign.repeated,
        "every": campaign.every,
        "rounds": campaign.max_reports,
        "spells": campaign.spells and asdict(campaign.spells) | {"number": campaign.spells.number},
        "report_bytes": campaign.form.row_bytes,
        "id_bytes": ID_BYTES,
        "entries": len(campaign.frame.widths),
        **terms_data(campaign.terms),
        "grace": campaign.terms.grace if campaign.every else None,
        "sampler": {
            "words": sum(audit.words_tried for audit in reviewed.audits),
            "disagreements": sum(audit.disagreements for audit in reviewed.audits),
            "tests": sum(len(audit.tests) for audit in reviewed.audits),
            "failed": sum(len(audit.failed) for audit in reviewed.audits),
        },
        "without_budget": without_budget(reviewed.campaign),
        "attributes": [_asked_data(asked) for asked in reviewed.asked],
    }


def _asked_data(asked: Asked) -> dict[str, Any]:
    question = asked.question
    return {
        "name": question.name,
        "kind": question.kind,
        "low": question.low,
        "high": question.high,
        "labels": list(question.labels),
        "unit": unit_of(question),
        "outside": question.outside,
        "missing": question.missing,
        "checks": question.checks or None,
        "of": list(question.of),
        "misfit": question.rule,
        "silence": list(asked.silence),
        "share": asked.share,
        "reason": asked.reason,
        "laws": [_law_data(law) for law in asked.laws],
    }


def _law_data(law: Law) -> dict[str, Any]:
    return {
        "level": law.level or None,
        "mechanism": law.mechanism,
        "budget": law.budget,
        "loss": law.loss,
        "charge": law.charge,
        "long_run": law.long_run,
        "all_stay": law.all_stay,
        "all_change": law.all_change,
        "ranges": list(law.ranges),
        "pairs": law.pairs,
        "pair_budgets": law.pair_budgets,
        "stderr": law.stderr,
        "stderr_if_none_missing": law.certain,
        "stderr_with_missing": law.with_none,
    }


# --- for people ----------------------------------------------------------------------------------


def unit_of(question: Question) -> str:
    """Return the unit of an attribute's figures."""
    return question.unit if question.has_range else "share"


def _print(reviewed: Review) -> None:
    campaign = reviewed.campaign
    say(f"[bold]{campaign.name}[/]: {escape(campaign.terms.purpose)}")
    console.print(_questions(reviewed))
    if sharing := how_often(reviewed):
        say(f"[bold]How often each is asked[/]: {sharing}")
    say(f"[bold]What one person sends[/]: {_sent(campaign)}")
    say(f"[bold]What it reveals[/]: {_revealed(reviewed)}")
    for text in _details(reviewed):
        say(f"  {text}")
    if any(law.pairs for asked in reviewed.asked for law in asked.laws):
        _print_pairs(reviewed)
    _print_misfits(reviewed)
    _print_silence(reviewed)
    say(f"[bold]What a device may spend[/]: {_spent(reviewed)}")
    say(f"[bold]When anything is shown[/]: {_cohort(reviewed)}")
    say(f"[bold]Kept[/]: {_kept(campaign)}")
    _print_reasons(reviewed)
    verdict = "[bold green]passed[/]" if reviewed.passed else "[bold red]FAILED[/]"
    say(f"audit {verdict}: every law in exact arithmetic; {_sampler(reviewed)}")
    say(f"digest {campaign.digest}")


def _questions(reviewed: Review) -> Table:
    table = Table(
        title=f"what is asked, and what {reviewed.campaign.terms.people:,} people will give"
    )
    table.add_column("attribute", overflow="fold")
    table.add_column("answer", overflow="fold")
    table.add_column("asked", justify="right", no_wrap=True)
    table.add_column("mechanism", no_wrap=True)
    table.add_column("standard error", justify="right")
    for asked in reviewed.asked:
        table.add_row(
            escape(asked.question.name),
            escape(answer_of(asked.question)),
            f"{asked.share:.3g}" if asked.share < 0.001 else f"{asked.share:.1%}",
            asked.laws[-1].mechanism,
            escape(_error(asked)),
        )
    return table


def how_often(reviewed: Review) -> str:
    """Say why some attributes are asked more often, or all alike; nothing if all are answered."""
    shares = {asked.share for asked in reviewed.asked}
    if min(shares) == 1:
        return ""
    if len(shares) > 1:
        return "more people are asked what is harder to estimate"
    return (
        "all alike. By what is harder to estimate only where all are numbers and categories with "
        'mechanism = "auto", sample = 1, and no epsilons of their own, levels or [repeat]'
    )


SILENT = "not sent (such devices are silent, which can be seen)"


def answer_of(question: Question) -> str:
    """Say what an answer is, and what becomes of one that does not fit."""
    if question.checks:
        return f"whether the answer to {question.checks} fitted; the device says it by itself"
    if question.of:
        cells, both = len(question.labels), " and ".join(question.of)
        return f"the answers to {both} together, one of {cells} pairs; the device makes it of both"
    if question.kind == "category":
        shown = ", ".join(question.labels[:4]) + (", ..." if len(question.labels) > 4 else "")
        rules = {REFUSE: SILENT, SPREAD: "counted as one of these, by chance"}
        rest = rules.get(question.outside, f"counted as {question.outside}")
        none = ", or none" if question.missing else ""
        return f"one of {len(question.labels)} labels ({shown}){none}; others {rest}"
    low, high = question.range
    unit = f" {question.unit}" if question.unit else ""
    rules = {CLAMP: "set to the nearer end", NO_ANSWER: "counted as no answer"}
    none = ", or none" if question.missing else ""
    return f"{low:g} to {high:g}{unit}{none}; beyond: {rules.get(question.outside, SILENT)}"


def _error(asked: Asked) -> str:
    return _errors(asked, [law.stderr for law in asked.laws])


def _errors(asked: Asked, expected: list[float]) -> str:
    """Return expected errors, of one law or of several levels, in the attribute's units."""
    sizes = sorted(set(expected))
    if not asked.question.has_range:
        shown = [f"{100 * error:.2g}" for error in sizes]
        unit = " percentage points"
    else:
        shown = [f"{error:.3g}" for error in sizes]
        unit = f" {asked.question.unit}" if asked.question.unit else ""
    ends = shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}"
    return f"±{ends}{unit}"


def _sent(campaign: SurveyCampaign) -> str:
    what = campaign.strategy.in_words(len(campaign.questions))
    level = "; the level that the person picked is visible" if campaign.levels else ""
    level += f"; the {campaign.every} that it is about is visible" if campaign.every else ""
    return (
        f"{campaign.form.row_bytes:,} bytes, the same number whatever the answer is: "
        f"{what}{level}. "
        f"And an id of {ID_BYTES} bytes without a time, so that it is counted once. "
        "The answer itself never leaves the device."
    )


def _revealed(reviewed: Review) -> str:
    if not math.isfinite(reviewed.loss):
        return "[bold red]possibly everything[/]: the exact loss is infinite, as the file accepts"
    kept = reviewed.loss <= reviewed.campaign.epsilon
    accepted = None if kept else reviewed.campaign.accept_loss
    loss = sentences.reveals(reviewed.loss, reviewed.campaign.epsilon, accepted)
    return (
        f"the exact loss of one report is {escape(loss)}. {sentences.odds(reviewed.loss)} "
        f"{sentences.sure(reviewed.loss)}"
    )


def _details(reviewed: Review) -> list[str]:
    """Say what each level costs, and what asking again costs."""
    campaign, bound = reviewed.campaign, bound_of(reviewed.campaign)
    names = campaign.levels.names if campaign.levels is not None else ()
    losses = [campaign.loss(place).epsilon for place in range(len(names))]
    texts = [
        f"{escape(sentences.level_offer(name, loss))} (loss {sentences.above(loss, 7)})"
        for name, loss in zip(names, losses, strict=True)
    ]
    if bound is not None:
        texts.append(f"people are told: {sentences.all_reports(bound.loss, bound.hidden)}")
    for asked in reviewed.asked:
        law = asked.laws[-1]
        if law.long_run is not None:
            name = escape(asked.question.name)
            texts += [f"{name}: {text}" for text in _over_time(campaign, asked, law)]
    return texts


def _over_time(campaign: SurveyCampaign, asked: Asked, law: Law) -> list[str]:
    """Say what all reports together tell, of a value that stays and of one that changes."""
    reports, spells = campaign.max_reports, campaign.spells
    if spells is not None and law.all_change is not None and law.long_run is not None:
        length = f"{spells.length} {campaign.every}{'s' * (spells.length > 1)}"
        number = spells.number
        return [
            sentences.one_and_all_spells(
                law.loss, law.all_change, reports, number, length, law.long_run
            ),
            sentences.CHANGES_IN_SPELLS,
        ]
    threshold = asked.question.has_range
    return [
        sentences.one_and_all_alike(law.loss, law.long_run or 0.0, new_value=not threshold),
        f"[bold yellow]not hidden[/]: "
        f"{sentences.changes_show(reports, law.all_change or 0.0, threshold)}",
    ]


def _print_misfits(reviewed: Review) -> None:
    """Say for each attribute what becomes of an answer that does not fit."""
    say("[bold]What becomes of an answer that does not fit[/] (the app is told, nobody else):")
    alike: dict[str, list[str]] = {}
    for asked in reviewed.asked:
        if not asked.question.derived:
            alike.setdefault(asked.question.rule, []).append(asked.question.name)
    for rule, names in alike.items():
        say(f"  {_named(names)}: {escape(rule)}")
    checked = {asked.question.checks for asked in reviewed.asked}
    unseen = [
        asked.question.name
        for asked in reviewed.asked
        if asked.question.hides_misfits and not asked.question.checks
    ]
    if unseen := [name for name in unseen if name not in checked]:
        hint = escape("[check_fit]")
        say(f"  {_named(unseen)}: figures do not show how many; {hint} in the file would")


def _named(names: list[str]) -> str:
    """Name attributes, the first ones of many."""
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return f"{escape(', '.join(names[:MOST_SHOWN]))}{more}"


def _print_silence(reviewed: Review) -> None:
    """Say for each attribute when a device would be silent, and what missing = true costs."""
    say("[bold]What silence would tell[/] (no epsilon covers it):")
    alike: dict[tuple[str, ...], list[str]] = {}
    for asked in reviewed.asked:
        alike.setdefault(asked.silence, []).append(asked.question.name)
    for texts, names in alike.items():
        for text in texts:
            say(f"  {_named(names)}: {text}")
    say(f"  all attributes: {without_budget(reviewed.campaign)}")
    for asked in [asked for asked in reviewed.asked if asked.question.missing][:MOST_SHOWN]:
        certain = _errors(asked, [law.certain for law in asked.laws])
        say(
            f"  {escape(asked.question.name)}: missing = true costs accuracy: {_error(asked)}, "
            f"where all answer, instead of {certain}; more where fewer do"
        )
    for asked in [asked for asked in reviewed.asked if not asked.question.missing][:MOST_SHOWN]:
        costs = [law.with_none for law in asked.laws if law.with_none is not None]
        if costs:
            say(
                f"  {escape(asked.question.name)}: missing = true would cost accuracy: "
                f"{_errors(asked, costs)}, where all answer, instead of {_error(asked)}"
            )


def _print_pairs(reviewed: Review) -> None:
    """Print the loss between ranges, in the attribute's own units."""
    for asked in reviewed.asked:
        law = asked.laws[0]
        if law.pairs is None or law.pair_budgets is None:
            continue
        title = f"{escape(asked.question.name)}: exact loss / budget of two answers"
        table = Table("range", title=title)
        for name in law.ranges:
            table.add_column(name, justify="right")
        for name, losses, tops in zip(law.ranges, law.pairs, law.pair_budgets, strict=True):
            cells = [f"{loss:.4g} / {top:.4g}" for loss, top in zip(losses, tops, strict=True)]
            table.add_row(name, *cells)
        console.print(table)


def _spent(reviewed: Review) -> str:
    """Say what a device may spend, and where a new ledger allows less."""
    campaign, usual = reviewed.campaign, LIMITS["collector"]
    limit = campaign.limit
    if limit is None or limit <= usual:
        return _spends(reviewed)
    if campaign.prepays_none:
        then = 'a device whose limit is reached says "no answer" from then on'
    elif campaign.can_say_none:
        then = 'a device whose limit does not hold all of it says "no answer"'
    else:
        then = "a device whose limit does not hold all of it never takes part"
    return f"{_spends(reviewed)} (a new ledger allows {usual:g} for one collector: {then})"


def _spends(reviewed: Review) -> str:
    campaign = reviewed.campaign
    return sentences.may_spend(
        reviewed.charge,
        campaign.limit,
        spells=campaign.spells is not None,
        by_value=campaign.repeated,
        numbers=not all(law.by_value for law in campaign.frame.cells),
        says_none=campaign.prepays_none,
    )


def _cohort(reviewed: Review) -> str:
    terms = reviewed.campaign.terms
    few = [
        asked.question.name for asked in reviewed.asked if asked.share * terms.people < terms.cohort
    ]
    too_few = f" [bold yellow](too few for {escape(', '.join(few))})[/]" if few else ""
    each = f" in each {reviewed.campaign.every}" if reviewed.campaign.every else ""
    return (
        f"an attribute's figures from {terms.cohort:,} answers to it on{each}, and none before "
        f"that; {terms.people:,} people are expected{each}{too_few}"
    )


def _kept(campaign: SurveyCampaign) -> str:
    late = f"; {_late(campaign)}" if campaign.every else ""
    return f"{kept(campaign.terms, 'open until it is taken down')}{late}"


def _late(campaign: SurveyCampaign) -> str:
    """Say for how long reports of a period are taken."""
    grace = campaign.terms.grace
    more = f"{grace} {campaign.every}{'s' * (grace != 1)} more" if grace else "no longer"
    return f"reports of a {campaign.every} are taken until it ends, and {more}"


def _print_reasons(reviewed: Review) -> None:
    for asked in reviewed.asked[:MOST_SHOWN]:
        chosen = asked.laws[-1].mechanism
        say(f"[dim]{escape(asked.question.name)}: {chosen}: {asked.reason}[/]")
    if len(reviewed.asked) > MOST_SHOWN:
        say(f"[dim]and {len(reviewed.asked) - MOST_SHOWN} more (--json has all)[/]")


def _sampler(reviewed: Review) -> str:
    """Say what the samplers were tried on, and what came of it."""
    bad = [audit for audit in reviewed.audits if not audit.sampler_agrees]
    if bad:
        return f"a sampler {bad[0].how}"
    words = sum(audit.words_tried for audit in reviewed.audits)
    tests = sum(len(audit.tests) for audit in reviewed.audits)
    done = [f"{words:,} words"] * bool(words) + [f"{tests} statistical tests"] * bool(tests)
    return f"the samplers agree with them on {' and '.join(done)}"
