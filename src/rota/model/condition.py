"""Conditions on rows that users write: for cleanups, and for watches of tables.

They look like SQL but are not passed on: a condition consists of columns, comparisons and values,
and the text that is sent to the database is built from these. It cannot call a function.
"""

from __future__ import annotations

import re
from typing import Any

from rota.errors import InputError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+")"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<word>[A-Za-z_][\w$]*)"""
    r"""|(?P<op>->>|->|<>|!=|<=|>=|=|<|>|\(|\)|,|\.))"""
)
# A number with more digits exceeds every stored number.
_MOST_DIGITS = 300
_MOST_QUOTED = 200
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def name_text(name: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
    )


class Reader:
    """Reads the words of a condition. `grammar` is the hint in its errors."""

    grammar = ""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._place = 0

    def _split(self) -> list[tuple[str, str]]:
        found, place, end = [], 0, len(self._text.rstrip())
        while place < end:
            match = _TOKEN.match(self._text, place)
            if match is None:
                raise self._refusal(self._text[place : place + 200].strip())
            found.append((str(match.lastgroup), match[0].strip()))
            place = match.end()
        return found

    @property
    def _is_over(self) -> bool:
        return self._place >= len(self._tokens)

    def _name(self) -> str:
        kind, text = self._next()
        if kind == "quoted":
            return text[1:-1].replace('""', '"')
        if kind == "word":
            return text.lower()  # as Postgres folds an unquoted name
        raise self._refusal(text if kind else "its end")

    def _values(self) -> list[Any]:
        self._expect("(")
        found = [self._value()]
        while self._take(","):
            found.append(self._value())
        self._expect(")")
        return found

    def _value(self) -> Any:
        kind, text = self._next()
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number" and len(text) <= _MOST_DIGITS:
            return float(text) if "." in text else int(text)
        if kind == "word" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise self._refusal(text if kind else "its end")

    def _comparison(self) -> str:
        kind, text = self._next()
        op = "<>" if text == "!=" else text
        if op not in COMPARISONS:
            raise self._refusal(text if kind else "its end")
        return op

    def _peek(self) -> str:
        """Return the next word in lower case; quoted text is not a word."""
        if self._is_over:
            return ""
        kind, text = self._tokens[self._place]
        return text.lower() if kind in ("word", "op") else text

    def _next(self) -> tuple[str, str]:
        if self._is_over:
            return "", ""
        self._place += 1
        return self._tokens[self._place - 1]

    def _take(self, *words: str) -> bool:
        """Consume these words, if they are the next ones."""
        start = self._place
        for word in words:
            if self._peek() != word:
                self._place = start
                return False
            self._place += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            kind, text = self._next()
            raise self._refusal(text if kind else "its end")

    def _refusal(self, near: str) -> InputError:
        cut = self._text if len(self._text) <= _MOST_QUOTED else f"{self._text[:_MOST_QUOTED]}…"
        return InputError(
            f"the condition {cut!r} cannot be read at {near[:60]!r}", hint=self.grammar
        )
