"""The filter of the list of runs: the address is the filter, and every part of it is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rota.errors import FilterError
from rota.model.run_filter import STATES, RunFilters
from rota.web.forms import read_span

# What can be asked for by name, in the order in which it is shown.
KEYS = ("state", "job", "queue", "tag", "tenant", "key", "schedule", "since", "until")
_WORD = re.compile(r'(\w+):("[^"]*"|\S+)|"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class Token:
    """One part of the filter, and the address without it."""

    key: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class RunQuery:
    """What the address asks for. `cursor` is where the page begins."""

    parts: tuple[tuple[str, str], ...] = ()
    dead: bool = False
    system: bool = False
    cursor: int | None = None

    @classmethod
    def read(cls, given: QueryParams) -> RunQuery:
        cursor = given.get("cursor", "")
        return cls(
            parts=tuple((key, value) for key in KEYS for value in given.getlist(key) if value),
            dead=given.get("dead") == "1",
            system=given.get("system") == "1",
            cursor=int(cursor) if cursor.isdecimal() and len(cursor) < 19 else None,
        )

    def with_text(self, text: str) -> RunQuery:
        """With what somebody typed: `job:send state:failed`; a bare word is a job's name."""
        parts = list(self.parts)
        for key, value, quoted, word in _WORD.findall(text):
            if key and key not in KEYS:
                raise FilterError(f"runs have no filter {key}", hint=f"there are {', '.join(KEYS)}")
            parts.append((key or "job", (value or quoted or word).strip('"')))
        return RunQuery(tuple(dict.fromkeys(parts)), self.dead, self.system)

    @property
    def filters(self) -> RunFilters:
        found: Any = {"dead": self.dead, "system": self.system}
        states = [value for key, value in self.parts if key == "state"]
        for key, value in self.parts:
            if key in ("since", "until"):
                found[key] = _age(key, value)
            elif key != "state":
                found[key] = value
        if states:
            found["states"] = states
        chosen: RunFilters = found
        return chosen

    @property
    def state(self) -> str | None:
        """The tab, if the filter is about one state."""
        states = [value for key, value in self.parts if key == "state"]
        return states[0] if len(states) == 1 and states[0] in STATES else None

    @property
    def tokens(self) -> list[Token]:
        found = [Token(key, value, self._without(key, value)) for key, value in self.parts]
        if self.dead:
            found.append(Token("only", "dead letters", self.path(dead=False)))
        if self.system:
            found.append(Token("with", "Rota’s own", self.path(system=False)))
        return found

    def _without(self, key: str, value: str) -> str:
        return self.path([part for part in self.parts if part != (key, value)])

    def tab(self, state: str | None) -> str:
        """The same filter with another state, or with all."""
        rest = [part for part in self.parts if part[0] != "state"]
        return self.path([*rest, *([("state", state)] if state else [])], dead=False)

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
        return f"/runs?{urlencode(pairs)}" if pairs else "/runs"


def _age(key: str, value: str) -> timedelta:
    """How far back."""
    found = read_span(value)
    if found is None:
        raise FilterError(f"{key} is {value!r}", hint="write how far back: 90s, 15min, 24h, 7d")
    return found
