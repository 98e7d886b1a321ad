"""`murmur send`: play many devices from a file, against a real collector."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from murmuration.campaign.answers import Reading
from murmuration.campaign.kind import of_kind
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.campaign.terms import ONE_DEVICE
from murmuration.cli.fit import MOST_MISFITS, NOT_SENT, Fit, measure, require_fitting, show
from murmuration.cli.keys import key_of
from murmuration.cli.options import (
    AllowMisfits,
    Batch,
    ColumnNames,
    Connections,
    Decimal,
    Delimiter,
    Encoding,
    Header,
    Json,
    PlainHttp,
    RowLimit,
    Secret,
    TokenFile,
)
from murmuration.cli.output import console, emit_json, errors, progress_bar, say
from murmuration.cli.tables import Columns, Form, open_table
from murmuration.device.loading import load
from murmuration.device.words import CrowdWords
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints
from murmuration.lab.fleet import Sent, SpellStarts, keys_of, made, send_all
from murmuration.sources.address import PLACE, CollectorSource
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire.address import Address
from murmuration.wire.report import REASONS

SIMULATION = (
    "This is a simulation: the file holds everyone's true values in one place. In a real "
    "collection they never leave the devices; each device sends its own report."
)

ADVICE = {
    "unauthorized": (
        "It needs a token of the role device (or a higher one) in the variable MURMUR_TOKEN: the "
        "collector's operator makes one by murmur token add STORE device."
    ),
    "forbidden": (
        "The token in MURMUR_TOKEN is not for sending to this campaign: it needs one of the role "
        "device for it, by murmur token add STORE device --campaign NAME."
    ),
}
"""What to do about a problem that the collector named."""
GRACE = (
    "A period stays open for as many periods after its end as grace says, in [repeat] of the "
    "campaign file: 1, unless told otherwise. To play a longer time at once, serve it with more."
)


def send(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CAMPAIGN",
            help="Address (the collector's, if it has one campaign), document or .toml file.",
        ),
    ],
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file, one row per device.")],
    to: Annotated[str, typer.Option(help="The campaign's address, if CAMPAIGN is a file.")] = "",
    batch: Batch = 1000,
    connections: Connections = 4,
    level_column: Annotated[
        str, typer.Option(help="The column with the level that each person picked.")
    ] = "",
    period: Annotated[
        str,
        typer.Option(help="The period of all reports, by its name or a date in it; else now."),
    ] = "",
    period_column: Annotated[
        str, typer.Option(help="The column with the period (or a date) of each row.")
    ] = "",
    device_column: Annotated[
        str,
        typer.Option(help="The column that says which rows are one device's, over all periods."),
    ] = "",
    reports_as: Annotated[
        str, typer.Option("--format", help="How reports travel: binary or json.")
    ] = "binary",
    limit: RowLimit = None,
    secret: Secret = None,
    tokens: TokenFile = None,
    allow_misfits: AllowMisfits = MOST_MISFITS,
    delimiter: Delimiter = "",
    encoding: Encoding = "",
    header: Header = None,
    columns: ColumnNames = "",
    decimal: Decimal = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Simulate devices: each row of a file is randomised and sent as one device's report.

    The whole file is looked at first. It is counted for each attribute how its values fit, and if
    more than 1% of them do not, nothing is sent (exit code 2), unless --allow-misfits says so. Rows
    with an answer missing, or one that is refused, are left out and counted, unless the attribute
    says missing = true: then no answer is sent as one. A token is taken from MURMUR_TOKEN. Exit
    code 2 if the collector refused reports, 3 if it did not answer for some of them.

    Each row is a device with a key of its own. With --secret another run of the same file makes the
    same reports with the same ids, and what has arrived is not counted again; without it each run
    plays new devices. Whoever has secret and reports knows the answers: keep it like the file.

    Where the campaign has periods, all rows are about the present one, unless --period or
    --period-column says otherwise. A row is a device of its own, unless --device-column says which
    rows are the same one's: those rest on the same permanent answers. With spells a device goes on
    with the first of its rows in a spell, in the order of the file.
    """
    table = open_table(data, Form.said(delimiter, encoding, header, columns, decimal))
    asked, address = load(_address(source, plain_http), plain_http)
    campaign = of_kind(asked, SurveyCampaign)
    url = _address(to, plain_http) or (str(address) if address else "")
    if not url:
        raise ParameterError("a campaign from a file needs --to, the collector's address")
    _require_open(campaign)
    participants = DeviceTokens.read(campaign, tokens)
    played = RowPlan(campaign, period, period_column, device_column)
    wanted = [*_wanted(campaign, level_column), *played.columns]
    errors.print(SIMULATION, style="yellow", soft_wrap=True)
    offered = () if campaign.levels is None else campaign.levels.names
    fits = measure(campaign, table, limit, level_column, offered)
    if not as_json:
        show(fits, allow_misfits)
    _require_fitting(campaign, fits, allow_misfits, as_json)
    run, origin = key_of(secret), Address.parse(url, plain_http).origin
    begun = SpellStarts(np.empty(0, dtype=np.int64))
    sent, read, skipped, why, none = Sent(), 0, 0, Counter[str](), Counter[str]()
    with progress_bar() as bar:
        task = bar.add_task("sending", total=int(fits[0].counts.sum()))
        for chunk in table.chunks(wanted, limit):
            answers, levels, who = _answered(campaign, chunk, level_column, why, none)
            count = len(next(iter(chunk.values())))
            turns = played.turns(chunk, who, why)
            skipped += count - sum(len(some) for _, some in turns)
            devices = played.devices(chunk, read)
            read += count
            theirs = None if participants is None else participants.to(devices)
            for turn, some in turns:
                words = CrowdWords(keys_of(run, devices[who[some]]), origin, campaign.digest)
                own = {name: [column[at] for at in some] for name, column in answers.items()}
                encoded = campaign.encode(own, words.spread(own))
                mine = None if levels is None else levels[some]
                begun.devices = devices[who[some]]
                ids, rows = made(campaign, words, encoded, mine, turn, begun)
                sent += send_all(
                    url,
                    campaign.form,
                    ids,
                    rows,
                    batch=batch,
                    connections=connections,
                    token=os.environ.get("MURMUR_TOKEN") or None,
                    tokens=None if theirs is None else [theirs[row] for row in who[some]],
                    progress=lambda count: bar.advance(task, count),
                    form=reports_as,
                    allow_plain_http=plain_http,
                )
                if sent.unsent:
                    break
            if sent.unsent:
                break
    _show(campaign, sent, skipped, why, none, as_json, secret, fits)
    if sent.unsent:
        raise typer.Exit(3)
    if sent.refused:
        raise typer.Exit(2)


# --- the campaign --------------------------------------------------------------------------------


def _address(source: str, plain_http: bool) -> str:
    """Return a campaign's address from the collector's, if that has one campaign; else as it is."""
    if not source.startswith(("http://", "https://")) or f"{PLACE}/" in source:
        return source
    collector = CollectorSource(source, "", "", plain_http=plain_http)
    return f"{collector.base}{PLACE}/{collector.name}"


def _require_open(campaign: SurveyCampaign) -> None:
    """Refuse what the collector would refuse."""
    terms, now = campaign.terms, utc_now()
    if terms.accepts(now):
        return
    early = terms.opens is not None and now < terms.opens
    moment = terms.opens if early else terms.closes
    raise ParameterError(
        f"{campaign.name} {'opens' if early else 'has closed'} at {moment}: no report is counted "
        "now. Nothing was sent. `opens` and `closes` are in the campaign file: serve it with others"
    )


def _require_fitting(
    campaign: SurveyCampaign, fits: Sequence[Fit], allowed: float, as_json: bool
) -> None:
    try:
        require_fitting(fits, allowed, NOT_SENT)
    except ParameterError as problem:
        if not as_json:
            raise
        summary = {"campaign": campaign.name, "digest": campaign.digest, "devices": 0, "stored": 0}
        emit_json({**summary, "fit": _fit_data(fits), "problem": str(problem)})
        raise typer.Exit(2) from None


def _fit_data(fits: Sequence[Fit]) -> dict[str, dict[str, int]]:
    return {fit.name: fit.data for fit in fits}


# --- tokens for one device each ------------------------------------------------------------------


class DeviceTokens:
    """Participants' tokens, handed to devices in the order in which they come in the file."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._of: dict[int, str] = {}

    @classmethod
    def read(
        cls, campaign: SurveyCampaign | TrainingCampaign, path: Path | None
    ) -> DeviceTokens | None:
        """Read a file of tokens, or of links with tokens, where the campaign needs one."""
        if (campaign.terms.upload == ONE_DEVICE) != (path is not None):
            raise ParameterError(
                f"{campaign.name} is for devices with a token each: say --tokens FILE, as "
                "murmur token add STORE participant --count N -o FILE writes it"
                if path is None
                else f"{campaign.name} takes no participants' tokens: leave --tokens out"
            )
        if path is None:
            return None
        try:
            lines = path.read_text(encoding="utf-8").split()
        except (OSError, UnicodeError):
            raise ParameterError(f"the tokens in {path} cannot be read") from None
        return cls([line.rpartition("#token=")[2] for line in lines])

    def to(self, devices: Ints) -> list[str]:
        """Return each device's token: the next one, if it has none yet."""
        for device in devices.tolist():
            if device not in self._of:
                if len(self._of) == len(self._tokens):
                    raise ParameterError(
                        f"there are {len(self._tokens):,} tokens and more devices: each needs its "
                        "own (--limit sends fewer)"
                    )
                self._of[device] = self._tokens[len(self._of)]
        return [self._of[device] for device in devices.tolist()]


# --- the file ------------------------------------------------------------------------------------


def _wanted(campaign: SurveyCampaign, level_column: str) -> list[str]:
    """Return the columns that are needed; refuse a level where there is none, and the reverse."""
    if (campaign.levels is None) == bool(level_column):
        raise ParameterError(
            f"{campaign.name} has levels: say --level-column"
            if campaign.levels
            else f"{campaign.name} has no levels: leave out --level-column"
        )
    names = [question.name for question in campaign.given]
    return [*names, level_column] if level_column else names


def _answered(
    campaign: SurveyCampaign,
    chunk: Columns,
    level_column: str,
    why: Counter[str],
    none: Counter[str],
) -> tuple[dict[str, list[Any]], Ints | None, Ints]:
    """Leave out the rows without an answer; return the rest, their levels, and which they are.

    `why` counts them by column; a row may be without several. `none` counts, in the rows that stay,
    answers that are missing where that is one.
    """
    fine = np.ones(len(next(iter(chunk.values()))), dtype=bool)
    fits = {question.name: question.answered(chunk[question.name]) for question in campaign.given}
    for question in campaign.given:
        if not question.missing:
            why[question.name] += int((~fits[question.name]).sum())
            fine &= fits[question.name]
    levels = None
    if campaign.levels is not None:
        picked = Reading(campaign.levels.names).places(chunk[level_column])
        why[level_column] += int((picked < 0).sum())
        fine &= picked >= 0
        levels = picked[fine]
    who = np.flatnonzero(fine)
    for question in campaign.given:
        none[question.name] += int((~fits[question.name][who]).sum())
    places = who.tolist()
    kept = {
        question.name: [chunk[question.name][place] for place in places]
        for question in campaign.given
    }
    return kept, levels, who


# --- periods -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowPlan:
    """What of a file says in which period a row reports, and which device it is."""

    campaign: SurveyCampaign
    period: str = ""
    period_column: str = ""
    device_column: str = ""

    def __post_init__(self) -> None:
        if self.period and self.period_column:
            raise ParameterError("--period is for all rows, --period-column for each: say one")
        if self.campaign.every is None and (self.period or self.period_column):
            raise ParameterError(f"{self.campaign.name} has no periods: leave --period out")
        if self.device_column and self.campaign.every is None:
            raise ParameterError("--device-column is for campaigns with periods")
        if self.period:
            self.campaign.period_named(self.period)  # says what is wrong with it

    @property
    def columns(self) -> list[str]:
        """The columns that are needed for it."""
        return [name for name in (self.period_column, self.device_column) if name]

    def turns(self, chunk: Columns, who: Ints, why: Counter[str]) -> list[tuple[str, Ints]]:
        """Return the rounds that some rows report in, and which of these rows do in each.

        Rows whose period cannot be read are left out, and counted in `why`.
        """
        if not len(who):
            return []
        if not self.period_column:
            return [(self._turn(), np.arange(len(who)))]
        texts = [str(chunk[self.period_column][row]).strip() for row in who.tolist()]
        named = {text: self._named(text) for text in set(texts)}
        turns: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            turns.setdefault(named[text], []).append(place)
        why[self.period_column] += len(turns.pop("", ()))
        return [(turn, np.array(places)) for turn, places in sorted(turns.items())]

    def _turn(self) -> str:
        if self.campaign.every is not None:
            return self._named(self.period or utc_now().isoformat())
        return utc_now().date().isoformat() if self.campaign.repeated else ""

    def _named(self, text: str) -> str:
        """Return the name of the period that a text says; "" if it says none."""
        try:
            return self.campaign.name_of(self.campaign.period_named(text))
        except ParameterError:
            return ""

    def devices(self, chunk: Columns, first: int) -> Ints:
        """Return the number of each row's device: that of the row, or what its column says."""
        if not self.device_column:
            return first + np.arange(len(next(iter(chunk.values()))))
        texts = chunk[self.device_column]
        known = {text: hashlib.sha256(str(text).encode()).digest()[:8] for text in set(texts)}
        numbers = np.frombuffer(b"".join(known[text] for text in texts), dtype=">u8")
        return (numbers >> np.uint64(1)).astype(np.int64)


# --- the result ----------------------------------------------------------------------------------


def _show(
    campaign: SurveyCampaign,
    sent: Sent,
    skipped: int,
    why: Counter[str],
    none: Counter[str],
    as_json: bool,
    secret: Path | None,
    fits: Sequence[Fit],
) -> None:
    if as_json:
        emit_json(
            {
                "campaign": campaign.name,
                "digest": campaign.digest,
                "devices": sent.answered + sent.unsent,
                "stored": sent.stored,
                "duplicates": sent.duplicates,
                "refused": sent.refused,
                "unsent": sent.unsent,
                "skipped": skipped,
                "skipped_by": dict(+why),
                "no_answer": dict(+none),
                "fit": _fit_data(fits),
                "seconds": sent.seconds,
                "reports_per_second": sent.rate,
                "problem": sent.problem,
                "simulation": True,
            }
        )
        return
    table = Table(title=f"{campaign.name}: {sent.answered + sent.unsent:,} reports")
    table.add_column("outcome")
    table.add_column("reports", justify="right")
    table.add_row("stored", f"{sent.stored:,}")
    table.add_row("duplicates", f"{sent.duplicates:,}")
    for reason, count in sent.refused.items():
        table.add_row(f"refused: {reason}", f"{count:,}")
    if sent.unsent:
        table.add_row("nobody answered", f"[red]{sent.unsent:,}[/]")
    table.add_row("rows left out, not sent", f"{skipped:,}")
    console.print(table)
    texts = [sent.problem] if sent.problem else []
    texts += [text for word, text in ADVICE.items() if word in sent.problem]
    texts += [f"refused, {reason}: {REASONS.get(reason, '')}" for reason in sent.refused]
    if "wrong-period" in sent.refused:
        texts.append(GRACE)
    if sent.unsent:
        again = (
            "Another run would send all as new devices."
            if secret is None
            else f"Another run with --secret {secret} sends the same reports: none counts twice."
        )
        texts.append(f"Rows after these were not tried. {again}")
    if skipped:
        columns = ", ".join(f"{name} {count:,}" for name, count in (+why).items())
        texts.append(f"left out (empty, no number, or none of the labels): {columns}")
    if +none:
        columns = ", ".join(f"{name} {count:,}" for name, count in (+none).items())
        texts.append(f"no answer, sent as such: {columns}")
    for text in texts:
        say(text, markup=False)
    console.print(f"{sent.rate:,.0f} reports/s", highlight=False)
