"""Conditions of cleanup rules, from text such as `status <> 'pending' and retries > 3` and back.

They look like SQL and never become it: each is a column, a comparison and a value, which the
database looks up in its catalogue and quotes.
"""

from __future__ import annotations

import re
from typing import Any

from rota.errors import InputError

GRAMMAR = (
    "write COLUMN = 'text', <>, <, <=, >, >= with a text, a number, true or false; "
    "COLUMN in (1, 2); COLUMN is null, is not null; several with and"
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+")"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<word>[A-Za-z_][\w$]*)"""
    r"""|(?P<op><>|!=|<=|>=|=|<|>|\(|\)|,))"""
)
_OPS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def parse_condition(text: str) -> list[dict[str, Any]]:
    """What `rota.cleanup` takes as `where`; InputError says what cannot be read."""
    return _Reader(text).conditions()


def condition_text(where: Any) -> str:
    """The same as text; what nobody can read is shown as it is."""
    found = where if isinstance(where, list) else [where] if where else []
    return " and ".join(_one_text(one) for one in found)


def _one_text(one: Any) -> str:
    if not isinstance(one, dict) or "column" not in one or "op" not in one:
        return str(one)
    words = [_name_text(str(one["column"])), str(one["op"]).lower()]
    if "value" in one:
        value = one["value"]
        listed = isinstance(value, list)
        words.append(f"({', '.join(map(_value_text, value))})" if listed else _value_text(value))
    return " ".join(words)


def _name_text(name: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
    )


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._place = 0

    def _split(self) -> list[tuple[str, str]]:
        found, place = [], 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None:
                raise self._refusal(self._text[place:].strip())
            found.append((str(match.lastgroup), match[0].strip()))
            place = match.end()
        return found

    def conditions(self) -> list[dict[str, Any]]:
        found = [self._condition()]
        while self._place < len(self._tokens):
            self._expect("and")
            found.append(self._condition())
        return found

    def _condition(self) -> dict[str, Any]:
        column = self._column()
        kind, text = self._next()
        op = "<>" if text == "!=" else text.lower()
        if op in _OPS:
            return {"column": column, "op": op, "value": self._value()}
        if op == "in":
            return {"column": column, "op": "in", "value": self._values()}
        if op == "is":
            is_not = self._peek() == "not"
            if is_not:
                self._next()
            self._expect("null")
            return {"column": column, "op": "is not null" if is_not else "is null"}
        raise self._refusal(text if kind else "its end")

    def _column(self) -> str:
        kind, text = self._next()
        if kind == "quoted":
            return text[1:-1].replace('""', '"')
        if kind == "word":
            return text.lower()  # as Postgres folds a name that is not quoted
        raise self._refusal(text if kind else "its end")

    def _values(self) -> list[Any]:
        self._expect("(")
        found = [self._value()]
        while self._peek() == ",":
            self._next()
            found.append(self._value())
        self._expect(")")
        return found

    def _value(self) -> Any:
        kind, text = self._next()
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return float(text) if "." in text else int(text)
        if kind == "word" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise self._refusal(text if kind else "its end")

    def _peek(self) -> str:
        return self._tokens[self._place][1].lower() if self._place < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            return "", ""
        self._place += 1
        return self._tokens[self._place - 1]

    def _expect(self, word: str) -> None:
        kind, text = self._next()
        if text.lower() != word:
            raise self._refusal(text if kind else "its end")

    def _refusal(self, near: str) -> InputError:
        return InputError(
            f"the condition {self._text!r} cannot be read at {near[:60]!r}", hint=GRAMMAR
        )
