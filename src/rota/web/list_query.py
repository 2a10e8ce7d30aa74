"""The filter of a list: the address holds the filter, and the page shows every part of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rota.errors import FilterError
from rota.model.instants import is_instant
from rota.web.forms import read_span

_WORD = re.compile(r'(\w+):("[^"]*"|\S+)|"([^"]*)"|(\S+)')
_LONGEST, _LONGEST_TEXT = 400, 1000


class Token(NamedTuple):
    """One part of the filter, and the address without it."""

    key: str
    value: str
    without: str


def read_words(text: str, keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Split typed text such as `job:send "two words"`; the key of a bare word is empty."""
    for key, value, quoted, word in _WORD.findall(text[:_LONGEST_TEXT]):
        if key and key not in keys:
            raise FilterError(f"unknown filter {key}", hint=f"choose from {', '.join(keys)}")
        yield key, (value or quoted or word).strip('"')


def read_moment(key: str, value: str, zone: tzinfo) -> timedelta | datetime:
    """Read how far back, or an instant; without a zone it is in the viewer's zone."""
    if (span := read_span(value)) is not None:
        return span
    try:
        at = datetime.fromisoformat(value)
        at = at if at.tzinfo is not None else at.replace(tzinfo=zone)
        if is_instant(at):
            return at
    except (ValueError, OverflowError):
        pass
    hint = "write how far back (90s, 15min, 24h, 7d) or a time (2026-01-31T14:30)"
    raise FilterError(f"invalid {key} {value!r}", hint=hint)


def address(place: str, pairs: Iterable[tuple[str, str]]) -> str:
    query = urlencode(list(pairs))
    return f"{place}?{query}" if query else place


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A filter with one value per key. `KEYS` maps the keys of the address to the arguments of the
    list; a bare word is a name."""

    PLACE: ClassVar[str]
    KEYS: ClassVar[Mapping[str, str]]
    SPANS: ClassVar[Mapping[str, str]]

    parts: dict[str, str]
    cursor: str | None = None
    zone: tzinfo = UTC

    @classmethod
    def read(cls, given: QueryParams, zone: tzinfo) -> Self:
        """Read the address. `q` is typed text; it changes the filter, so the list starts anew."""
        typed = given.get("q", "")
        parts = {key: value for key in cls.KEYS if (value := given.get(key, "").strip()[:_LONGEST])}
        parts |= {key or "name": value for key, value in read_words(typed, cls.KEYS)}
        return cls(parts, None if typed else given.get("cursor"), zone)

    @property
    def filters(self) -> Any:
        return {
            self.KEYS[key]: read_moment(key, value, self.zone)
            if key in ("since", "until")
            else value
            for key, value in self.parts.items()
        }

    @property
    def tokens(self) -> list[Token]:
        return [Token(key, value, self.path(**{key: None})) for key, value in self.parts.items()]

    def path(self, **changes: str | None) -> str:
        """Return the address with some parts changed, at the first page."""
        pairs = (self.parts | changes).items()
        return address(self.PLACE, ((key, value) for key, value in pairs if value))

    def at(self, cursor: str) -> str:
        return self.path(cursor=cursor)
