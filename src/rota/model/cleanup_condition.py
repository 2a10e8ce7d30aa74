"""Conditions of cleanup rules, from text such as `status <> 'pending' and retries > 3` and back.

They look like SQL and are never executed as SQL: each is a column, a comparison and a value, which
the database looks up in its catalogue and quotes.
"""

from __future__ import annotations

from typing import Any

from rota.model.condition import Reader, name_text, value_text


def parse_condition(text: str) -> list[dict[str, Any]]:
    """Return the argument `where` of `rota.cleanup`; raise InputError with the part that cannot be
    read."""
    return _Reader(text).conditions()


def condition_text(where: Any) -> str:
    """Return a condition as text; a value that cannot be read is shown as it is."""
    found = where if isinstance(where, list) else [where] if where else []
    return " and ".join(_one_text(part) for part in found)


def _one_text(one: Any) -> str:
    if not isinstance(one, dict) or "column" not in one or "op" not in one:
        return str(one)
    words = [name_text(str(one["column"])), str(one["op"]).lower()]
    if "value" in one:
        value = one["value"]
        listed = isinstance(value, list)
        words.append(f"({', '.join(map(value_text, value))})" if listed else value_text(value))
    return " ".join(words)


class _Reader(Reader):
    grammar = (
        "write COLUMN = 'text', <>, <, <=, >, >= with a text, a number, true or false; "
        "COLUMN in (1, 2); COLUMN is null, is not null; several with and"
    )

    def conditions(self) -> list[dict[str, Any]]:
        found = [self._condition()]
        while not self._is_over:
            self._expect("and")
            found.append(self._condition())
        return found

    def _condition(self) -> dict[str, Any]:
        column = self._name()
        if self._take("in"):
            return {"column": column, "op": "in", "value": self._values()}
        if self._take("is"):
            is_not = self._take("not")
            self._expect("null")
            return {"column": column, "op": "is not null" if is_not else "is null"}
        return {"column": column, "op": self._comparison(), "value": self._value()}
