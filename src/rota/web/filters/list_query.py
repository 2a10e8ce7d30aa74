"""The filter of a list: the address holds it, and the page shows every part of it.

    class EventFilter(ListQuery):
        PLACE, FILTERS = "/events", EventFilters

The names, the values that they take and what people read of them are those of the declared filters
(`EventFilters`). In the address a part is `job=send`, or `-job=send` if the list leaves it out; `q`
is what somebody typed. What cannot be read stays typed, with the reason beside it: the list is
shown without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rota.errors import FilterError, InputError
from rota.model.durations import is_duration
from rota.model.exclusion import can_exclude, filters_by_word
from rota.model.fields import Argument
from rota.web.filters.words import Word, read_words, written
from rota.web.words import refusal

# What several values of mean that each must hold, or any of them.
_SEVERAL = ("several", "pairs")


class Part(NamedTuple):
    """A filter by its word, and a value as it was typed."""

    word: str
    value: str
    is_not: bool = False

    @property
    def key(self) -> str:
        return f"-{self.word}" if self.is_not else self.word


class Token(NamedTuple):
    """A part in words, and the address without it."""

    key: str
    value: str
    without: str


def _in_zone(zone: tzinfo, at: datetime) -> datetime:
    return at.replace(tzinfo=zone)


def address(place: str, pairs: Iterable[tuple[str, str]]) -> str:
    query = urlencode(list(pairs))
    return f"{place}?{query}" if query else place


@dataclass(frozen=True, slots=True)
class ListQuery:
    """`PLACE` is the page of the list, `BARE` the filter that a bare word is, `OPTIONS` what else
    its address holds, with the defaults. Times without a zone are in the viewer's `zone`. `typed`
    is what could not be read, `error` why."""

    PLACE: ClassVar[str]
    FILTERS: ClassVar[Any]
    BARE: ClassVar[str] = "text"
    OPTIONS: ClassVar[Mapping[str, str]] = {}

    parts: tuple[Part, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    cursor: str | None = None
    zone: tzinfo = UTC
    typed: str = ""
    error: str = ""

    @classmethod
    def read(
        cls, given: QueryParams, zone: tzinfo = UTC, names: Mapping[str, Collection[str]] = {}
    ) -> Self:
        """Read the address. `q` changes the filter, so the list starts anew. A bare word that is
        one of `names` is that name."""
        found = cls(
            options={key: given[key] for key in cls.OPTIONS if given.get(key)},
            cursor=given.get("cursor") or None,
            zone=zone,
        )
        for key, value in given.multi_items():
            word = key.removeprefix("-")
            if word in cls.words() and value.strip():
                found = found._read(Part(word, value.strip(), key != word))
        return found.with_text(given.get("q", ""), names)

    @classmethod
    def words(cls) -> Mapping[str, Argument]:
        return filters_by_word(cls.FILTERS)

    def _read(self, part: Part) -> Self:
        try:
            return self._with(part)
        except FilterError as error:
            typed = written(part.word, part.value, is_not=part.is_not)
            return self._refused(f"{self.typed} {typed}", self.error or refusal(error))

    def _refused(self, typed: str, error: str) -> Self:
        return replace(self, typed=typed.strip(), error=error)

    def with_text(self, text: str, names: Mapping[str, Collection[str]] = {}) -> Self:
        """Add what somebody typed; if a part of it cannot be read, all of it stays typed."""
        found = self
        try:
            for word in read_words(text):
                found = found._with(self._part(word, names))
        except FilterError as error:
            return self._refused(text, refusal(error))
        return replace(found, cursor=None) if found.parts != self.parts else found

    def _part(self, word: Word, names: Mapping[str, Collection[str]]) -> Part:
        bare = next((name for name, known in names.items() if word.value in known), self.BARE)
        return Part(word.name or bare, word.value, word.is_not)

    def _with(self, part: Part) -> Self:
        """The filter with this part. Records have one job, one queue …: another value replaces the
        first."""
        self._check(part)
        return replace(self, parts=self._added(part))

    def _added(self, part: Part) -> tuple[Part, ...]:
        is_one_of_several = part.is_not or self.words()[part.word].kind in _SEVERAL
        kept = [
            one
            for one in self.parts
            if one != part and (is_one_of_several or one.is_not or one.word != part.word)
        ]
        return (*kept, part)

    def _check(self, part: Part) -> None:
        if part.word not in self.words():
            known = ", ".join(self.words())
            raise FilterError(
                f"unknown filter {part.word}", hint=f"choose from {known}; quote it to search text"
            )
        argument = self.words()[part.word]
        if part.is_not and not can_exclude(argument):
            raise FilterError(f"{part.word} cannot be left out", hint="write it without not")
        if not part.value:
            raise FilterError(f"{part.word} needs a value", hint=f"for example {self._like(part)}")
        self._value(part)

    def _like(self, part: Part) -> str:
        example = self.words()[part.word].field.example
        if isinstance(example, Mapping):
            example = "=".join(map(str, next(iter(example.items()))))
        return written(part.word, str(example))

    def _value(self, part: Part) -> Any:
        argument = self.words()[part.word]
        try:
            local = partial(_in_zone, self.zone)
            return argument.parse(part.value, local, is_filter=True)
        except InputError as error:
            wrong = error.retold(FilterError)
            wrong.field = part.word
            raise wrong from None

    @property
    def filters(self) -> Any:
        """The arguments of the list."""
        found: dict[str, Any] = {}
        for part in self.parts:
            name, value = self.words()[part.word].name, self._value(part)
            if part.is_not:
                found.setdefault("exclude", []).append(f"{part.word}:{part.value}")
            elif isinstance(value, list):
                found.setdefault(name, []).extend(value)
            elif isinstance(value, Mapping):
                found.setdefault(name, {}).update(value)
            else:
                found[name] = value
        return found

    def checked(self) -> Self:
        """The filter; FilterError if a part of it could not be read. What acts on all that match
        may not leave a part out."""
        if self.error:
            raise FilterError(self.error)
        return self

    @property
    def status(self) -> int:
        return 422 if self.error else 200

    def get(self, word: str) -> str:
        """The value of a filter; empty without it."""
        values = [one.value for one in self.parts if one.word == word and not one.is_not]
        return values[-1] if values else self.options.get(word, self.OPTIONS.get(word, ""))

    @property
    def tokens(self) -> list[Token]:
        return [self._token(part) for part in self.parts]

    def _token(self, part: Part) -> Token:
        key, value = self._shown(part)
        return Token(f"not {key}" if part.is_not else key, value, self._without(part))

    def _shown(self, part: Part) -> tuple[str, str]:
        """A part in words, if its name alone says too little."""
        if self.words()[part.word].kind != "moment":
            return part.word, part.value
        is_span = is_duration(part.value)
        what = "ended" if part.word.startswith("ended") else "created"
        if part.word.endswith("since"):
            return what, f"in the last {part.value}" if is_span else f"since {part.value}"
        return what, f"before {part.value}{' ago' if is_span else ''}"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter and the options as fields of a form, or as an address."""
        options = [
            (key, value)
            for key, value in self.options.items()
            if value and value != self.OPTIONS.get(key)
        ]
        return [(part.key, part.value) for part in self.parts] + options

    def _without(self, part: Part) -> str:
        return self.at_parts([one for one in self.parts if one != part])

    def plus(self, word: str, value: str, *, is_not: bool = False) -> str:
        return self.at_parts(self._added(Part(word, value, is_not)))

    def at_parts(self, parts: Sequence[Part]) -> str:
        return replace(self, parts=tuple(parts)).path()

    def changed(self, **changes: str | None) -> Self:
        """The filter with other values, at its first page."""
        given = {name: value for name, value in changes.items() if value}
        kept = [one for one in self.parts if one.word not in changes]
        parts = [Part(name, value) for name, value in given.items() if name in self.words()]
        options = {key: value for key, value in self.options.items() if key not in changes}
        options |= {name: value for name, value in given.items() if name in self.OPTIONS}
        return replace(self, parts=(*kept, *parts), options=options, cursor=None)

    def path(self, place: str | None = None, **changes: str | None) -> str:
        """The address of the first page, with some parts changed."""
        return address(place or self.PLACE, (self.changed(**changes) if changes else self).pairs)

    def at(self, cursor: str | None) -> str | None:
        """The address of another page; None if there is none."""
        return None if not cursor else address(self.PLACE, [*self.pairs, ("cursor", cursor)])
