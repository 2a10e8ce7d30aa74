"""The filter of the list of runs: the address holds the filter, and the page shows every part of
it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from starlette.datastructures import QueryParams

from rota.errors import FilterError
from rota.model.run_filter import RunFilter, RunFilters
from rota.model.states import RUN_STATES
from rota.web.forms import read_span
from rota.web.list_query import Token, address, read_moment, read_words

# Filters by name, in the order in which they are shown.
KEYS = (
    "state", "job", "queue", "tag", "tenant", "key", "schedule", "worker", "text", "error",
    "group", "payload", "since", "until", "ended_since", "ended_until", "handled",
)  # fmt: skip
TIMES = ("since", "until", "ended_since", "ended_until")
# Filters that may have several values.
_SEVERAL = ("state", "payload")
# Filters that have another key in the address.
_NAMES = {"states": "state", "error_group": "group", "payload_fields": "payload"}


@dataclass(frozen=True, slots=True)
class RunQuery:
    """The filter in the address. `cursor` is where the page begins; times without a zone are in the
    viewer's zone."""

    parts: tuple[tuple[str, str], ...] = ()
    dead: bool = False
    system: bool = False
    cursor: int | None = None
    zone: tzinfo = UTC

    @classmethod
    def read(cls, given: QueryParams, zone: tzinfo = UTC) -> RunQuery:
        cursor = given.get("cursor", "")
        return cls(
            parts=tuple((key, value) for key in KEYS for value in given.getlist(key) if value),
            dead=given.get("dead") == "1",
            system=given.get("system") == "1",
            cursor=int(cursor) if cursor.isdecimal() and len(cursor) < 19 else None,
            zone=zone,
        )

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> RunQuery:
        """Read a filter as a bulk action stores it."""
        named = {_NAMES.get(key, key): value for key, value in kept.items()}
        pairs = [(key, value) for key in KEYS if key in named for value in _texts(named[key])]
        return cls(tuple(pairs), named.get("dead") is True, named.get("system") is True)

    def with_text(self, text: str, jobs: Collection[str] | None = None) -> RunQuery:
        """Add typed text: `job:send state:failed`; a bare word is a job's name, or if no job has
        it, part of the payload or the error."""
        parts = list(self.parts)
        for key, value in read_words(text, KEYS):
            bare = "job" if jobs is None or value in jobs else "text"
            parts = self._added(parts, key or bare, value)
        return RunQuery(tuple(parts), self.dead, self.system, zone=self.zone)

    def _added(
        self, parts: Sequence[tuple[str, str]], key: str, value: str
    ) -> list[tuple[str, str]]:
        """Add a part. A run has one job, queue, tenant …: another value replaces the first."""
        kept = [one for one in parts if one != (key, value) and (key in _SEVERAL or one[0] != key)]
        return [*kept, (key, value)]

    def plus(self, key: str, value: str) -> str:
        return self.path(self._added(self.parts, key, value))

    @property
    def filters(self) -> RunFilters:
        found: Any = {"dead": self.dead, "system": self.system}
        states = [value for key, value in self.parts if key == "state"]
        for key, value in self.parts:
            if key in TIMES:
                found[key] = read_moment(key, value, self.zone)
            elif key not in _SEVERAL:
                found |= _value(key, value)
        if states:
            found["states"] = states
        if fields := dict(_field(value) for key, value in self.parts if key == "payload"):
            found["payload_fields"] = fields
        chosen: RunFilters = found
        return chosen

    @property
    def narrows(self) -> bool:
        return not RunFilter.of(self.filters).is_empty

    @property
    def reads_payloads(self) -> bool:
        return any(key in ("text", "payload") for key, _ in self.parts)

    @property
    def state(self) -> str | None:
        """The selected tab, if the filter has one state."""
        states = [value for key, value in self.parts if key == "state"]
        return states[0] if len(states) == 1 and states[0] in RUN_STATES else None

    @property
    def tokens(self) -> list[Token]:
        found = [Token(*_words(key, value), self._without(key, value)) for key, value in self.parts]
        if self.dead:
            found.append(Token("only", "dead letters", self.path(dead=False)))
        if self.system:
            found.append(Token("with", "Rota’s own", self.path(system=False)))
        return found

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter as fields of a form."""
        pairs = list(self.parts)
        if self.dead:
            pairs.append(("dead", "1"))
        if self.system:
            pairs.append(("system", "1"))
        return pairs

    def _without(self, key: str, value: str) -> str:
        return self.path([part for part in self.parts if part != (key, value)])

    def tab(self, state: str | None) -> str:
        """Return the address with another state, or with all states."""
        rest = [part for part in self.parts if part[0] != "state"]
        return self.path([*rest, *([("state", state)] if state else [])], dead=False)

    @property
    def dead_tab(self) -> str:
        return self.path([part for part in self.parts if part[0] != "state"], dead=True)

    def path(
        self,
        parts: Sequence[tuple[str, str]] | None = None,
        *,
        dead: bool | None = None,
        system: bool | None = None,
        cursor: int | None = None,
    ) -> str:
        pairs = list(self.parts if parts is None else parts)
        if self.dead if dead is None else dead:
            pairs.append(("dead", "1"))
        if self.system if system is None else system:
            pairs.append(("system", "1"))
        if cursor is not None:
            pairs.append(("cursor", str(cursor)))
        return address("/runs", pairs)


def _texts(value: Any) -> list[str]:
    """Return one part of a stored filter as the values of the address."""
    match value:
        case dict():
            return [f"{name}:{text}" for name, text in value.items()]
        case list():
            return [str(text) for text in value]
        case bool():
            return ["yes" if value else "no"]
    return [str(value)]


def _value(key: str, value: str) -> dict[str, Any]:
    match key:
        case "worker":
            if not value.isdecimal() or len(value) > 18:
                raise FilterError(f"invalid worker {value!r}", hint="write the number of a worker")
            return {"worker": int(value)}
        case "handled":
            if value not in ("yes", "no"):
                raise FilterError(f"invalid value {value!r} for handled", hint="write yes or no")
            return {"handled": value == "yes"}
        case "group":
            return {"error_group": value}
    return {key: value}


def _field(value: str) -> tuple[str, str]:
    name, sign, wanted = value.replace("=", ":", 1).partition(":")
    if not name or not sign:
        raise FilterError(
            f"invalid payload filter {value!r}", hint="write a field and its value: order_id:7"
        )
    return name, wanted


def _words(key: str, value: str) -> tuple[str, str]:
    """Return a part in words, if its name alone says too little."""
    if key not in TIMES:
        return key, value
    is_span, what = read_span(value) is not None, "ended" if key.startswith("ended") else "created"
    if key.endswith("since"):
        return what, f"in the last {value}" if is_span else f"since {value}"
    return what, f"before {value}{' ago' if is_span else ''}"
