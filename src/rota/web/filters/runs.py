"""The filter of the list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rota.model.run_filter import RunFilter, RunFilters
from rota.model.states import RUN_STATES
from rota.web.filters.list_query import ListQuery, Part

# Switches, as the page says them.
_SWITCHES = {"dead": ("only", "dead letters"), "system": ("with", "Rota’s own")}


class RunQuery(ListQuery):
    __slots__ = ()
    PLACE = "/runs"
    FILTERS: ClassVar = RunFilters

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> RunQuery:
        """Read a filter as a bulk action stores it."""
        known = {one.name: one.word for one in cls.words().values()}
        parts = [Part(known[name], text) for name in known for text in _texts(kept.get(name))]
        for text in kept.get("exclude", ()):
            word, _, value = text.partition(":")
            parts.append(Part(word, value, is_not=True))
        return cls(tuple(parts))

    @property
    def after(self) -> int | None:
        """The run after which the page begins."""
        text = self.cursor or ""
        return int(text) if text.isdecimal() and len(text) < 19 else None

    @property
    def dead(self) -> bool:
        return bool(self.filters.get("dead"))

    @property
    def narrows(self) -> bool:
        return not RunFilter.of(self.filters).is_empty

    @property
    def reads_payloads(self) -> bool:
        return RunFilter.of(self.filters).reads_payloads

    @property
    def state(self) -> str | None:
        """The selected tab, if the filter has one state."""
        states = self.filters.get("states", ())
        return states[0] if len(states) == 1 and states[0] in RUN_STATES else None

    def tab(self, state: str | None) -> str:
        """Return the address with another state, or with all states."""
        return self.path(state=state, dead=None)

    @property
    def dead_tab(self) -> str:
        return self.path(state=None, dead="yes")

    def _shown(self, part: Part) -> tuple[str, str]:
        is_on = part.word in _SWITCHES and self._value(part)
        return _SWITCHES[part.word] if is_on else super()._shown(part)


def _texts(value: Any) -> list[str]:
    """Return one part of a stored filter as the values of the address."""
    match value:
        case None:
            return []
        case dict():
            return [f"{name}={text}" for name, text in value.items()]
        case list():
            return [str(text) for text in value]
        case bool():
            return ["yes" if value else "no"]
    return [str(value)]
