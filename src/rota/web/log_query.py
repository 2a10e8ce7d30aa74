"""The filter of the log: the address holds the filter, and the page shows every part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypedDict

from starlette.datastructures import QueryParams

from rota.errors import SearchError
from rota.model.log import LEVELS
from rota.model.log_question import LogFilters
from rota.model.log_text import LogText
from rota.web.forms import read_span
from rota.web.list_query import Token, address

# Names of filters; any other name before a colon is a field of a line.
KEYS = ("job", "run", "attempt", "queue", "worker", "tenant")
_NUMBERS = ("run", "attempt", "worker")
RANGES = {"15min": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
DEFAULT_RANGE = "24h"
_WORD = re.compile(r'(?<!\S)(\w+):("[^"]*"|\S+)')
_MOST_BACK = 20


class Stretch(TypedDict):
    """A period; each end is an instant, or how long ago."""

    since: datetime | timedelta | None
    until: datetime | timedelta | None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The filter in the address. For a run, all its lines are shown; otherwise those of `range`, or
    those from `since` to `until`. `cursor` is where the page begins, `back` are the cursors of the
    pages before it. `place` is the page that the filter belongs to."""

    text: str = ""
    levels: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    range: str | None = None
    since: str | None = None
    until: str | None = None
    cursor: str | None = None
    back: tuple[str, ...] = ()
    place: str = "/logs"

    @classmethod
    def read(cls, given: QueryParams, place: str = "/logs") -> LogQuery:
        levels = tuple(level for level in LEVELS if level in given.getlist("level"))
        old = given.get("run_id")  # links of other pages may use this name
        parts = [("run", old)] if old else []
        parts += [(key, given[key]) for key in KEYS if given.get(key)]
        found = cls(
            levels=() if len(levels) == len(LEVELS) else levels,
            parts=tuple(dict(parts).items()),
            range=given.get("range") or None,
            since=given.get("since") or None,
            until=given.get("until") or None,
            cursor=given.get("cursor") or None,
            back=tuple(given.getlist("back")[-_MOST_BACK:]),
            place=place,
        )
        return found._with_text(given.get("q", "")[:1000])

    def _with_text(self, text: str) -> LogQuery:
        """Add typed text: `job:send timeout -retry user:7`."""
        parts, levels = dict(self.parts), list(self.levels)
        for key, value in _WORD.findall(text):
            if key in KEYS:
                parts[key] = value.strip('"')
            elif key == "level" and value in LEVELS:
                levels.append(value)
        rest = _WORD.sub(lambda found: "" if self._is_ours(found) else found[0], text)
        chosen = tuple(level for level in LEVELS if level in levels)
        return replace(self, text=" ".join(rest.split()), parts=tuple(parts.items()), levels=chosen)

    @staticmethod
    def _is_ours(found: re.Match[str]) -> bool:
        return found[1] in KEYS or (found[1] == "level" and found[2] in LEVELS)

    @property
    def filters(self) -> LogFilters:
        found: Any = {"levels": self.levels or None}
        for key, value in self.parts:
            name = "run_id" if key == "run" else key
            found[name] = _number(key, value) if key in _NUMBERS else value
        chosen: LogFilters = found
        return chosen

    @property
    def run_id(self) -> int | None:
        return self.filters.get("run_id")

    @property
    def stretch(self) -> Stretch:
        """`since` and `until` of a search."""
        if self.since or self.until:
            return {"since": _instant("since", self.since), "until": _instant("until", self.until)}
        if self.range is None and self.run_id is not None:
            return {"since": None, "until": None}
        span = read_span(self.range or DEFAULT_RANGE)
        if span is None:
            raise SearchError(
                f"invalid range {self.range!r}", hint="write how far back: 15min, 24h, 7d"
            )
        return {"since": span, "until": None}

    @property
    def chosen_range(self) -> str | None:
        """The range that the switch shows as selected."""
        if self.since or self.until or (self.run_id is not None and self.range is None):
            return None
        return self.range or DEFAULT_RANGE

    @property
    def words(self) -> list[str]:
        """The words that are marked in matching lines."""
        text = LogText.parse(self.text)
        return [word.rstrip("*") for word in text.wanted] + [value for _, value in text.fields]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text or self.levels or self.parts or self.since or self.until)

    @property
    def tokens(self) -> list[Token]:
        found = [Token("level", level, self._without_level(level)) for level in self.levels]
        for key, value in self.parts:
            rest = tuple(part for part in self.parts if part != (key, value))
            found.append(Token(key, value, self._first(parts=rest).path()))
        for key in ("since", "until"):
            if value := getattr(self, key):
                found.append(Token(key, value, self._first(**{key: None}).path()))
        return found

    def _first(self, **changes: Any) -> LogQuery:
        """Return a changed query that starts at its first page."""
        return replace(self, cursor=None, back=(), **changes)

    def _without_level(self, level: str) -> str:
        return self._first(levels=tuple(other for other in self.levels if other != level)).path()

    def toggled(self, level: str) -> str:
        """Return the address with this level added or removed. No chosen level means all levels."""
        chosen = set(self.levels) ^ {level}
        levels = tuple(one for one in LEVELS if one in chosen)
        return self._first(levels=levels if len(levels) < len(LEVELS) else ()).path()

    def with_part(self, key: str, value: object) -> str:
        rest = [part for part in self.parts if part[0] != key]
        return self._first(parts=(*rest, (key, str(value)))).path()

    def with_range(self, name: str) -> str:
        return self._first(range=name, since=None, until=None).path()

    def between(self, since: datetime, until: datetime) -> str:
        chosen = {"since": since.isoformat(), "until": until.isoformat()}
        return self._first(range=None, **chosen).path()

    def older(self, cursor: str) -> str:
        return replace(self, cursor=cursor, back=(*self.back, self.cursor or "")).path()

    def newer(self) -> str | None:
        """Return the page before, by its own cursor; None on the first page."""
        if not self.cursor:
            return None
        before = self.back[-1] if self.back else ""
        return replace(self, cursor=before or None, back=self.back[:-1]).path()

    @property
    def first_page(self) -> str:
        return self._first().path()

    def path(self, place: str | None = None) -> str:
        place, pairs = place or self.place, self.pairs
        pairs += [("cursor", self.cursor)] if self.cursor else []
        pairs += [("back", cursor) for cursor in self.back[-_MOST_BACK:]] if self.cursor else []
        return address(place, pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter without the position of the page."""
        single = {"q": self.text, "range": self.range, "since": self.since, "until": self.until}
        found = [(key, value) for key, value in single.items() if value]
        return found + [("level", level) for level in self.levels] + list(self.parts)

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """The hidden fields of the search form."""
        return [pair for pair in self.pairs if pair[0] != "q"]


def _number(key: str, value: str) -> int:
    if not value.isdecimal() or not 0 < int(value[:19]) < 2**63:
        raise SearchError(f"invalid {key} {value!r}", hint="it must be a number")
    if key == "attempt" and int(value) >= 2**31:
        raise SearchError(f"invalid attempt {value!r}", hint="it must be a number")
    return int(value[:19])


def _instant(name: str, value: str | None) -> datetime | timedelta | None:
    """Read an instant with its zone, or how far back."""
    if value is None:
        return None
    if (span := read_span(value)) is not None:
        return span
    try:
        # In a typed address the plus of the offset arrives as a space.
        found = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise SearchError(
            f"invalid {name} {value!r}", hint="write 2h, or a time such as 2026-10-22T12:41:00Z"
        ) from None
    if found.tzinfo is None:
        raise SearchError(f"{name} needs a time zone: {value}", hint="such as Z at the end")
    return found
