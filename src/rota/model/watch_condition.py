"""Conditions of watches, such as `new.total > 100 and old.status is distinct from new.status`.

The SQL of the trigger is built by this module, with the server's own operators: a condition can
only match rows; it cannot have an effect, nor fail the write of a row.
"""

from __future__ import annotations

from rota.model.condition import Reader, name_text, value_text

_DEEPEST = 20


def watch_condition(text: str) -> str:
    """Return the condition as SQL; raise InputError with the part that cannot be read."""
    return _WatchReader(text).condition()


class _WatchReader(Reader):
    grammar = (
        "write new.COLUMN or old.COLUMN and a comparison (=, <>, <, <=, >, >=, in (…), like '…', is"
        " null, is not null, is distinct from …) with a text, a number, true, false or another"
        " column; new.COLUMN ->> 'field' for JSON; several with and, or, not and parentheses"
    )

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def condition(self) -> str:
        found = self._any()
        if not self._is_over:
            raise self._refusal(self._next()[1])
        return found

    def _any(self) -> str:
        found = [self._all()]
        while self._take("or"):
            found.append(self._all())
        return " or ".join(found)

    def _all(self) -> str:
        found = [self._one()]
        while self._take("and"):
            found.append(self._one())
        return " and ".join(found)

    def _one(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refusal(self._next()[1])
        try:
            if self._take("not"):
                return f"not {self._one()}"
            if self._take("("):
                inside = self._any()
                self._expect(")")
                return f"({inside})"
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> str:
        left = self._operand()
        if self._take("is"):
            not_ = "not " if self._take("not") else ""
            if self._take("null"):
                return f"{left} is {not_}null"
            self._expect("distinct")
            self._expect("from")
            return f"{left} is {not_}distinct from {self._operand()}"
        not_ = "not " if self._take("not") else ""
        if self._take("in"):
            return f"{left} {not_}in ({', '.join(map(value_text, self._values()))})"
        if self._take("like"):
            return f"{left} {not_}like {value_text(str(self._value()))}"
        if not_:
            raise self._refusal(self._next()[1] or "its end")
        return f"{left} {self._comparison()} {self._operand()}"

    def _operand(self) -> str:
        if self._peek() not in ("new", "old"):
            return value_text(self._value())
        row = self._name()
        self._expect(".")
        found = f"{row}.{name_text(self._name())}"
        while self._peek() in ("->", "->>"):
            found = f"{found} {self._next()[1]} {value_text(self._value())}"
        return found
