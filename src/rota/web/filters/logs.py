"""The filter of the log. Words, phrases and fields of lines are its text; the rest are filters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar, Self, TypedDict

from starlette.datastructures import QueryParams

from rota.errors import FilterError, SearchError
from rota.model.log import LEVELS
from rota.model.log_question import LogFilters
from rota.model.log_text import LogText
from rota.web.filters.list_query import ListQuery, Part, Token, address
from rota.web.filters.words import read_words
from rota.web.forms import read_span
from rota.web.words import refusal

RANGES = {"15min": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
DEFAULT_RANGE = "24h"
_MOST_BACK = 20


class Stretch(TypedDict):
    """A period; each end is an instant, or how long ago."""

    since: datetime | timedelta | None
    until: datetime | timedelta | None


@dataclass(frozen=True, slots=True)
class LogQuery(ListQuery):
    """For a run, all its lines are shown; otherwise those of `range`, or those from `since` to
    `until`. `cursor` is where the page begins, `back` are the cursors of the pages before it.
    `place` is the page that the filter belongs to."""

    PLACE: ClassVar = "/logs"
    FILTERS: ClassVar = LogFilters
    OPTIONS: ClassVar = {"range": "", "since": "", "until": ""}

    text: str = ""
    back: tuple[str, ...] = ()
    place: str = "/logs"

    @classmethod
    def read(
        cls,
        given: QueryParams,
        zone: tzinfo = UTC,
        names: Mapping[str, Collection[str]] = {},
        place: str = "/logs",
    ) -> Self:
        found = super(LogQuery, cls).read(given, zone, names)
        if "run_id" in given:  # links of other pages may use this name
            found = found._read(Part("run", given["run_id"]))
        chosen = found.levels
        if len(chosen) == len(LEVELS):
            found = found.changed(level=None)
        return replace(found, back=tuple(given.getlist("back")[-_MOST_BACK:]), place=place)

    def with_text(self, text: str, names: Mapping[str, Collection[str]] = {}) -> Self:
        """Add typed text: `job:send timeout -retry user:7`."""
        found, rest = self, []
        try:
            for word in read_words(text):
                if word.name in self.words():
                    found = found._with(self._part(word, names))
                else:
                    rest.append(word.typed)
        except FilterError as error:
            return self._refused(text, refusal(error))
        return replace(found, text=" ".join(rest))

    @property
    def levels(self) -> tuple[str, ...]:
        chosen = self.filters.get("levels", ())
        return tuple(level for level in LEVELS if level in chosen)

    @property
    def run_id(self) -> int | None:
        found: int | None = self.filters.get("run_id")
        return found

    @property
    def stretch(self) -> Stretch:
        """`since` and `until` of a search."""
        since, until, span = self.get("since"), self.get("until"), self.get("range")
        if since or until:
            return {"since": _instant("since", since), "until": _instant("until", until)}
        if not span and self.run_id is not None:
            return {"since": None, "until": None}
        back = read_span(span or DEFAULT_RANGE)
        if back is None:
            raise SearchError(f"invalid range {span!r}", hint="write how far back: 15min, 24h, 7d")
        return {"since": back, "until": None}

    @property
    def chosen_range(self) -> str | None:
        """The range that the switch shows as selected."""
        has_ends = self.get("since") or self.get("until")
        if has_ends or (self.run_id is not None and not self.get("range")):
            return None
        return self.get("range") or DEFAULT_RANGE

    @property
    def marked(self) -> list[str]:
        """The words that are marked in matching lines."""
        text = LogText.parse(self.text)
        return [word.rstrip("*") for word in text.wanted] + [value for _, value in text.fields]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text or self.parts or self.get("since") or self.get("until"))

    @property
    def tokens(self) -> list[Token]:
        ends = [Part(key, self.get(key)) for key in ("since", "until") if self.get(key)]
        found = super(LogQuery, self).tokens
        return found + [Token(one.key, one.value, self.path(**{one.word: None})) for one in ends]

    def toggled(self, level: str) -> str:
        """Return the address with this level added or removed. No chosen level means all levels."""
        chosen = set(self.levels) ^ {level}
        rest = self.changed(level=None)
        if len(chosen) == len(LEVELS):
            return rest.path()
        levels = [Part("level", one) for one in LEVELS if one in chosen]
        return rest.at_parts([*rest.parts, *levels])

    def with_range(self, name: str) -> str:
        return self.path(range=name, since=None, until=None)

    def between(self, since: datetime, until: datetime) -> str:
        return self.path(range=None, since=since.isoformat(), until=until.isoformat())

    def older(self, cursor: str) -> str:
        return self._page(cursor, (*self.back, self.cursor or ""))

    def newer(self) -> str | None:
        """Return the page before, by its own cursor; None on the first page."""
        if not self.cursor:
            return None
        return self._page(self.back[-1] if self.back else "", self.back[:-1])

    def _page(self, cursor: str, back: tuple[str, ...]) -> str:
        pairs = [("cursor", cursor)] if cursor else []
        pairs += [("back", one) for one in back[-_MOST_BACK:]] if cursor else []
        return address(self.place, [*self.pairs, *pairs])

    def path(self, place: str | None = None, **changes: str | None) -> str:
        return super(LogQuery, self).path(place or self.place, **changes)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter without the position of the page."""
        return [("q", self.text)] * bool(self.text) + self.hidden

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """The hidden fields of the search form."""
        return super(LogQuery, self).pairs


def _instant(name: str, value: str) -> datetime | timedelta | None:
    """Read an instant with its zone, or how far back."""
    if not value:
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
