"""`murmur train`: play the devices of a training from a file, against a real collector."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.progress import Progress, TaskID

from murmuration.campaign.terms import ONE_DEVICE
from murmuration.cli.extras import require
from murmuration.cli.fit import MOST_MISFITS, NOT_SENT, Fit, measure, require_fitting
from murmuration.cli.fit import show as show_fits
from murmuration.cli.keys import key_of
from murmuration.cli.local_collector import HOST, collecting
from murmuration.cli.model import show as show_model
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
from murmuration.cli.output import emit_json, errors, progress_bar, remark, say
from murmuration.cli.send import ADVICE, SIMULATION, DeviceTokens
from murmuration.cli.tables import Form, Table, open_table
from murmuration.collector.access.participants import new_batch, tokens_of
from murmuration.collector.publish import served
from murmuration.collector.store import open_store
from murmuration.definition.load import opened
from murmuration.device.words import CrowdWords
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import keys_of
from murmuration.lab.trainees import Trainees
from murmuration.sources.address import PLACE
from murmuration.sources.open import open_source
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire.address import Address


def train(
    campaign: Annotated[Path, typer.Argument(help='A campaign file with kind = "model".')],
    devices: Annotated[
        Path, typer.Option(help="A CSV or Parquet file with features and target, a row a device.")
    ],
    collector: Annotated[
        str, typer.Option(help="A collector's address; without, one is started for the run.")
    ] = "",
    store: Annotated[
        str, typer.Option(help="The store of a collector that is started. Default: NAME.db.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Its port; another one if it is in use.")
    ] = 8750,
    batch: Batch = 1000,
    connections: Connections = 4,
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
    """Train a model over HTTP; each row of a file is a simulated device that answers one round.

    The collector publishes a round, as many devices as it asks for fetch it and answer once, and so
    on until the model is done; then it is printed. Values that do not fit are counted as by `murmur
    send`. Devices come in an order that follows from the secret. A token is taken from
    MURMUR_TOKEN; where each device has its own, from --tokens, and a collector that is started for
    the run makes them itself. Exit code 2 if something was refused, 3 if training is not over at
    the end: the devices were too few, or the collector did not answer.
    """
    file = opened(campaign)
    training = file.of_kind(TrainingCampaign)
    table = open_table(devices, Form.said(delimiter, encoding, header, columns, decimal))
    handed = _handed(training, tokens, own=not collector)
    errors.print(SIMULATION, style="yellow", soft_wrap=True)
    fits = measure(training, table, limit)
    if not as_json:
        show_fits(fits, allow_misfits)
    require_fitting(fits, allow_misfits, NOT_SENT)
    if (rows := int(fits[0].counts.sum())) < training.terms.people:
        _too_few(training, rows, bool(collector))
    where = store or str(campaign.with_name(f"{training.name}.db"))
    key = key_of(secret)
    with _collector(training, campaign, collector, where, port) as url:
        origin = Address.parse(url, plain_http).origin
        people = _People(training, table, limit, key, origin)
        if len(people.x) < training.terms.people <= rows:
            _too_few(training, len(people.x), bool(collector))
        if handed is None and training.terms.upload == ONE_DEVICE:
            handed = _minted(where, training.name, people.read)
        with progress_bar() as bar:
            shown = _Shown(bar, training.terms.people)
            trainees = Trainees(
                training,
                url,
                key,
                people.x,
                people.y,
                people.numbers,
                token=os.environ.get("MURMUR_TOKEN") or None,
                tokens=None if handed is None else people.owned(handed),
                batch=batch,
                connections=connections,
                plain_http=plain_http,
                progress=shown.advance,
            )
            over = trainees.play()
        trained = _model(url if collector else where, training.name, plain_http) if over else None
    _report(training, trainees, people, fits, over, trained, as_json)


@contextmanager
def _collector(
    training: TrainingCampaign, file: Path, collector: str, store: str, port: int
) -> Iterator[str]:
    """Yield the training's address: at a collector that is there, or one for the run."""
    if collector:
        yield collector if PLACE in collector else f"{collector.rstrip('/')}{PLACE}/{training.name}"
        return
    require("server")
    if not store.startswith("postgres") and Path(store.removeprefix("sqlite:///")).exists():
        _require_new(store, training)
    with collecting(file, store, port) as (_, used):
        yield f"http://{HOST}:{used}{PLACE}/{training.name}"


def _require_new(store: str, training: TrainingCampaign) -> None:
    """Refuse a store in which this training is over."""
    with closing(open_store(store, readonly=True)) as store_of_training:
        if training.name not in store_of_training.campaigns():
            return
        served_already = served(store_of_training, training.name)
        if served_already.campaign.digest == training.digest and served_already.is_over(
            store_of_training
        ):
            raise ParameterError(
                f"{store} has this training, and it is over: murmur model {store} prints it; "
                "another --store begins anew"
            )


def _handed(training: TrainingCampaign, tokens: Path | None, *, own: bool) -> DeviceTokens | None:
    """Return the tokens of a file; None where there is no need, or they are made for the run."""
    if own and training.terms.upload == ONE_DEVICE:
        if tokens is not None:
            raise ParameterError(
                "--tokens is for a collector that has made them (--collector); one that is started "
                "for the run makes its own: leave --tokens out"
            )
        return None
    return DeviceTokens.read(training, tokens)


def _minted(store: str, campaign: str, count: int) -> DeviceTokens:
    """Make tokens for devices that are played, at the collector that was started for them."""
    with closing(open_store(store)) as opened:
        return DeviceTokens(
            [*tokens_of(new_batch(opened, campaign, "murmur train", days=1), count)]
        )


class _Shown:
    """Progress by people, with the round beside it."""

    def __init__(self, bar: Progress, people: int) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("round 1", total=people)

    def advance(self, asked_round: Round, count: int) -> None:
        """Note some more reports of a round."""
        self._bar.update(self._task, advance=count, description=f"round {asked_round.number}")


class _People:
    """The rows that have all values, encoded: each by its own device's words."""

    def __init__(
        self, training: TrainingCampaign, table: Table, limit: int | None, key: Key, origin: str
    ) -> None:
        self.why, self.skipped, read = Counter[str](), 0, 0
        parts: list[tuple[Floats, Floats, Ints]] = []
        names = [question.name for question in training.questions]
        for chunk in table.chunks(names, limit):
            count, fine = len(chunk[names[0]]), np.ones(len(chunk[names[0]]), dtype=bool)
            for question in training.questions:
                answered = question.answered(chunk[question.name])
                self.why[question.name] += int((~answered).sum())
                fine &= answered
            who = np.flatnonzero(fine)
            kept = {name: [chunk[name][at] for at in who.tolist()] for name in names}
            target = kept.pop(training.target.name)
            words = CrowdWords(keys_of(key, read + who), origin, training.digest)
            if len(who):
                x, y = training.encode(kept, target, words.spread(names))
                parts.append((x, y, read + who))
            read, self.skipped = read + count, self.skipped + count - len(who)
        if not parts:
            raise ParameterError("no row of the file has a value for every feature and the target")
        self.x, self.y, self.numbers = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        self.read = read
        """How many rows there were, those that were left out too."""

    def owned(self, handed: DeviceTokens) -> list[str]:
        """Return each device's own token: a line of the file for each row, left out or not."""
        tokens = handed.to(np.arange(self.read))
        return [tokens[row] for row in self.numbers.tolist()]


def _too_few(training: TrainingCampaign, rows: int, others: bool) -> None:
    """Say that a training cannot end with so few devices; refuse it if nobody else takes part."""
    text = (
        f"{training.name} is planned for {training.terms.people:,} people and these are {rows:,}: "
        "training would not end"
    )
    if not others:
        raise ParameterError(f"{text}. Nothing was sent. Say people = {rows} in the campaign file")
    remark(f"{text}, unless others take part")


def _model(where: str, name: str, plain_http: bool) -> Any:
    """Return the model, if it may be read here."""
    token = os.environ.get("MURMUR_TOKEN", "")
    address = where.partition(PLACE)[0] if where.startswith("http") else where
    try:
        with closing(open_source(address, name, token, plain_http=plain_http)) as source:
            return source.model()[1]
    except ParameterError:  # a device's token does not read models
        return None


def _report(
    training: TrainingCampaign,
    trainees: Trainees,
    people: _People,
    fits: list[Fit],
    over: bool,
    trained: Any,
    as_json: bool,
) -> None:
    sent = trainees.sent
    if as_json:
        emit_json(
            {
                "campaign": training.name,
                "digest": training.digest,
                "over": over,
                "rounds": trainees.rounds,
                "devices": sent.answered + sent.unsent,
                "stored": sent.stored,
                "duplicates": sent.duplicates,
                "refused": sent.refused,
                "unsent": sent.unsent,
                "left": trainees.left,
                "skipped": people.skipped,
                "skipped_by": dict(+people.why),
                "fit": {fit.name: fit.data for fit in fits},
                "seconds": sent.seconds,
                "problem": sent.problem,
                "model": None if trained is None else msgspec.to_builtins(trained),
                "simulation": True,
            }
        )
    else:
        if trained is not None:
            show_model(trained)
        for text in _words(training, trainees, people, over, trained):
            say(text, markup=False)
    if not over or sent.unsent:
        raise typer.Exit(3)
    if sent.refused:
        raise typer.Exit(2)


def _words(
    training: TrainingCampaign, trainees: Trainees, people: _People, over: bool, trained: Any
) -> list[str]:
    sent = trainees.sent
    texts = [
        f"{sent.stored:,} reports counted in {trainees.rounds} rounds; {trainees.left:,} not asked"
    ]
    if sent.duplicates:
        texts.append(f"{sent.duplicates:,} had been counted before: these devices have answered")
    texts += [f"refused, {reason}: {count:,}" for reason, count in sent.refused.items()]
    if people.skipped:
        columns = ", ".join(f"{name} {count:,}" for name, count in (+people.why).items())
        texts.append(f"{people.skipped:,} rows left out (empty, or no number): {columns}")
    if sent.problem:
        texts += [sent.problem, *(text for word, text in ADVICE.items() if word in sent.problem)]
    if sent.unsent and not over:
        texts.append(
            f"training is not over: {sent.unsent:,} reports could not be sent, and "
            f"{trainees.left:,} devices were not asked. Round {trainees.rounds} waits for them"
        )
    elif not over:
        texts.append(
            f"training is not over: nobody is left. Round {trainees.rounds} waits for more people, "
            f"and {training.name} ends when it closes"
        )
    elif trained is None:
        texts.append("training is over; an analyst's token in MURMUR_TOKEN reads the model")
    return texts
