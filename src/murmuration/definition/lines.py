"""On which line of a TOML file each key and each item of a list stands.

`tomllib` checks the file and reads its values; this walks over the same text a second time and
only notes places. It expects text that `tomllib` has accepted.
"""

from __future__ import annotations

import re
from bisect import bisect_left

Path = tuple[str | int, ...]

_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")|' + r"'''.*?'{3,5}(?!')|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'",
    re.DOTALL,
)


class Lines:
    r"""The lines of a file's keys, by path: ("attributes", 0, "low").

    >>> Lines('name = "a" # one\n[[attributes]]\nlow = 0').of(("attributes", 0, "low"))
    3
    """

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [end.start() for end in re.finditer("\n", text)]
        self._found: dict[Path, int] = {(): 1}
        self._last: dict[Path, int] = {}  # of each array of tables, the number of the last one
        table: Path = ()
        while self._more():
            if text.startswith("[", self._at):
                table = self._header(text.startswith("[[", self._at))
            else:
                self._pair(table)

    def of(self, path: Path) -> int:
        """Return the line of a path; if the file does not have it, of what it would be in."""
        while path not in self._found:
            path = path[:-1]
        return self._found[path]

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        taken = match[0] if match else ""
        self._at += len(taken)
        return taken

    def _more(self) -> bool:
        """Go on to what is neither space nor comment; say whether there is anything."""
        self._skip(_GAP)
        return self._at < len(self._text)

    def _note(self, path: Path) -> None:
        self._found.setdefault(path, bisect_left(self._ends, self._at) + 1)

    def _header(self, several: bool) -> Path:
        """Read [a.b] or [[a.b]]; return the path of the table that follows."""
        self._at += 2 if several else 1
        *before, last = self._key()
        self._at += 2 if several else 1
        path: Path = ()
        for key in before:
            path = self._inside((*path, key))
        path = (*path, last)
        self._note(path)
        if several:
            self._last[path] = self._last.get(path, -1) + 1
        path = self._inside(path)
        self._note(path)
        return path

    def _inside(self, path: Path) -> Path:
        """Return where a key of this table goes: for an array of tables, into its last one."""
        return (*path, self._last[path]) if path in self._last else path

    def _key(self) -> list[str]:
        """Read a dotted key and what stands around it."""
        keys = []
        while True:
            self._skip(_SPACE)
            quoted = self._skip(_STRING)
            keys.append(quoted[1:-1] if quoted else self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _pair(self, table: Path) -> None:
        """Read key = value."""
        start, path = self._at, table
        keys = self._key()
        after, self._at = self._at, start
        for key in keys:
            path = (*path, key)
            self._note(path)
        self._at = after + 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        self._note(path)
        if self._text.startswith("[", self._at):
            self._items(path, "]")
        elif self._text.startswith("{", self._at):
            self._items(path, "}")
        elif not self._skip(_STRING):
            self._skip(_BARE_VALUE)

    def _items(self, path: Path, end: str) -> None:
        """Read the items of a list, or the pairs of an inline table."""
        self._at += 1
        place = 0
        while self._more() and not self._text.startswith(end, self._at):
            if end == "]":
                self._value((*path, place))
                place += 1
            else:
                self._pair(path)
            self._skip(_GAP)
            if self._text.startswith(",", self._at):
                self._at += 1
        self._at += 1
