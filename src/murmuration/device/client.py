"""A person's device: asks the ledger first, draws once, and sends what the ledger holds.

    load         the campaign, from its address; audited, pinned, held against a witness
    encode       the campaign's rule for values outside the range
    find         has this question a report already? then that one, byte for byte
    privatize    by words that follow from the person's key: asked again, the same again
    charge       durably, with the bytes: refused here, nothing has left the device
    send         those bytes; again and again if need be, never fresh noise
    acknowledge  what the collector said

    client = Client("https://collector.example/v1/campaigns/phones", "ledger.db", lifetime=5.0)
    client.report({"phone": "ios"})

From a file, and without a collector:

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder) / "campaign.toml"
...     _ = file.write_text('''
...         name = "phones"
...         purpose = "Which phones to test on."
...         epsilon = 1.0
...         [[attributes]]
...         name = "phone"
...         kind = "category"
...         labels = ["android", "ios", "other"]
...     ''')
...     client = Client(file, f"{folder}/ledger.db", lifetime=5.0)
...     client.preview({"phone": "ios"}).splitlines()[3]
'A report costs at most 1 of your privacy budget (epsilon). Spent on this campaign: 0. Left for \
all campaigns: 5.'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from murmuration.campaign.kind import of_kind
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.device import preview
from murmuration.device.costs import Cost
from murmuration.device.ledger import Entry, Ledger, Session
from murmuration.device.loading import chain, load, open_round
from murmuration.device.misfits import (
    ERROR,
    TELL,
    Misfit,
    misfits_of,
    require_consent,
    require_fitting,
    warn,
)
from murmuration.device.sending import (
    DUPLICATE,
    STORED,
    Link,
    Patience,
    deliver,
    outcomes,
)
from murmuration.device.survey import Columns, Levels, SurveyReport, most_of
from murmuration.device.training import Trainee
from murmuration.device.words import DeviceWords
from murmuration.errors import (
    BudgetError,
    InputError,
    ParameterError,
    PromiseError,
    SendError,
)
from murmuration.exact.randomness import system_rng
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.chain import RoundLink, joined, require_pins
from murmuration.training.round import Round
from murmuration.wire import report
from murmuration.wire.address import Address

SAID = ("collector", "lifetime", "campaign", "answered")
"""The limits that a device can run into, and what stands in its record from before: "no answer" may
have been said. What a single report may cost depends on neither."""
Level = str | Mapping[str, str]
"""A level for all attributes, or one for each."""


@dataclass(frozen=True)
class Receipt:
    """What became of a report."""

    campaign: str
    period: str
    """Its name, or what `report` was told; empty in a campaign that is answered once."""
    report_id: str
    epsilon: float
    """What it cost the device's account, once however often it is sent. A permanent answer is paid
    for in full with the first report that rests on it, so this can be more than the campaign's
    epsilon, and 0 later. The ledger has it in its sums and not in its lines, which would show when
    a value changed."""
    outcome: str
    """"stored", "duplicate" (it had arrived before), or "refused:<reason>"."""
    new: bool = True
    """False where the question had a report already: the answers of this call were not used."""
    misfits: tuple[Misfit, ...] = ()
    """The answers of this call that do not fit what the campaign asks; nothing of it is sent."""
    out_of_budget: str = ""
    """Why "no answer" was sent instead, at no cost: the limit that did not hold this report
    ("collector", "lifetime", "campaign"), or "answered", where that was said before. Else empty."""

    @property
    def delivered(self) -> bool:
        """Whether it is counted, once."""
        return self.outcome in (STORED, DUPLICATE)


class Client(Trainee):
    """One person's device in one campaign.

    `source` is the campaign's address, its published document, or its campaign.toml; from a file,
    `send_to` is the address. A campaign that is asked once is answered once, whatever is called
    later. A repeated one (`Campaign.repeated`) is answered once per period, and no more often than
    the campaign says, by the permanent answer for the value with fresh noise on it. Where the
    campaign has periods (`Campaign.every`), it is that of the device's clock, or the one that
    `period` names ("2026-W47", or any date in it).

    What is spent has limits, on each report (`per_report`), each collector (`per_collector`) and
    over all (`lifetime`): 4, 8 and 16 in a new ledger (`device.ledger.LIMITS`), unless told
    otherwise. They are the person's and kept in the ledger: an app can lower them, and only
    `Ledger.raise_limit` raises them. `math.inf` is no limit.

    What is drawn follows from the person's key: `secret`, 32 bytes or a file (`LEDGER.key` if it is
    left out, made if new). Asked again for the same answer, also after its ledger was restored, the
    device makes the same report with the same id; limits count what was ever spent, so it may also
    be refused. Whoever has the key and a report knows the answer.

    The app can pin the campaign's `digest`, or name a `witness`: the campaign's address at another
    collector, which must show the same digest. Of a training it can also pin `rounds`, digests by
    the rounds' numbers: the open one must stand in one chain with them (`chain` shows it).

    An answer that does not fit (a text that is no label, a number beyond the range) counts by the
    campaign's published rule. The app is told each time by `Receipt.misfits`, by a `MisfitWarning`
    (which Python shows once, unless its filters say otherwise), and in `preview` by an
    `AnswerError`; the key's record counts them, and nothing of it is sent. `misfit="error"` raises
    `AnswerError` instead and sends nothing: a device that is silent tells that the answer does not
    fit, so this needs `refuse_outside=True`.

    The operator's word is not the person's: a campaign whose laws break their promise needs
    `accept_loss`, its own words, here too; and where the campaign says that answers outside a range
    or a list are refused, the device sends the nearer end, or a label by chance, all the same
    (unless `refuse_outside`), as silence would tell that the answer is outside.

    Permanent answers hide the value, for as many periods as there are; they do not hide *when* it
    changed, unless the campaign has spells (`SurveyCampaign.spells`): then a device goes on with
    the answer that a spell began with, whatever its value does until the next one. Without spells
    the limit counts values.

    A device that must not spend more says "no answer", at no cost, where all questions allow for
    that (`missing = true`), and the receipt says so (`Receipt.out_of_budget`). So a report tells
    whether a budget was left by at most its epsilon. Else the device is silent, and that can be
    seen: give the limit room for the values that people have.
    """

    def __init__(
        self,
        source: str | Path,
        ledger: Ledger | str | Path,
        *,
        lifetime: float | None = None,
        per_collector: float | None = None,
        per_report: float | None = None,
        secret: bytes | str | Path | None = None,
        digest: str | None = None,
        witness: str | None = None,
        rounds: Mapping[int, str] | None = None,
        token: str | None = None,
        level: Level | None = None,
        send_to: str | None = None,
        allow_plain_http: bool = False,
        patience: Patience | None = None,
        accept_loss: str | None = None,
        refuse_outside: bool = False,
        misfit: str = TELL,
    ) -> None:
        require_consent(misfit, refuse_outside)
        self._misfit = misfit
        self.source, found = load(source, allow_plain_http, digest, witness)
        self._witness, self._plain = witness, allow_plain_http
        self._pins = require_pins(rounds or {})
        self._require_consent(accept_loss)
        self._refuse_outside = refuse_outside
        self.address = Address.parse(send_to, allow_plain_http) if send_to else found
        if isinstance(ledger, Ledger):
            if secret is not None:
                raise ParameterError("a ledger has its secret: name it there, or here, not twice")
            self.ledger = ledger
            ledger.lower(lifetime, collector=per_collector, report=per_report)
        else:
            self.ledger = Ledger(
                ledger, lifetime, collector=per_collector, report=per_report, secret=secret
            )
        self._token, self._level, self._patience = token, level, patience or Patience()

    def _require_consent(self, accept_loss: str | None) -> None:
        """Refuse laws that break their promise, unless the person's side says so too."""
        words = self.source.accept_loss
        if words is not None and words != accept_loss:
            raise PromiseError(
                f"{self.source.name} costs more than it promises: {words}. To agree to "
                "that, say accept_loss with these words, and set a lifetime that allows it."
            )

    def __repr__(self) -> str:
        return f"Client({self.source.name!r}, {self.ledger!r})"

    @property
    def campaign(self) -> SurveyCampaign:
        """The campaign, if it asks for figures."""
        return of_kind(self.source, SurveyCampaign)

    @property
    def training(self) -> TrainingCampaign:
        """The campaign, if it trains a model."""
        return of_kind(self.source, TrainingCampaign)

    # --- sending -------------------------------------------------------------------------------

    def report(
        self,
        answers: Mapping[str, Any],
        level: Level | None = None,
        period: str = "",
    ) -> Receipt:
        """Answer the campaign's questions; say what became of the report.

        Refused before anything is drawn: answers that are missing or have no rule, a campaign
        that is not open. Refused before anything is sent: a report that costs too much
        (`BudgetError`). On `SendError` the report is charged and kept: call `resend` later, or
        this again; both send the same bytes.
        """
        self._require_address()
        levels, turn = self._levels(level), self._occasion(period)
        with self.ledger.session() as session:
            words = self._words(session)
            misfits = misfits_of(self.campaign.given, answers)
            if self._misfit == ERROR:
                require_fitting(misfits)
            columns = self._encoded(answers, words)
            warn(misfits)
            with session.deciding():
                known, spent = session.find(words.origin, words.digest, turn), ""
                if (entry := known) is None:
                    entry, spent = self._reserved(session, words, columns, levels, turn, misfits)
            receipt = self._receipt(entry) if entry.outcome else self._sent(session, entry)
        return replace(receipt, new=known is None, misfits=misfits, out_of_budget=spent)

    def resend(self) -> list[Receipt]:
        """Send what this campaign has charged and nobody has acknowledged: the same bytes.

        Only what was made for this collector: one host's report is no other's.
        """
        origin = self._require_address().origin
        with self.ledger.session() as session:
            waiting = session.pending(origin)
            mine = [entry for entry in waiting if entry.digest == self.source.digest]
            return [self._sent(session, entry) for entry in mine]

    def _sent(self, session: Session, entry: Entry) -> Receipt:
        """Send the bytes that the ledger holds, and note the answer."""
        if entry.report is None:
            raise ParameterError("this report was acknowledged and forgotten: it is not sent again")
        try:
            with Link(self._require_address(), self._token) as link:
                answer = deliver(link, entry.report, report.JSON, self._patience)
            (outcome,) = outcomes(answer, 1)
        except SendError as problem:
            raise SendError(f"{problem}. The report is kept: resend sends it as it is.") from None
        return self._receipt(replace(entry, outcome=self._acknowledged(session, entry, outcome)))

    def _acknowledged(self, session: Session, entry: Entry, outcome: str) -> str | None:
        """Note the collector's answer; the first one counts.

        Reports of many periods, side by side, show when the value behind them changed: their bytes
        are not kept once they have arrived.
        """
        return session.acknowledge(entry.report_id, outcome, self.source.repeated).outcome

    def _receipt(self, entry: Entry) -> Receipt:
        """Return what became of a report that is in the ledger."""
        return Receipt(
            entry.campaign,
            entry.period,
            entry.report_id.hex(),
            entry.epsilon,
            entry.outcome or "",
        )

    # --- drawing and reserving -----------------------------------------------------------------

    def _reserved(
        self,
        session: Session,
        words: DeviceWords,
        columns: Columns,
        levels: Levels,
        turn: str,
        misfits: tuple[Misfit, ...] = (),
    ) -> tuple[Entry, str]:
        """Draw a report and reserve it; where that is too much, say "no answer", if it may be said.

        Running out depends on what a person has told others, and on the values that they have had:
        silence would tell about both. The limit on a single report depends on neither.
        """
        self._require_open(turn)
        self._require_small(session)
        made = SurveyReport(self.campaign, words, session.record, turn, misfits)
        try:
            return session.reserve(made.charge(columns, levels)), ""
        except BudgetError as problem:
            if problem.reason not in SAID or not self.campaign.can_say_none:
                raise
            return session.reserve(made.without_budget(levels)), problem.reason

    def _words(self, session: Session) -> DeviceWords:
        """Return the words of this device for this collector and question."""
        return DeviceWords(session.key, self._require_address().origin, self.source.digest)

    @property
    def most(self) -> Cost:
        """The most that one report can cost: the costliest cells that it may have."""
        return most_of(self.source)

    # --- what is asked for ---------------------------------------------------------------------

    def _encoded(self, answers: Mapping[str, Any], words: DeviceWords | None) -> Columns:
        given = {name: [value] for name, value in answers.items()}
        names = [question.name for question in self.campaign.questions]
        rng = system_rng() if words is None else words.spread(names)
        return self.campaign.encode(given, rng, not self._refuse_outside)

    def level_within(self, at_most: float) -> str:
        """Return the most open level that spends no more than this of a person's own epsilon.

        `client.report(answers, level=client.level_within(0.7))`. It must not depend on an answer.
        """
        if self.campaign.levels is None:
            raise InputError("this campaign offers no levels. Nothing was sent.")
        return self.campaign.levels.within(at_most, self.campaign.epsilon)

    def _levels(self, level: Level | None) -> Levels:
        """Return the level of each attribute, as `SurveyCampaign.privatize` takes them."""
        chosen = self._level if level is None else level
        if chosen is None:
            return None
        names = [question.name for question in self.campaign.given]
        if isinstance(chosen, str):
            return [[chosen] * len(names)]
        if set(chosen) != set(names):
            raise InputError(f"levels are one for each of {', '.join(names)}. Nothing was sent.")
        return [[chosen[name] for name in names]]

    def _occasion(self, turn: str) -> str:
        """Return the occasion: today, unless told otherwise; none where one is asked once.

        Where there are periods it is the period's name: one for all ways to say which.
        """
        if self.campaign.every is not None:
            named = self.campaign.period_named(turn or utc_now().isoformat())
            return self.campaign.name_of(named)
        if self.campaign.repeated:
            return turn or utc_now().date().isoformat()
        if turn:
            raise ParameterError(f"{self.campaign.name} is asked once: it has no periods")
        return ""

    def _period(self, turn: str) -> int | None:
        """Return the number of the period of a report; None where there are none."""
        return None if self.source.every is None else self.campaign.period_named(turn)

    def _require_open(self, turn: str = "") -> None:
        """Refuse, before anything is charged, what the collector would refuse."""
        terms, now, period = self.source.terms, utc_now(), self._period(turn)
        if not terms.accepts(now):
            raise ParameterError(
                f"{self.source.name} has not opened yet, or has closed. Nothing was sent."
            )
        if period is not None and period not in self.campaign.open_periods(now):
            raise ParameterError(
                f"{self.campaign.name} takes no reports of {turn} now: it is over, or has not "
                "begun. Nothing was sent."
            )
        if terms.upload != "open" and self._token is None:
            raise ParameterError(f"{self.source.name} needs a device's token. Nothing was sent.")

    def chain(self) -> list[RoundLink]:
        """Return a training's rounds up to the open one, each checked to follow the one before.

        They have to agree with those that this device was shown before and with `rounds`. The last
        digest stands for all of them: compare it with another device's. Nothing is sent.
        """
        address = self._require_address()
        with self.ledger.session() as session:
            known = session.rounds(address.origin, self.training.digest)
            links = chain(self.training, address, joined(known, self._pins))
            shown = {link.number: link.digest for link in links}
            session.note_rounds(address.origin, self.training.digest, shown)
        return links

    def _open_round(self, known: Mapping[int, str]) -> Round | None:
        """Return the round of a training that is open, checked; None if none is."""
        address = self._require_address()
        known = joined(known, self._pins)
        return open_round(self.training, address, self._witness, self._plain, known)

    def _require_small(self, session: Session) -> None:
        """Refuse a campaign whose reports may cost more than the person gives for one.

        The most that a report can cost, not what this one would: that may depend on the answer.
        """
        limit = session.record.limits()["report"]
        if self.most > limit:
            raise BudgetError(
                f"{self.source.name}: one report may cost {float(self.most):g}, and the person's "
                f"limit on a report is {float(limit):g}. Nothing was sent.",
                "report",
            )

    def _require_address(self) -> Address:
        if self.address is None:
            raise ParameterError("a campaign from a file needs send_to, the collector's address")
        return self.address

    # --- for the person ------------------------------------------------------------------------

    def preview(
        self,
        answers: Mapping[str, Any],
        level: Level | None = None,
        period: str = "",
    ) -> str:
        """Say in words what would be sent, or what was; nothing is sent, charged or kept.

        An answer that does not fit what the campaign asks is an `AnswerError` here.

        The example is drawn as a report would be and thrown away. That costs nothing as long as
        it stays on the device: it is for the person's own eyes. Somebody who is shown many
        examples can average the noise away, so do not log, upload or take pictures of them. The
        report that is sent is another draw.
        """
        levels, turn = self._levels(level), self._occasion(period)
        with self.ledger.session() as session:
            words = None if self.address is None else self._words(session)
            require_fitting(misfits_of(self.campaign.given, answers))
            columns = self._encoded(answers, words)
            made = None if words is None else session.find(words.origin, words.digest, turn)
            head = preview.in_words(self.campaign, self.address, session.record, self.most)
        if made is None:
            last = preview.example(self.campaign, columns, levels, self._period(turn))
        else:
            last = preview.known(made)
        return "\n".join([*head, last])
