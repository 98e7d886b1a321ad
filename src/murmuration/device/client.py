"""A person's device: asks the ledger first, draws once, and sends what the ledger holds.

    encode       the campaign's rule for values outside the range; nothing is drawn yet
    find         has this question a report already? then that one, byte for byte
    privatize    once
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
'One report costs at most 1; 0 is spent so far, 5 of the lifetime limit is left.'
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign import document as campaign_document
from murmuration.campaign.file import load as campaign_file
from murmuration.campaign.model import Campaign, utc_now
from murmuration.device.ledger import Cost, Entry, Ledger, Memo
from murmuration.device.sending import (
    DUPLICATE,
    STORED,
    Link,
    Patience,
    deliver,
    outcomes,
    reason,
)
from murmuration.errors import InputError, MismatchError, ParameterError, PromiseError, SendError
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import Rng, system_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.ids import ID_BYTES, new_ids

Level = str | Mapping[str, str]
"""A level for all attributes, or one for each."""
RACES = 5
"""How often a permanent answer that another process drew first is taken over."""


@dataclass(frozen=True)
class Receipt:
    """What became of a report."""

    campaign: str
    round: str
    report_id: str
    epsilon: float
    """What it was charged; 0 where a permanent answer was paid for before."""
    outcome: str
    """"stored", "duplicate" (it had arrived before), or "refused:<reason>"."""

    @property
    def delivered(self) -> bool:
        """Whether it is counted, once."""
        return self.outcome in (STORED, DUPLICATE)


def load(source: str | Path, allow_plain_http: bool = False) -> tuple[Campaign, Address | None]:
    """Return a campaign from its address, its published document or its file, and its address.

    A document's digest is checked and every law in it is audited; a law that leaks is refused.
    """
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        address = Address.parse(source, allow_plain_http)
        with Link(address) as link:
            answer = link.get()
        if answer.status != 200:
            hint = "; an address ends in /v1/campaigns/NAME" if answer.status == 404 else ""
            raise SendError(f"no campaign from {address}: {reason(answer)}{hint}")
        return campaign_document.read(answer.data), address
    path = Path(source)
    if not path.is_file():
        raise ParameterError(f"{path} is neither a file nor an address (https://...)")
    if path.suffix == ".toml":
        return campaign_file.load(path), None
    return campaign_document.read(path.read_bytes()), None


class Client:
    """One person's device in one campaign.

    `source` is the campaign's address, its published document, or its campaign.toml; from a file,
    `send_to` is the address. A campaign that is asked once is answered once, whatever is called
    later. A repeated one (`Campaign.repeated`) is answered once per round, and no more often than
    the campaign says, by the permanent answer for the value with fresh noise on it.

    The operator's word is not the person's: a campaign whose laws break their promise needs
    `accept_loss`, its own words, here too; and where the campaign says that answers outside a range
    or a list are refused, the device sends the nearer end, or a label by chance, all the same
    (unless `may_be_silent`), as silence would tell that the answer is outside.

    Permanent answers hide the value, for as many rounds as there are; they do not hide *when* it
    changed. The limit counts values, so a device that must not spend more stays silent, and that
    can be seen too: give the campaign's limit room for the values that a person really has.
    """

    def __init__(
        self,
        source: str | Path,
        ledger: Ledger | str | Path,
        *,
        lifetime: float | None = None,
        token: str | None = None,
        level: Level | None = None,
        send_to: str | None = None,
        allow_plain_http: bool = False,
        patience: Patience | None = None,
        accept_loss: str | None = None,
        may_be_silent: bool = False,
    ) -> None:
        self.campaign, found = load(source, allow_plain_http)
        self._require_consent(accept_loss)
        self._may_be_silent = may_be_silent
        self.address = Address.parse(send_to, allow_plain_http) if send_to else found
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, lifetime)
        if isinstance(ledger, Ledger) and lifetime is not None:
            Ledger(ledger.path, lifetime)  # lowers the limit if it is lower
        self._token, self._level, self._patience = token, level, patience or Patience()

    def _require_consent(self, accept_loss: str | None) -> None:
        """Refuse laws that break their promise, unless the person's side says so too."""
        words = self.campaign.accept_loss
        if words is not None and words != accept_loss:
            raise PromiseError(
                f"{self.campaign.name} costs more than it promises: {words}. To agree to "
                "that, say accept_loss with these words, and set a lifetime that allows it."
            )

    def __repr__(self) -> str:
        return f"Client({self.campaign.name!r}, {self.ledger!r})"

    # --- sending -------------------------------------------------------------------------------

    def report(
        self,
        answers: Mapping[str, Any],
        level: Level | None = None,
        round: str = "",  # noqa: A002
    ) -> Receipt:
        """Answer the campaign's questions; say what became of the report.

        Refused before anything is drawn: answers that are missing or have no rule, a campaign
        that is not open. Refused before anything is sent: a report that costs too much
        (`BudgetError`). On `SendError` the report is charged and kept: call `resend` later, or
        this again; both send the same bytes.
        """
        columns = self._encoded(answers)
        levels, turn = self._levels(level), self._round(round)
        self._require_address()
        made = self.ledger.find(self.campaign.digest, turn)
        if made is None:
            self._require_open()
            made = self._charged(columns, levels, turn)
        return self._receipt(made) if made.outcome else self._sent(made)

    def resend(self) -> list[Receipt]:
        """Send what this campaign has charged and nobody has acknowledged: the same bytes."""
        self._require_address()
        mine = [e for e in self.ledger.pending() if e.digest == self.campaign.digest]
        return [self._sent(entry) for entry in mine]

    def _sent(self, entry: Entry) -> Receipt:
        """Send the bytes that the ledger holds, and note the answer."""
        if entry.report is None:
            raise ParameterError("this report was acknowledged and forgotten: it is not sent again")
        try:
            with Link(self._require_address(), self._token) as link:
                answer = deliver(link, entry.report, report.JSON, self._patience)
            (outcome,) = outcomes(answer, 1)
        except SendError as problem:
            raise SendError(f"{problem}. The report is kept: resend sends it as it is.") from None
        return self._receipt(self.ledger.acknowledge(entry.report_id, outcome))

    def _receipt(self, entry: Entry) -> Receipt:
        return Receipt(
            entry.campaign,
            entry.round,
            entry.report_id.hex(),
            entry.epsilon,
            entry.outcome or "",
        )

    # --- drawing and charging ------------------------------------------------------------------

    def _charged(
        self, columns: list[NDArray[np.generic]], levels: list[list[str]] | None, turn: str
    ) -> Entry:
        """Draw a report and charge it; what comes back is what to send."""
        for _ in range(RACES):
            rows, memos = self._drawn(columns, levels)
            report_id = new_ids(1)
            try:
                return self.ledger.charge(
                    self.campaign.name,
                    self.campaign.digest,
                    self.campaign.terms.purpose,
                    self._cost(rows),
                    self._limit(),
                    report.to_json(self.campaign, report_id, rows),
                    report_id.tobytes(),
                    turn,
                    memos,
                    self.campaign.rounds,
                )
            except MismatchError:  # another process was first with a permanent answer: use that
                continue
        raise MismatchError("other processes keep answering for this device. Nothing was sent.")

    def _drawn(
        self, columns: list[NDArray[np.generic]], levels: list[list[str]] | None
    ) -> tuple[Rows, list[Memo]]:
        """Draw one report; where answers are permanent, on those that are kept."""
        rng, frame = system_rng(), self.campaign.frame
        memos: list[Memo] = []
        answers = []
        for asked in self.campaign.asked(columns, rng, levels):
            law = frame.cells[asked.cell]
            if law.asked_again:
                answers.append((asked, self._repeated(asked, law, rng, memos)))
            else:
                answers.append((asked, asked.answered(law, rng)))
        return frame.laid_out(answers), memos

    def _repeated(self, asked: Asked, law: Mechanism, rng: Rng, memos: list[Memo]) -> Rows:
        """Answer with fresh noise on the permanent answer that is kept, or drawn now."""
        attribute = int(self.campaign.frame.group_of[asked.cell])
        name = f"{asked.cell} {self.campaign.questions[attribute].name}"
        value = b"%d" % int(asked.values[0])
        kept = self.ledger.recall(self.campaign.digest, name, value)
        permanent = law.remember(asked.values, rng) if kept is None else law.unpack(kept)
        memos.append(Memo(name, value, law.pack(permanent), law.charge))
        return law.to_rows(law.repeat(permanent, rng))

    def _cost(self, rows: Rows) -> Cost:
        """Return what a report costs besides its permanent answers."""
        named = [entry[0] for entry in report.entries_of(self.campaign, rows[0])]
        laws = [self.campaign.frame.cells[cell] for cell in named]
        return self._total([law for law in laws if not law.asked_again])

    def _limit(self) -> Fraction | float | None:
        """Return the most that this campaign may cost: its own limit, or one report's."""
        if self.campaign.limit is not None:
            return self.campaign.limit
        most = self.most
        return most if isinstance(most, Fraction) else None  # an infinite loss, said in words

    @property
    def most(self) -> Cost:
        """The most that one report can cost: the costliest cells that it may have."""
        return self._total(self.campaign.costliest())

    def _total(self, laws: list[Mechanism]) -> Cost:
        """Add up costs, in the decimals that the ledger goes by.

        All entries of a report together were audited to keep the campaign's epsilon, so what
        decimals add to that in the last digit is no cost.
        """
        total = sum((_exact(law.charge) for law in laws), start=Fraction(0))
        if self.campaign.accept_loss or any(law.asked_again for law in laws):
            return total
        return min(total, _exact(self.campaign.epsilon))

    # --- what is asked for ---------------------------------------------------------------------

    def _encoded(self, answers: Mapping[str, Any]) -> list[NDArray[np.generic]]:
        if missing := [str(name) for name, value in answers.items() if value is None]:
            raise InputError(f"no answer for {', '.join(missing)}. Nothing was sent.")
        given = {name: [value] for name, value in answers.items()}
        return self.campaign.encode(given, system_rng(), not self._may_be_silent)

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

    def _round(self, turn: str) -> str:
        """Return the occasion: today, unless told otherwise; none where one is asked once."""
        if self.campaign.repeated:
            return turn or utc_now().date().isoformat()
        if turn:
            raise ParameterError(f"{self.campaign.name} is asked once: it has no rounds")
        return ""

    def _require_open(self) -> None:
        """Refuse, before anything is charged, what the collector would refuse."""
        terms = self.campaign.terms
        if not terms.accepts(utc_now()):
            raise ParameterError(
                f"{self.campaign.name} has not opened yet, or has closed. Nothing was sent."
            )
        if terms.upload == "token" and self._token is None:
            raise ParameterError(f"{self.campaign.name} needs a device's token. Nothing was sent.")

    def _require_address(self) -> Address:
        if self.address is None:
            raise ParameterError("a campaign from a file needs send_to, the collector's address")
        return self.address

    # --- for the person ------------------------------------------------------------------------

    def preview(
        self,
        answers: Mapping[str, Any],
        level: Level | None = None,
        round: str = "",  # noqa: A002
    ) -> str:
        """Say in words what would be sent, or what was; nothing is sent, charged or kept.

        The example is drawn as a report would be and thrown away. That costs nothing as long as
        it stays on the device: it is for the person's own eyes. Somebody who is shown many
        examples can average the noise away, so do not log, upload or take pictures of them. The
        report that is sent is another draw.
        """
        columns = self._encoded(answers)
        levels, turn = self._levels(level), self._round(round)
        made = self.ledger.find(self.campaign.digest, turn)
        if made is None:
            body = _example(self.campaign, columns, levels)
            last = f"EXAMPLE, drawn now and thrown away; the real report is another draw: {body}"
        elif made.report is None:
            last = f"It was answered on {made.made_at} ({made.outcome}); nothing more is sent."
        else:
            state = made.outcome or "not acknowledged: these bytes are sent again"
            last = f"The report was made on {made.made_at} ({state}): {made.report.decode()}"
        return "\n".join([*self._words(), last])

    def _words(self) -> list[str]:
        campaign, left = self.campaign, self.ledger.remaining()
        asked = ", ".join(question.name for question in campaign.questions)
        entries = len(campaign.frame.slots)
        some = entries < len(campaign.frame.groups)
        which = f"{entries} of these, drawn independently of the answers" if some else ""
        rest = "there is no lifetime limit" if left is None else f"{left:g} of the lifetime limit"
        return [
            f"{campaign.name}: {campaign.terms.purpose}",
            f"Sent to: {self.address or 'nobody, as there is no address'}",
            f"A report is about: {asked}{f' ({which})' if which else ''}, with noise added here.",
            f"One report costs at most {float(self.most):g}; "
            f"{self.ledger.spent(campaign.name):g} is spent so far, "
            f"{rest}{'' if left is None else ' is left'}.",
        ]


def _example(
    campaign: Campaign, columns: list[NDArray[np.generic]], levels: list[list[str]] | None
) -> str:
    rows = campaign.privatize(columns, system_rng(), levels)
    nameless = np.zeros((1, ID_BYTES), dtype=np.uint8)
    return report.to_json(campaign, nameless, rows).decode()


def _exact(cost: float) -> Cost:
    """Return a cost as the decimal number that it prints as, the ledger's rule."""
    return math.inf if math.isinf(cost) else Fraction(repr(float(cost)))
