"""Values that Postgres can store but Python cannot represent: shown as such, in the place of a
field.

Constraints keep them out. A row that contains one all the same must not fail the list that it is
part of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class Unreadable(datetime):
    """An instant outside the years 1 to 9999: compared as the nearest instant of Python, shown as
    it is stored."""

    text: str
    # Lets the serialization of large pages skip the search for such values until there was one.
    were_met: ClassVar[bool] = False

    def __new__(cls, text: Any, *more: Any, **named: Any) -> Self:
        if not isinstance(text, str):  # the result of arithmetic: a normal instant
            return datetime(text, *more, **named)  # type: ignore[return-value]  # noqa: DTZ001
        near = _FIRST if text.startswith("-") or text.endswith(" BC") else _LAST
        made = super().__new__(cls, near.year, near.month, near.day, tzinfo=UTC)
        made.text = text
        Unreadable.were_met = True
        return made

    def __str__(self) -> str:
        return f"unreadable: {self.text}"

    def __format__(self, _: str) -> str:
        return str(self)

    def __reduce_ex__(self, _: Any) -> Any:
        return Unreadable, (self.text,)

    def isoformat(self, *_: Any, **__: Any) -> str:
        return str(self)

    def strftime(self, _: str) -> str:
        return str(self)

    def astimezone(self, _: Any = None) -> Self:
        return self

    def replace(self, *_: Any, **__: Any) -> Self:
        return self


def readable(value: Any) -> Any:
    """Return any value in a form that JSON can represent."""
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Mapping():
            return {str(key): readable(item) for key, item in value.items()}
        case list() | tuple() | set():
            return [readable(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: readable(getattr(value, field.name)) for field in fields(value)}
    return str(value)
