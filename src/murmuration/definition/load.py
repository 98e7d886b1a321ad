"""`campaign.toml`: what the engineer writes. Every mistake is reported with its line, all at once.

The file says what is asked and what it may cost; what is left out is chosen by the planner (see
`resolve`, and `training` for a campaign that trains a model). The result is a `Campaign`, whose
laws have been audited.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import msgspec

from murmuration.campaign.answers import CASES
from murmuration.campaign.kind import Campaign, Kind, of_kind
from murmuration.campaign.periods import EVERY
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.terms import UPLOADS, Terms
from murmuration.definition import resolve as survey_file
from murmuration.definition import training as training_file
from murmuration.definition.asked import asked
from murmuration.definition.form import Form
from murmuration.definition.lines import Lines
from murmuration.definition.schema import LAWS, FileTable, Mistake, Mistakes, gathered
from murmuration.errors import CampaignError, RefusedError
from murmuration.training.campaign import MODELS

FORMS: dict[str, Form[Any]] = {
    form.makes.kind: form for form in (survey_file.FORM, training_file.FORM)
}
"""The kinds of campaign files; one that names no kind is a survey's."""


@dataclass(frozen=True)
class CampaignFile:
    """A campaign file as it was read: its keys are known, its laws are not chosen yet."""

    source: str
    text: str
    form: Form[Any]
    table: FileTable

    @property
    def name(self) -> str:
        """What the campaign is called."""
        return self.table.name

    @cached_property
    def terms(self) -> Terms:
        """What people are told."""
        return self.table.terms

    @cached_property
    def asked(self) -> str:
        """A digest of what is asked: see `definition.asked`."""
        return asked(self.table)

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign, with laws that are chosen and solved now, and audited."""
        with _pointing(self.text, self.source):
            return self.form.resolve(self.table)

    def of_kind(self, wanted: type[Kind]) -> Kind:
        """Return the campaign, of the wanted kind; refuse a file of another kind."""
        self.require(wanted)
        return of_kind(self.campaign, wanted)

    def require(self, wanted: type[Campaign]) -> None:
        """Refuse a file of another kind, and point at the line that says so."""
        if self.form.makes is not wanted:
            line = Lines(self.text).of(("kind",))
            raise CampaignError(f"{self.name} {self.form.makes.use}", self.source, line)


@overload
def load(path: Path | str) -> Campaign: ...


@overload
def load(path: Path | str, wanted: type[Kind]) -> Kind: ...


def load(path: Path | str, wanted: type[Kind] | None = None) -> Campaign:
    """Read, check and audit a campaign file; `wanted` refuses other kinds of campaigns."""
    file = opened(path)
    return file.campaign if wanted is None else file.of_kind(wanted)


def opened(path: Path | str) -> CampaignFile:
    """Read a campaign file, and check its keys one by one."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CampaignError("not a text file (UTF-8)", str(path)) from None
    except (FileNotFoundError, IsADirectoryError):
        raise CampaignError("there is no such file; `murmur init` writes one", str(path)) from None
    return read(text, str(path))


@overload
def parse(text: str, *, source: str = ...) -> Campaign: ...


@overload
def parse(text: str, wanted: type[Kind], *, source: str = ...) -> Kind: ...


def parse(
    text: str, wanted: type[Kind] | None = None, *, source: str = "campaign.toml"
) -> Campaign:
    """Return the campaign that a file's text describes, or point at the lines that are wrong.

    The error is about the first line; what is wrong with others is in its `also`.
    """
    file = read(text, source)
    return file.campaign if wanted is None else file.of_kind(wanted)


def read(text: str, source: str = "campaign.toml") -> CampaignFile:
    """Return what a file's text says, or point at the lines that are wrong."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise CampaignError(*_unreadable(text, str(problem), source)) from None
    with _pointing(text, source):
        form = _form_of(data)
        table = _converted(data, form)
        form.check(table, ())
        return CampaignFile(source, text, form, table)


def _form_of(data: Mapping[str, Any]) -> Form[Any]:
    """Return the form for the kind that a file names."""
    kind = data.get("kind", "")
    if kind == "":
        return FORMS[SurveyCampaign.kind]
    if kind not in FORMS or kind == SurveyCampaign.kind:
        raise Mistake(
            'kind must be "model" (for a campaign that trains a model) or left out', "kind"
        )
    return FORMS[kind]


@contextmanager
def _pointing(text: str, source: str) -> Iterator[None]:
    """Say on which line a mistake stands."""
    try:
        yield
    except Mistake as found:
        raise _error([found], text, source) from None
    except Mistakes as several:
        raise _error(several.found, text, source) from None


def _error(mistakes: Sequence[Mistake], text: str, source: str) -> CampaignError:
    """Return the error about the first mistake, with the others in it."""
    lines = Lines(text)
    placed = sorted(
        {(lines.of(mistake.path), str(mistake), mistake.refused) for mistake in mistakes}
    )
    first, *others = [
        (RefusedError if refused else CampaignError)(message, source, line)
        for line, message, refused in placed
    ]
    first.also = tuple(others)
    return first


def _unreadable(text: str, problem: str, source: str) -> tuple[str, str, int | None]:
    """Say where a file is no TOML."""
    message, _, place = problem.partition(" (at ")
    match = re.match(r"line (\d+), column (\d+)", place)
    last = max(1, len(text.splitlines()))
    line = int(match[1]) if match else last if "end of document" in place else None
    where = f" (column {match[2]})" if match else ""
    single = re.search(r"^\s*\[attributes\]", text, re.MULTILINE)
    if single is not None:
        line = text.count("\n", 0, single.end()) + 1
        return "an attribute begins with [[attributes]], in two brackets", source, line
    return f"this is no TOML{where}: {message[:1].lower()}{message[1:]}", source, line


def _converted(data: dict[str, Any], form: Form[Any]) -> FileTable:
    """Return the file's tables, or say which keys are missing, unknown or of the wrong type."""
    wrong, passed_over = list[Mistake](), set[int]()
    while True:
        try:
            table: FileTable = msgspec.convert(data, form.table)
            break
        except msgspec.ValidationError as problem:
            message, _, place = str(problem).partition(" - at ")
            mistake = _complaint(message, _path(place, data), form)
            wrong.append(mistake)
            if not _mended(data, mistake.path):
                raise Mistakes(wrong) from None
            if mistake.path[0] in ("attributes", "features"):
                passed_over.add(int(mistake.path[1]))
        except OverflowError:
            raise Mistake("a number in this file is too large") from None
    if wrong:
        gathered([partial(form.check, table, passed_over), partial(_raised, wrong)])
    return table


def _raised(wrong: Sequence[Mistake]) -> None:
    raise Mistakes(wrong)


LISTS = ("attributes", "features", "tables")
NEEDED = {"name": "x", "purpose": "x"}
"""Keys that a table cannot be without, and what takes their place while the rest is looked at."""


def _mended(data: Any, path: Sequence[str | int]) -> bool:
    """Take out the key that is wrong, so that what else is wrong is seen; False if it cannot be."""
    if path and path[0] == "repeat":
        path = path[:1]
    keys = [place for place, step in enumerate(path) if isinstance(step, str)]
    if not keys or path[keys[-1]] in (*LISTS, "target", "kind", "model"):
        return False
    *within, key = path[: keys[-1] + 1]
    for step in within:
        data = data[step]
    if key in NEEDED:
        data[key] = NEEDED[str(key)]
        return True
    return data.pop(key, None) is not None


def _path(place: str, data: Any) -> tuple[str | int, ...]:
    """Return a path of msgspec's, such as `$.attributes[0].low`, as keys and numbers."""
    path: list[str | int] = []
    for key, number in re.findall(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]", place):
        if number == "...":  # some value of a table: msgspec does not say whose
            wrong = (k for k, value in data.items() if not isinstance(value, int | float | str))
            path.append(next(wrong, "") if isinstance(data, dict) else 0)
        else:
            path.append(key or int(number))
        try:
            data = data[path[-1]]
        except (LookupError, TypeError):
            break
    return tuple(path)


_TYPES = {
    "str": "text in quotes",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "datetime": "a time with its zone, as 2026-11-16T09:00:00Z",
    "array": "a list in [ ]",
    "object": "a table",
    "date": "a date without a time",
    "time": "a time without a date",
}


def _complaint(message: str, path: tuple[str | int, ...], form: Form[Any]) -> Mistake:
    """Say what is wrong in the words of the file."""
    keys = [step for step in path if isinstance(step, str)]
    subject = keys[-1] if keys else "the file"
    if match := re.search(r"missing required field `([^`]+)`", message):
        this = {
            "attributes": "this attribute",
            "tables": "this table",
            "features": "this feature",
            "target": "the target",
        }
        where = this.get(keys[0], subject) if keys else subject
        return Mistake(f"{where} needs {match[1]}", *path, match[1])
    if match := re.search(r"unknown field `([^`]+)`", message):
        return Mistake(_unknown(match[1], keys, form), *path, match[1])
    if match := re.match(r"Expected `([^`]+)`, got `([^`]+)`", message):
        wanted = " or ".join(
            _TYPES.get(name, name) for name in match[1].split(" | ") if name != "null"
        )
        return Mistake(f"{subject} is {wanted}; this is {_TYPES.get(match[2], match[2])}", *path)
    if match := re.match(r"Invalid enum value '(.*)'", message):
        choices = {"kind": form.kinds, "case": CASES, "model": tuple(MODELS)}
        known = (choices | {"every": EVERY, "law": LAWS}).get(subject, UPLOADS)
        near = difflib.get_close_matches(match[1], known, 1)
        meant = f"; {near[0]} is meant?" if near else ""
        return Mistake(f"{subject} is one of {', '.join(known)}; got {match[1]!r}{meant}", *path)
    if "datetime" in message:
        return Mistake(f"{subject} is {_TYPES['datetime']}", *path)
    return Mistake(f"{subject}: {message}", *path)


def _unknown(key: str, keys: Sequence[str], form: Form[Any]) -> str:
    """Say that there is no such key, and which one may be meant."""
    whole = _keys_of(form.table)
    known = _keys_of(form.tables.get("".join(keys), form.table))
    near = difflib.get_close_matches(key, known, 1)
    if not keys and key in form.elsewhere:
        return form.elsewhere[key]
    if near:
        return f"there is no key {key}; {near[0]} is meant?"
    if keys and key in whole:
        return f"{key} belongs above the first table: it is about the whole campaign"
    return f"there is no key {key}; there are {', '.join(known)}"


def _keys_of(table: type[msgspec.Struct]) -> list[str]:
    """Return a table's keys, the name first."""
    return sorted(table.__struct_fields__, key=lambda key: key != "name")
