"""The filters of runs that lists and bulk actions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict

from rota.errors import FilterError
from rota.model.run import RunInfo
from rota.model.states import END_STATES, RETRIABLE_STATES, RunState, wanted_states


class RunFilters(TypedDict, total=False):
    """Filters of `app.runs.list` and of bulk actions, for type checkers."""

    states: Sequence[str] | None
    state: str | Sequence[str] | None  # another name, as in the API and the command line
    job: str | None
    queue: str | None
    tenant: str | None
    tag: str | None
    key: str | None
    schedule: str | None
    worker: int | None
    text: str | None
    error: str | None
    error_group: str | None
    payload_fields: Mapping[str, Any] | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None
    ended_since: datetime | timedelta | None
    ended_until: datetime | timedelta | None
    dead: bool | None
    handled: bool | None
    system: bool | None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs: all that match every given filter. `since` and `until` are times of the creation,
    `ended_since` and `ended_until` of the end; the upper bound is exclusive, and a timedelta counts
    back from now, by the database's clock. `text` is part of the payload, of the last error or of
    its type, `error` only of the latter two; `payload_fields` are names (`customer.id`) with
    values, compared as text. `dead`: only runs that failed permanently; `handled`: only those of
    them that are marked as handled (True) or not (False). Runs of Rota's own jobs are omitted,
    unless `system` is set or a job, queue, schedule or error group is given."""

    states: tuple[str, ...] | None = None
    job: str | None = None
    queue: str | None = None
    tenant: str | None = None
    tag: str | None = None
    key: str | None = None
    schedule: str | None = None
    worker: int | None = None
    text: str | None = None
    error: str | None = None
    error_group: str | None = None
    payload_fields: Mapping[str, Any] | None = None
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    ended_since: datetime | timedelta | None = None
    ended_until: datetime | timedelta | None = None
    dead: bool = False
    handled: bool | None = None
    system: bool = False

    @classmethod
    def of(cls, given: RunFilters) -> Self:
        """Raise FilterError for a value that no run can have."""
        for name in given:
            if name not in RunFilters.__annotations__:
                there = ", ".join(RunFilters.__annotations__)
                raise FilterError(f"unknown filter {name}", hint=f"choose from {there}")
        values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        states = wanted_states(values.pop("state", None), values.pop("states", None), RunState)
        if states is not None:
            values["states"] = states
        if "payload_fields" in values:
            values["payload_fields"] = _check_fields(values["payload_fields"])
        return cls(**values)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """Read what `as_json` wrote, perhaps in another release: raise FilterError for unknown
        filters, because ignoring them would match more runs."""
        values: Any = {
            name: datetime.fromisoformat(value) if _is_time(cls, name) else value
            for name, value in given.items()
        }
        return cls.of(values)

    def as_json(self) -> dict[str, Any]:
        """Return the filters that are set. Times are instants."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
            if value != self.__dataclass_fields__[name].default
        }

    @property
    def is_empty(self) -> bool:
        return replace(self, system=False) == RunFilter()

    @property
    def shows_system(self) -> bool:
        return self.system or any((self.job, self.queue, self.schedule, self.error_group))

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds the next run at once, however rare it is. Otherwise the search
        continues in batches, so that it can be stopped."""
        states = self.wanted_states
        if self.error_group is not None:
            # Only few runs of a group ended in another state.
            others = replace(self, error_group=None, states=None, dead=False)
            return others.is_empty and (states is None or "failed" in states)
        parts = [self.key, self.tenant, self.schedule, states]
        if self._is_searched or sum(part is not None for part in parts) > 1:
            return False
        return states is None or set(states) in ({*RETRIABLE_STATES}, {"failed"})

    @property
    def _is_searched(self) -> bool:
        """Whether the filter needs a value that no index has."""
        parts = (self.job, self.queue, self.tag, self.error, self.worker)
        times = (self.ended_since, self.ended_until, self.handled)
        return self.reads_payloads or any(part is not None for part in (*parts, *times))

    @property
    def reads_payloads(self) -> bool:
        """Whether whole payloads are read, which may be large."""
        return self.text is not None or self.payload_fields is not None

    @property
    def wanted_states(self) -> list[str] | None:
        if self.dead or self.handled is not None:
            return ["failed"] if self.states is None or "failed" in self.states else []
        if self.states is None and (self.ended_since or self.ended_until) is not None:
            return list(END_STATES)
        return None if self.states is None else list(self.states)

    def or_states(self, states: tuple[str, ...]) -> RunFilter:
        """Return the filter, narrowed to these states if it has none."""
        is_narrow = self.states or self.dead or self.handled is not None
        return self if is_narrow else replace(self, states=states)


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of a list. `cursor` leads to the next page; None if there is none. A search that
    reached its time limit has fewer runs than requested, and a cursor; `searched_to` says how far
    it got."""

    runs: list[RunInfo]
    cursor: int | None
    searched_to: datetime | None = None


def _check_fields(given: Any) -> dict[str, Any] | None:
    if not isinstance(given, Mapping) or any(not isinstance(it, str) or not it for it in given):
        raise FilterError(
            "payload_fields must map fields to values", hint='for example {"customer.id": 7}'
        )
    return dict(given) or None


def _is_time(cls: type[RunFilter], name: str) -> bool:
    field = cls.__dataclass_fields__.get(name)
    return field is not None and "datetime" in str(field.type)
