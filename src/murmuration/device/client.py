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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration import sentences
from murmuration.campaign.bounds import reserved
from murmuration.campaign.kind import of_kind
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.device.ledger import Entry, Ledger, Memo, SpellBegunError, exact_cost
from murmuration.device.loading import load, open_round
from murmuration.device.secret import Cost
from murmuration.device.sending import (
    DUPLICATE,
    STORED,
    Link,
    Patience,
    deliver,
    outcomes,
)
from murmuration.device.training import Trainee
from murmuration.device.words import DeviceWords, answered, as_octets, owned, remembered
from murmuration.errors import (
    BudgetError,
    InputError,
    ParameterError,
    PromiseError,
    SendError,
)
from murmuration.exact.arrays import Reports, Rows
from murmuration.exact.randomness import system_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.ids import ID_BYTES

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
    """What it was charged; 0 where a permanent answer was paid for before."""
    outcome: str
    """"stored", "duplicate" (it had arrived before), or "refused:<reason>"."""
    new: bool = True
    """False where the question had a report already: the answers of this call were not used."""

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
    collector, which must show the same digest.

    The operator's word is not the person's: a campaign whose laws break their promise needs
    `accept_loss`, its own words, here too; and where the campaign says that answers outside a range
    or a list are refused, the device sends the nearer end, or a label by chance, all the same
    (unless `refuse_outside`), as silence would tell that the answer is outside.

    Permanent answers hide the value, for as many periods as there are; they do not hide *when* it
    changed, unless the campaign has spells (`Campaign.spells`): then a device goes on with the
    answer that a spell began with, whatever its value does until the next one. Without spells the
    limit counts values. A device that must not spend more says "no answer" where all questions
    allow for that (`missing = true`): a permanent one, paid for with the first report. Else it is
    silent, and that can be seen: give the limit room for the values that people have.
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
        token: str | None = None,
        level: Level | None = None,
        send_to: str | None = None,
        allow_plain_http: bool = False,
        patience: Patience | None = None,
        accept_loss: str | None = None,
        refuse_outside: bool = False,
    ) -> None:
        self.source, found = load(source, allow_plain_http, digest, witness)
        self._witness, self._plain = witness, allow_plain_http
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
        columns = self._encoded(answers)
        levels, turn = self._levels(level), self._occasion(period)
        known = self.ledger.find(self._require_address().origin, self.campaign.digest, turn)
        if known is None:
            self._require_open(turn)
            self._require_small()
            return self._sent(self._answered(columns, levels, turn))
        receipt = self._receipt(known) if known.outcome else self._sent(known)
        return replace(receipt, new=False)

    def resend(self) -> list[Receipt]:
        """Send what this campaign has charged and nobody has acknowledged: the same bytes.

        Only what was made for this collector: one host's report is no other's.
        """
        waiting = self.ledger.pending(self._require_address().origin)
        mine = [entry for entry in waiting if entry.digest == self.source.digest]
        return [self._sent(entry) for entry in mine if not self.ledger.held(entry.report_id)]

    def _sent(self, entry: Entry) -> Receipt:
        """Send the bytes that the ledger holds, and note the answer."""
        if entry.report is None:
            raise ParameterError("this report was acknowledged and forgotten: it is not sent again")
        self.ledger.note_total()
        try:
            with Link(self._require_address(), self._token) as link:
                answer = deliver(link, entry.report, report.JSON, self._patience)
            (outcome,) = outcomes(answer, 1)
        except SendError as problem:
            raise SendError(f"{problem}. The report is kept: resend sends it as it is.") from None
        return self._receipt(replace(entry, outcome=self._acknowledged(entry, outcome)))

    def _acknowledged(self, entry: Entry, outcome: str) -> str | None:
        """Note the collector's answer; the first one counts.

        Reports of many periods, side by side, show when the value behind them changed: their bytes
        are not kept once they have arrived.
        """
        return self.ledger.acknowledge(entry.report_id, outcome, self.source.repeated).outcome

    def _receipt(self, entry: Entry) -> Receipt:
        """Return what became of a report that is in the ledger."""
        return Receipt(
            entry.campaign,
            entry.round,
            entry.report_id.hex(),
            entry.epsilon,
            entry.outcome or "",
        )

    # --- drawing and charging ------------------------------------------------------------------

    def _answered(
        self, columns: list[NDArray[np.generic]], levels: list[list[str]] | None, turn: str
    ) -> Entry:
        """Draw a report and charge it; where that is too much, say "no answer", if it may be said.

        Running out depends on the values that a person has had, so silence would tell about them.
        """
        try:
            return self._charged(columns, levels, turn)
        except BudgetError as problem:
            if problem.reason == "rounds" or not self.campaign.can_say_none:
                raise
            return self._charged(self._no_answers(), levels, turn)
        except SpellBegunError:
            return self._answered(columns, levels, turn)

    def _no_answers(self) -> list[NDArray[np.generic]]:
        return [question.no_answers(1) for question in self.campaign.questions]

    def _charged(
        self, columns: list[NDArray[np.generic]], levels: list[list[str]] | None, turn: str
    ) -> Entry:
        """Draw a report and charge it; what comes back is what to send."""
        words = self._words()
        rows, memos = self._drawn(columns, levels, turn)
        report_id = words.report_id(turn)
        name = np.frombuffer(report_id, dtype=np.uint8)[None]
        return self.ledger.charge(
            words.origin,
            self.campaign.name,
            self.campaign.digest,
            self.campaign.terms.purpose,
            self._cost(rows),
            self._limit(),
            report.to_json(self.campaign, name, rows),
            report_id,
            turn,
            memos,
            self.campaign.max_reports,
        )

    def _words(self) -> DeviceWords:
        """Return the words of this device for this collector and question."""
        origin = self._require_address().origin
        return DeviceWords(self.ledger.key, origin, self.source.digest)

    def _drawn(
        self, columns: list[NDArray[np.generic]], levels: list[list[str]] | None, turn: str
    ) -> tuple[Rows, list[Memo]]:
        """Draw one report, and say which permanent answers it rests on."""
        words, frame = self._words(), self.campaign.frame
        period = self._period(turn)
        spell = self.campaign.spell_of(period)
        memos: list[Memo] = []
        answers = []
        for asked in self.campaign.asked(columns, words.which(turn), levels):
            law, kept = frame.cells[asked.cell], None
            if law.memoised:
                kept, fresh = self._remembered(asked, law, words, spell)
                memos += fresh
            answers.append((asked, answered(asked, law, words, turn, kept, spell)))
        rows = self.campaign.dated(frame.laid_out(answers), period)
        return rows, [*memos, *self._reserved(words)]

    def _remembered(
        self, asked: Asked, law: Mechanism, words: DeviceWords, spell: int | None
    ) -> tuple[Reports | None, list[Memo]]:
        """Return the permanent answer, if it is kept anywhere, and what is to be paid for it.

        In a spell the answer is what the spell began with: kept, as it does not follow from the
        value that there is now.
        """
        if spell is None:
            kept = self._recalled(asked, law) if law.by_value else None
            memos = [_memo(words, asked.cell, law, asked.values)] if kept is None else []
            return kept, memos
        name = words.kept(asked.cell, spell)
        hidden = self.ledger.kept(name)
        if hidden is not None:
            octets = words.masked(asked.cell, spell, hidden)
            return np.frombuffer(octets, dtype="<i8"), []
        begun = remembered(asked, law, words, spell)
        octets = words.masked(asked.cell, spell, as_octets(begun).tobytes())
        return begun, [Memo(name, law.charge, octets)]

    def _reserved(self, words: DeviceWords) -> list[Memo]:
        """Return the permanent "no answer" of every cell: paid for with the first report.

        So it can be said for good when nothing else can be, at any level: each is one answer, drawn
        once.
        """
        if not self.campaign.can_say_none:
            return []
        frame, none = self.campaign.frame, self._no_answers()
        cells = zip(frame.group_of.tolist(), frame.cells, strict=True)
        return [_memo(words, cell, law, none[group]) for cell, (group, law) in enumerate(cells)]

    def _recalled(self, asked: Asked, law: Mechanism) -> Reports | None:
        """Return the permanent answer that an older ledger has kept for the value, if any."""
        attribute = int(self.campaign.frame.group_of[asked.cell])
        name = f"{asked.cell} {self.campaign.questions[attribute].name}"
        kept = self.ledger.recall(self.campaign.digest, name, b"%d" % int(asked.values[0]))
        return None if kept is None else law.unpack(kept)

    def _cost(self, rows: Rows) -> Cost:
        """Return what a report costs besides its permanent answers."""
        named = [entry[0] for entry in report.entries_of(self.campaign, rows[0])]
        laws = [self.campaign.frame.cells[cell] for cell in named]
        return self._total([law for law in laws if not law.memoised])

    def _limit(self) -> Fraction | float | None:
        """Return the most that this campaign may cost: its own limit, or one report's."""
        if self.campaign.limit is not None:
            return self.campaign.limit
        most = self.most
        return most if isinstance(most, Fraction) else None  # an infinite loss, said in words

    @property
    def most(self) -> Cost:
        """The most that one report can cost: the costliest cells that it may have."""
        return self._total(self.source.costliest())

    def _total(self, laws: Sequence[Mechanism]) -> Cost:
        """Add up costs, in the decimals that the ledger goes by.

        All entries of a report together were audited to keep the campaign's epsilon, so what
        decimals add to that in the last digit is no cost.
        """
        total: Cost = sum((exact_cost(law.charge) for law in laws), start=Fraction(0))
        if self.source.accept_loss or any(law.memoised for law in laws):
            return total
        return min(total, exact_cost(self.source.epsilon))

    # --- what is asked for ---------------------------------------------------------------------

    def _encoded(self, answers: Mapping[str, Any]) -> list[NDArray[np.generic]]:
        given = {name: [value] for name, value in answers.items()}
        names = [question.name for question in self.campaign.questions]
        rng = system_rng() if self.address is None else self._words().spread(names)
        return self.campaign.encode(given, rng, not self._refuse_outside)

    def _levels(self, level: Level | None) -> list[list[str]] | None:
        """Return the level of each attribute, as `Campaign.privatize` takes them."""
        chosen = self._level if level is None else level
        if chosen is None:
            return None
        names = [question.name for question in self.campaign.questions]
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

    def _open_round(self) -> Round | None:
        """Return the round of a training that is open, checked; None if none is."""
        address = self._require_address()
        return open_round(self.training, address, self._witness, self._plain)

    def _require_small(self) -> None:
        """Refuse a campaign whose reports may cost more than the person gives for one.

        The most that a report can cost, not what this one would: that may depend on the answer.
        """
        limit = self.ledger.limits()["report"]
        if self.most > exact_cost(limit):
            raise BudgetError(
                f"{self.source.name}: one report may cost {float(self.most):g}, and the person's "
                f"limit on a report is {limit:g}. Nothing was sent.",
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

        The example is drawn as a report would be and thrown away. That costs nothing as long as
        it stays on the device: it is for the person's own eyes. Somebody who is shown many
        examples can average the noise away, so do not log, upload or take pictures of them. The
        report that is sent is another draw.
        """
        columns = self._encoded(answers)
        levels, turn = self._levels(level), self._occasion(period)
        origin = "" if self.address is None else self.address.origin
        made = self.ledger.find(origin, self.campaign.digest, turn)
        if made is None:
            body = _example(self.campaign, columns, levels, self._period(turn))
            last = f"EXAMPLE, drawn now and thrown away; the real report is another draw: {body}"
        elif made.report is None:
            last = f"It was answered on {made.made_at} ({made.outcome}); nothing more is sent."
        else:
            state = made.outcome or "not acknowledged: these bytes are sent again"
            last = f"The report was made on {made.made_at} ({state}): {made.report.decode()}"
        return "\n".join([*self._in_words(), last])

    def _in_words(self) -> list[str]:
        campaign, left = self.campaign, self.ledger.remaining()
        here = None if self.address is None else self.address.origin
        asked = ", ".join(_shown(question.name) for question in campaign.questions)
        entries = len(campaign.frame.slots)
        some = entries < len(campaign.frame.groups)
        which = f"{entries} of these, drawn independently of the answers" if some else ""
        spent = sentences.spent(self.ledger.spent(campaign.name, here), left)
        later = [sentences.reserve(more)] if (more := reserved(campaign)) else []
        return [
            f"{campaign.name}: {_shown(campaign.terms.purpose)}",
            f"Sent to: {self.address or 'nobody, as there is no address'}",
            f"A report is about: {asked}{f' ({which})' if which else ''}, with noise added here.",
            " ".join([sentences.cost(float(self.most)), *later, spent]),
        ]


def _shown(text: str) -> str:
    """Return a campaign's words for a terminal: without control codes."""
    return "".join(c if c.isprintable() else " " for c in text)


def _memo(words: DeviceWords, cell: int, law: Mechanism, values: NDArray[np.generic]) -> Memo:
    """Return what the ledger notes of a permanent answer."""
    written = law.domain.written(law.domain.checked(values))
    return Memo(words.paid(cell, owned(law, written)), law.charge)


def _example(
    campaign: SurveyCampaign,
    columns: list[NDArray[np.generic]],
    levels: list[list[str]] | None,
    period: int | None,
) -> str:
    rows = campaign.privatize(columns, system_rng(), levels, period)
    nameless = np.zeros((1, ID_BYTES), dtype=np.uint8)
    return report.to_json(campaign, nameless, rows).decode()
