"""Everything that can go wrong by a caller's mistake, in one tree.

    MurmurationError
    ├── ParameterError     a mechanism or a command was asked for something that does not exist
    ├── InputError         a private value that the mechanism has no answer for
    │   └── AnswerError    an answer that does not fit what a campaign asks
    ├── ReportError        a report that no device can have produced
    ├── MismatchError      two things that do not belong together (tally and mechanism)
    ├── FormatError        bytes that are truncated, damaged or not ours
    ├── EmptyError         an estimate from no reports
    ├── CohortError        too few people have answered for anything to be shown
    ├── ContractError      a mechanism breaks the contract that `murmuration.testing` holds it to
    ├── SourceError        randomness from a source that is not ours
    ├── CampaignError      a mistake in a campaign file, with its line
    ├── PromiseError       a device was asked to use a law whose exact loss exceeds epsilon
    │   └── RefusedError   the same in a campaign file, with its line (a CampaignError, too)
    ├── BudgetError        a report would cost more than the person or the campaign allows
    ├── LedgerError        the record of what was spent cannot be read or written
    ├── NoRoundError       no round of a training is open: nothing was charged, come back later
    └── SendError          a collector could not be reached, or gave no answer that can be used

Messages name the rule that was broken and what to do. They repeat what the caller typed as a
parameter and what came over the wire, but never a private value: errors end up in logs.
"""


class MurmurationError(Exception):
    """Any mistake that this package reports on purpose."""


class ParameterError(MurmurationError, ValueError):
    """A parameter outside its range, an unknown name."""


class InputError(MurmurationError, ValueError):
    """A private value outside the domain. The value itself is not repeated."""


class AnswerError(InputError):
    """An answer that does not fit what a campaign asks; the answer itself is not repeated.

    `attribute` says which, and `reason` why: "outside", "unknown" or "missing".
    """

    def __init__(self, message: str, attribute: str = "", reason: str = "unknown") -> None:
        super().__init__(message)
        self.attribute, self.reason = attribute, reason


class MisfitWarning(UserWarning):
    """An answer did not fit, and counts by the campaign's rule: the app should know."""


class ReportError(MurmurationError, ValueError):
    """A report outside the mechanism's alphabet."""


class MismatchError(MurmurationError, ValueError):
    """A tally of one mechanism given to another one; a round that does not follow those before.

    `reason` says of a round why: "two-rounds", "does-not-follow" or "earlier-round".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class FormatError(MurmurationError, ValueError):
    """Bytes that cannot be what they are said to be."""


class EmptyError(MurmurationError, ValueError):
    """Nothing has been reported yet."""


class CohortError(MurmurationError):
    """Fewer people than the campaign's cohort: nothing is shown about them."""


class ContractError(MurmurationError, AssertionError):
    """A mechanism that is not as every mechanism has to be: what it breaks, check by check."""


class SourceError(MurmurationError, TypeError):
    """A generator that is not one of `murmuration.exact.randomness`."""


class PromiseError(MurmurationError):
    """A law that does not keep its epsilon: nothing is sent."""


class CampaignError(MurmurationError, ValueError):
    """A mistake in a campaign file: what, in which file and on which line.

    `also` are those on later lines.
    """

    also: tuple["CampaignError", ...] = ()

    def __init__(self, message: str, source: str = "", line: int | None = None) -> None:
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {message}" if place else message)
        self.source, self.line = source, line


class RefusedError(CampaignError, PromiseError):
    """A campaign that the audit refuses: one of its laws breaks its promise."""


class BudgetError(MurmurationError):
    """A charge beyond a limit: nothing is sent.

    `reason` is which one: the person's on a "report", a "collector" or their "lifetime"; the
    campaign's own ("campaign", "max_reports"); or "answered": this key has answered the question
    before, and otherwise.
    """

    def __init__(self, message: str, reason: str = "lifetime") -> None:
        super().__init__(message)
        self.reason = reason


class LedgerError(MurmurationError):
    """A ledger that is missing, locked, or on a full disk: nothing is sent."""


class SendError(MurmurationError):
    """Nothing came back that settles it. What was charged is kept, to be sent again as it is."""


class NoRoundError(MurmurationError):
    """No round of a training is open now. Nothing was charged; another one may open."""


def missing_extra(what: str, extra: str) -> ParameterError:
    """Return the error for a package that is not installed.

    >>> print(missing_extra("Parquet", "arrow"))
    Parquet needs: pip install 'murmuration-ldp[arrow]'
    """
    return ParameterError(f"{what} needs: pip install 'murmuration-ldp[{extra}]'")
