"""`murmur check` of a campaign that trains a model: what people are asked, reveal and spend."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from murmuration import sentences
from murmuration.audit.exact import Audit, audit
from murmuration.cli.output import console, say
from murmuration.cli.terms import kept, terms_data
from murmuration.training.algorithm.questions import ROLES
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire.ids import ID_BYTES

QUESTIONS = 47
"""Of a whole training, about: 32 for gradients, 15 before and after them."""
REPORT_BYTES = 1
"""Of a role's number, before the octets of its law."""


class TrainingPage:
    """What is said about a campaign that trains a model."""

    def __init__(self, campaign: TrainingCampaign) -> None:
        self._campaign = campaign
        self._audits = [audit(law) for law in campaign.laws]

    @property
    def passed(self) -> bool:
        """Whether every sampler was tried and kept to its law."""
        return all(audit.sampler_agrees for audit in self._audits)

    def data(self) -> dict[str, Any]:
        """Return what is asked, revealed and spent as plain data."""
        return _data(self._campaign, self.passed)

    def show(self) -> None:
        """Say in plain words what each person sends, reveals and spends."""
        _show(self._campaign, self._audits, self.passed)


def _data(campaign: TrainingCampaign, passed: bool) -> dict[str, Any]:
    return {
        "passed": passed,
        "kind": campaign.kind,
        "campaign": campaign.name,
        "digest": campaign.digest,
        "model": campaign.model,
        "epsilon": campaign.epsilon,
        "loss": campaign.loss().epsilon,
        "charge": campaign.charge,
        **terms_data(campaign.terms),
        "rounds": campaign.most_rounds,
        "deadline": campaign.deadline,
        "report_bytes": REPORT_BYTES + max(law.report_bytes for law in campaign.laws),
        "id_bytes": ID_BYTES,
        "columns": list(campaign.columns),
        "target": campaign.target.name,
        "laws": [{"mechanism": law.name, "loss": law.loss().epsilon} for law in campaign.laws],
        "asks": list(ROLES),
    }


def _show(campaign: TrainingCampaign, audits: list[Audit], passed: bool) -> None:
    say(f"[bold]{campaign.name}[/]: {escape(campaign.terms.purpose)}")
    console.print(_attributes(campaign))
    size = REPORT_BYTES + max(law.report_bytes for law in campaign.laws)
    say(
        f"[bold]What one person sends[/]: one report in the whole training, in one of its rounds: "
        f"at most {size} bytes, a randomised answer to one question (one attribute, the target or "
        "its range, the slope of the loss at the model so far, how large the model's predictions "
        "are, whether it is right, ...). "
        "Which one is drawn by a coin that does not look at the answer, and is visible. And an id "
        f"of {ID_BYTES} bytes without a time. Features and target never leave the device."
    )
    loss = campaign.loss().epsilon
    revealed = sentences.reveals(loss, campaign.epsilon)
    say(
        f"[bold]What it reveals[/]: the exact loss of one report is {revealed}, whatever a round "
        f"asks: about features and target together. {sentences.odds(loss)} {sentences.sure(loss)}"
    )
    say(
        "[bold]What silence would tell[/] (no epsilon covers it): a device without one of these "
        "answers sends nothing, and that tells that there is none; values beyond a range count as "
        "its end, other labels as one of these by chance, or as the label for the rest. A device "
        "that must not spend more sends nothing, either, and that tells that it has told somebody"
    )
    say(
        f"[bold]What a device may spend[/]: {campaign.charge:.6g} for its one report, and nothing "
        "after that, however many rounds there are"
    )
    rounds = campaign.most_rounds
    say(
        f"[bold]Rounds[/]: {rounds} at most; each closes when its people have answered, or after "
        f"{_span(campaign.deadline)}, so all of them take {_span(rounds * campaign.deadline)} at "
        f"most; {campaign.terms.people:,} people are expected"
    )
    if campaign.terms.people < QUESTIONS * campaign.least:
        say(
            f"[yellow]few people for this cohort[/]: each question is asked of {campaign.least:,} "
            f"people or more, and a whole training has about {QUESTIONS}. With "
            f"{campaign.terms.people:,} some are left out, and less is learnt: expect "
            f"{QUESTIONS * campaign.least:,}, or say a smaller cohort"
        )
    say(f"[bold]Kept[/]: {kept(campaign.terms, 'open until training is over')}")
    verdict = "[bold green]passed[/]" if passed else "[bold red]FAILED[/]"
    tried = sum(audit.words_tried for audit in audits)
    say(
        f"audit {verdict}: {len(campaign.laws)} laws in exact arithmetic; their samplers tried on "
        f"{tried:,} words"
    )
    say(f"digest {campaign.digest}")


def _attributes(campaign: TrainingCampaign) -> Table:
    table = Table(title=f"a {campaign.model} model of {escape(campaign.target.name)}")
    for name in ("attribute", "part", "answer", "columns"):
        table.add_column(name, overflow="fold")
    for feature in campaign.features:
        typical = ""
        if feature.typical is not None:
            typical = f", mostly {feature.typical[0]:g} to {feature.typical[1]:g}"
        answer = _answer(feature.question) + typical
        table.add_row(escape(feature.question.name), "feature", escape(answer), str(feature.width))
    target = campaign.target
    table.add_row(escape(target.name), "target", escape(_answer(target)), "")
    return table


def _answer(question: Any) -> str:
    if question.labels:
        shown = ", ".join(question.labels[:4]) + (", ..." if len(question.labels) > 4 else "")
        return f"one of {len(question.labels)} labels ({shown})"
    low, high = question.range
    return f"{low:g} to {high:g}{' ' + question.unit if question.unit else ''}"


def _span(seconds: int) -> str:
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    unit, name = next((unit, name) for unit, name in units if seconds % unit == 0)
    many = seconds // unit
    return f"{many} {name}{'s' * (many != 1)}"
