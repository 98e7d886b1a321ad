"""`campaign.toml`: what the engineer writes. Every mistake is reported with its line, all at once.

The file says what is asked and what it may cost; what is left out is chosen by the planner (see
`resolve`). The result is a `Campaign`, whose laws have been audited.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from murmuration.campaign.answers import CASES
from murmuration.campaign.periods import EVERY
from murmuration.campaign.question import KINDS
from murmuration.campaign.survey import UPLOADS, SurveyCampaign, Terms
from murmuration.definition.asked import asked
from murmuration.definition.lines import Lines
from murmuration.definition.resolve import check, resolve, terms_of
from murmuration.definition.schema import (
    LAWS,
    AttributeTable,
    CampaignTable,
    Mistake,
    Mistakes,
    RepeatTable,
    gathered,
)
from murmuration.definition.training import (
    FeatureTable,
    ModelTable,
    check_model,
    resolve_model,
    terms_of_model,
)
from murmuration.errors import CampaignError, RefusedError
from murmuration.training.campaign import MODELS, TrainingCampaign


@dataclass(frozen=True)
class CampaignFile:
    """A campaign file as it was read: its keys are known, its laws are not chosen yet."""

    source: str
    text: str
    table: CampaignTable

    @property
    def name(self) -> str:
        """What the campaign is called."""
        return self.table.name

    @cached_property
    def terms(self) -> Terms:
        """What people are told."""
        return terms_of(self.table)

    @cached_property
    def asked(self) -> str:
        """A digest of what is asked: see `campaign.file.asked`."""
        return asked(self.table)

    @cached_property
    def campaign(self) -> SurveyCampaign:
        """The campaign, with laws that are chosen and solved now, and audited."""
        with _pointing(self.text, self.source):
            return resolve(self.table)


@dataclass(frozen=True)
class ModelFile:
    """The same of a file with `kind = "model"`: it trains a model."""

    source: str
    text: str
    table: ModelTable

    @property
    def name(self) -> str:
        """What the campaign is called."""
        return self.table.name

    @cached_property
    def terms(self) -> Terms:
        """What people are told."""
        return terms_of_model(self.table)

    @cached_property
    def asked(self) -> str:
        """A digest of what is asked: see `campaign.file.asked`."""
        return asked(self.table)

    @cached_property
    def campaign(self) -> TrainingCampaign:
        """The training, with laws that are chosen now, and audited."""
        with _pointing(self.text, self.source):
            return resolve_model(self.table)


def load(path: Path | str) -> SurveyCampaign:
    """Read, check and audit a campaign file that asks for figures."""
    return _figures(opened_any(path)).campaign


def load_any(path: Path | str) -> SurveyCampaign | TrainingCampaign:
    """Read, check and audit a campaign file, be it for figures or for a model."""
    return opened_any(path).campaign


def opened(path: Path | str) -> CampaignFile:
    """Read a campaign file that asks for figures, and check its keys one by one."""
    return _figures(opened_any(path))


def opened_any(path: Path | str) -> CampaignFile | ModelFile:
    """Read a campaign file, and check its keys one by one."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CampaignError("this is not a text file (UTF-8)", str(path)) from None
    except (FileNotFoundError, IsADirectoryError):
        raise CampaignError("there is no such file; `murmur init` writes one", str(path)) from None
    return read_any(text, str(path))


def _figures(found: CampaignFile | ModelFile) -> CampaignFile:
    """Refuse a file that trains a model, where it is not what is meant."""
    if isinstance(found, CampaignFile):
        return found
    line = Lines(found.text).of(("kind",))
    raise CampaignError(
        'kind = "model": this campaign trains a model, and has no figures; `murmur check` reads it',
        found.source,
        line,
    )


def parse(text: str, source: str = "campaign.toml") -> SurveyCampaign:
    """Return the campaign that a file's text describes, or point at the lines that are wrong.

    The error is about the first line; what is wrong with others is in its `also`.
    """
    return read(text, source).campaign


def read(text: str, source: str = "campaign.toml") -> CampaignFile:
    """Return what a file's text says that asks for figures, or point at its mistakes."""
    return _figures(read_any(text, source))


def read_any(text: str, source: str = "campaign.toml") -> CampaignFile | ModelFile:
    """Return what a file's text says, or point at the lines that are wrong."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise CampaignError(*_unreadable(text, str(problem), source)) from None
    with _pointing(text, source):
        if data.get("kind") == "model":
            trained = _converted(data, ModelTable, check_model)
            check_model(trained)
            return ModelFile(source, text, trained)
        if "kind" in data:
            raise Mistake('kind is "model", for a campaign that trains one, or left out', "kind")
        table = _converted(data, CampaignTable, check)
        check(table)
        return CampaignFile(source, text, table)


@contextmanager
def _pointing(text: str, source: str) -> Iterator[None]:
    """Say on which line a mistake stands."""
    try:
        yield
    except Mistake as found:
        raise _error([found], text, source) from None
    except Mistakes as several:
        raise _error(several.found, text, source) from None


def _error(found: Sequence[Mistake], text: str, source: str) -> CampaignError:
    """Return the error about the first mistake, with the others in it."""
    lines = Lines(text)
    placed = sorted({(lines.of(one.path), str(one), one.refused) for one in found})
    first, *others = [
        (RefusedError if refused else CampaignError)(message, source, line)
        for line, message, refused in placed
    ]
    first.also = tuple(others)
    return first


def _unreadable(text: str, problem: str, source: str) -> tuple[str, str, int | None]:
    """Say where a file is no TOML."""
    message, _, place = problem.partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", place)
    last = max(1, len(text.splitlines()))
    line = int(found[1]) if found else last if "end of document" in place else None
    where = f" (column {found[2]})" if found else ""
    single = re.search(r"^\s*\[attributes\]", text, re.MULTILINE)
    if single is not None:
        line = text.count("\n", 0, single.end()) + 1
        return "an attribute begins with [[attributes]], in two brackets", source, line
    return f"this is no TOML{where}: {message[:1].lower()}{message[1:]}", source, line


_Form = TypeVar("_Form", CampaignTable, ModelTable)


def _converted(
    data: dict[str, Any], form: type[_Form], check: Callable[[_Form, Collection[int]], None]
) -> _Form:
    """Return the file's tables, or say which keys are missing, unknown or of the wrong type."""
    wrong, passed_over = list[Mistake](), set[int]()
    while True:
        try:
            table = msgspec.convert(data, form)
            break
        except msgspec.ValidationError as problem:
            message, _, place = str(problem).partition(" - at ")
            mistake = _complaint(message, _path(place, data), form)
            wrong.append(mistake)
            if not _mended(data, mistake.path):
                raise Mistakes(wrong) from None
            if mistake.path[0] in LISTS:
                passed_over.add(int(mistake.path[1]))
        except OverflowError:
            raise Mistake("a number in this file is too large") from None
    if wrong:
        gathered([partial(check, table, passed_over), partial(_raised, wrong)])
    return table


def _raised(wrong: Sequence[Mistake]) -> None:
    raise Mistakes(wrong)


LISTS = ("attributes", "features")
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


def _complaint(
    message: str, path: tuple[str | int, ...], form: type[msgspec.Struct] = CampaignTable
) -> Mistake:
    """Say what is wrong in the words of the file."""
    keys = [step for step in path if isinstance(step, str)]
    subject = keys[-1] if keys else "the file"
    if found := re.search(r"missing required field `([^`]+)`", message):
        one = {"attributes": "this attribute", "features": "this feature", "target": "the target"}
        where = one.get(keys[0], subject) if keys else subject
        return Mistake(f"{where} has no {found[1]}: it is needed", *path, found[1])
    if found := re.search(r"unknown field `([^`]+)`", message):
        return Mistake(_unknown(found[1], keys, form), *path, found[1])
    if found := re.match(r"Expected `([^`]+)`, got `([^`]+)`", message):
        wanted = " or ".join(_TYPES.get(one, one) for one in found[1].split(" | ") if one != "null")
        return Mistake(f"{subject} is {wanted}; this is {_TYPES.get(found[2], found[2])}", *path)
    if found := re.match(r"Invalid enum value '(.*)'", message):
        kinds = KINDS if form is CampaignTable else ("number", "category")
        choices = {"kind": kinds, "case": CASES, "model": tuple(MODELS)}
        known = (choices | {"every": EVERY, "law": LAWS}).get(subject, UPLOADS)
        near = difflib.get_close_matches(found[1], known, 1)
        meant = f"; {near[0]} is meant?" if near else ""
        return Mistake(f"{subject} is one of {', '.join(known)}; got {found[1]!r}{meant}", *path)
    if "datetime" in message:
        return Mistake(f"{subject} is {_TYPES['datetime']}", *path)
    return Mistake(f"{subject}: {message}", *path)


def _unknown(key: str, keys: Sequence[str], form: type[msgspec.Struct]) -> str:
    """Say that there is no such key, and which one may be meant."""
    tables: dict[str, type[msgspec.Struct]] = {
        **{"attributes": AttributeTable, "repeat": RepeatTable},
        **{"features": FeatureTable, "target": FeatureTable},
    }
    table = tables.get("".join(keys), form)
    known = [field.name for field in msgspec.structs.fields(table)]
    near = difflib.get_close_matches(key, known, 1)
    elsewhere = key in {field.name for field in msgspec.structs.fields(form)}
    if form is ModelTable and not keys and key == "attributes":
        return "a campaign that trains a model has [[features]] and a [target], no attributes"
    if near:
        return f"there is no key {key}; {near[0]} is meant?"
    if keys and elsewhere:
        return f"{key} belongs above the first table: it is about the whole campaign"
    return f"there is no key {key}; there are {', '.join(known)}"
