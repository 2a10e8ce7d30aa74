"""Which runs: the filters that lists and bulk actions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict

from rota.errors import FilterError
from rota.model.run import RunInfo

OPEN_STATES = ("blocked", "scheduled", "queued", "running")
ENDED_STATES = ("succeeded", "failed", "cancelled")
STATES = OPEN_STATES + ENDED_STATES
# Those of one index; which of them is common, it does not say.
_BAD_STATES = ("failed", "cancelled")


class RunFilters(TypedDict, total=False):
    """What `app.runs.list` and the bulk actions take, for type checkers."""

    states: Sequence[str] | None
    job: str | None
    queue: str | None
    tenant: str | None
    tag: str | None
    key: str | None
    schedule: str | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None
    dead: bool | None
    system: bool | None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Every part narrows; None narrows nothing. Times are of the creation, `until` exclusive;
    a timedelta counts back from now, by the database's clock. Runs of Rota's housekeeping are left
    out, unless `system` or a name of it asks for them."""

    states: tuple[str, ...] | None = None
    job: str | None = None
    queue: str | None = None
    tenant: str | None = None
    tag: str | None = None
    key: str | None = None
    schedule: str | None = None
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    dead: bool = False
    system: bool = False

    @classmethod
    def of(cls, given: RunFilters) -> Self:
        """FilterError if it says something that no run can be asked for."""
        values: dict[str, Any] = {key: it for key, it in given.items() if it is not None}
        for name in values:
            if name not in cls.__dataclass_fields__:
                raise FilterError(f"runs have no filter {name}", hint=f"there are {cls._names()}")
        if "states" in values:
            values["states"] = _check_states(values["states"])
        return cls(**values)

    @classmethod
    def _names(cls) -> str:
        return ", ".join(cls.__dataclass_fields__)

    @property
    def is_empty(self) -> bool:
        return replace(self, system=False) == RunFilter()

    @property
    def shows_system(self) -> bool:
        return self.system or any((self.job, self.queue, self.schedule))

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds the next run at once, however rare it is. Else the search goes
        on in portions, so that it can be stopped."""
        parts = [self.key, self.tenant, self.schedule, self.states or self.dead or None]
        if self.job or self.queue or self.tag or sum(it is not None for it in parts) > 1:
            return False
        return not self.dead and (self.states is None or set(self.states) == {*_BAD_STATES})

    @property
    def wanted_states(self) -> list[str] | None:
        if self.dead:
            return ["failed"] if self.states is None or "failed" in self.states else []
        return None if self.states is None else list(self.states)

    def or_states(self, states: tuple[str, ...]) -> RunFilter:
        """The same, narrowed to these states where it names none."""
        return self if self.states or self.dead else replace(self, states=states)


@dataclass(frozen=True, slots=True)
class RunPage:
    """Part of a list. `cursor` leads to the next part; None: there is no more. A search that ran
    out of time has fewer runs than asked for, and a cursor; `searched_to` says how far it came."""

    runs: list[RunInfo]
    cursor: int | None
    searched_to: datetime | None = None


def _check_states(given: Sequence[str]) -> tuple[str, ...]:
    states = (given,) if isinstance(given, str) else tuple(given)
    for state in states:
        if state not in STATES:
            raise FilterError(f"{state!r} is no state", hint=f"there are {', '.join(STATES)}")
    return states
