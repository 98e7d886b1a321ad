"""How the values of a file fit what a campaign asks: counted before anything is sent.

Values that do not fit are named on the operator's own terminal, where the file is, and nowhere
else: no error and no JSON repeats one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from murmuration.campaign.answers import NOTHING, UNKNOWN, Reading
from murmuration.campaign.kind import Campaign
from murmuration.campaign.question import FITS
from murmuration.cli.output import console, progress_bar, remark
from murmuration.cli.tables import Table as Data
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints

MOST_MISFITS = 0.01
"""The share of values that may not fit unless it is said."""
NOT_SENT = "Nothing was sent."
SHOWN, MOST_KEPT, MOST_LETTERS = 5, 10_000, 40


@dataclass
class Fit:
    """How one column's values fit; `missing` is whether a missing one does."""

    name: str
    missing: bool = False
    counts: Ints = field(default_factory=lambda: np.zeros(len(FITS), dtype=np.int64))
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, fits: Ints, values: Sequence[Any]) -> None:
        """Count some more values."""
        self.counts += np.bincount(fits, minlength=len(FITS))
        self.unknown.update(str(values[place]) for place in np.flatnonzero(fits == 2).tolist())
        if len(self.unknown) > MOST_KEPT:
            self.unknown = Counter(dict(self.unknown.most_common(MOST_KEPT // 2)))

    @property
    def data(self) -> dict[str, int]:
        """The counts by name."""
        return dict(zip(FITS, self.counts.tolist(), strict=True))

    @property
    def misfits(self) -> float:
        """The share of answers that do not fit. A row that may be without an answer is none."""
        fitted, clamped, unknown, missing = self.counts.tolist()
        bad = clamped + unknown + (0 if self.missing else missing)
        return bad / (fitted + bad) if bad else 0.0


def measure(
    campaign: Campaign,
    table: Data,
    limit: int | None = None,
    level_column: str = "",
    levels: Sequence[str] = (),
) -> list[Fit]:
    """Return how a file's values fit, by attribute; the column of levels comes last, if named."""
    asked = [question for question in campaign.questions if not question.derived]
    by_name = {question.name: Fit(question.name, question.missing) for question in asked}
    level = Fit(level_column)
    names = [*by_name, level_column] if level_column else list(by_name)
    with progress_bar() as bar:
        task = bar.add_task("looking at the values", total=None)
        for chunk in table.chunks(names, limit):
            for question in asked:
                values = chunk[question.name]
                by_name[question.name].add(question.fits(values), values)
            if level_column:
                places = Reading(tuple(levels)).places(chunk[level_column])
                fits = np.select([places == NOTHING, places == UNKNOWN], [3, 2], 0)
                level.add(fits, chunk[level_column])
            bar.advance(task, len(chunk[names[0]]))
    return [*by_name.values(), level] if level_column else list(by_name.values())


def show(fits: Sequence[Fit], allowed: float = MOST_MISFITS) -> None:
    """Print the counts; name the values that are most often unknown, on standard error."""
    table = Table(title="how the values fit")
    table.add_column("attribute", overflow="fold")
    for name in FITS:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("do not fit", justify="right", overflow="fold")
    for fit in fits:
        share = f"{fit.misfits:.2%}"
        bad = f"[bold red]{share}[/]" if fit.misfits > allowed else share
        table.add_row(escape(fit.name), *(f"{count:,}" for count in fit.counts.tolist()), bad)
    console.print(table)
    name_unknown(fits)


def name_unknown(fits: Sequence[Fit]) -> None:
    """Name the most frequent unknown values, for the eyes of whoever has the file."""
    for fit in fits:
        if fit.unknown:
            shown = [f"{_shown(text)} {count:,}" for text, count in fit.unknown.most_common(SHOWN)]
            remark(f"{fit.name}: unknown are {', '.join(shown)}")


def _shown(text: str) -> str:
    """Return a value that cannot do anything to a terminal."""
    return repr(text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "...")


def require_fitting(
    fits: Sequence[Fit], allowed: float, done: str = "", *, option: bool = True
) -> None:
    """Refuse a file of which too much does not fit; `done` is what was not done, a sentence."""
    bad = [fit for fit in fits if fit.misfits > allowed]
    if not bad:
        return
    done = f"{done} " if done else ""
    shares = ", ".join(f"{fit.name} {fit.misfits:.2%}" for fit in bad)
    worst = max(fit.misfits for fit in bad)
    enough = min(1.0, float(f"{worst * 1.05 + 0.005:.2f}"))
    raise ParameterError(
        f"more than {100 * allowed:.3g}% of the values do not fit: {shares}. {done}Labels, ranges, "
        "markers, case and missing = true are in the campaign file"
        + (f"; or say --allow-misfits {enough:g}" if option else "")
    )
