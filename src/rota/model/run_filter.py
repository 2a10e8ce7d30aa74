"""Which runs: the filters that lists and bulk actions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict

from rota.errors import FilterError
from rota.model.run import RunInfo
from rota.model.states import END_STATES, RETRIABLE_STATES, RUN_STATES


class RunFilters(TypedDict, total=False):
    """What `app.runs.list` and the bulk actions take, for type checkers."""

    states: Sequence[str] | None
    state: str | Sequence[str] | None  # the same, as the API and the command line call it
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
    """Every part narrows; None narrows nothing. Times are of the creation, those of the end say so,
    the later one exclusive; a timedelta counts back from now, by the database's clock. `text` is
    part of the payload, of the last error or of its type, `error` of the latter two;
    `payload_fields` are names (`customer.id`) with values, compared as text. `dead` are those that
    failed for good, `handled` those of them that somebody has seen to, or nobody. Runs of Rota's
    housekeeping are left out, unless `system` or a name of it asks for them."""

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
        """FilterError if it says something that no run can be asked for."""
        values: dict[str, Any] = {key: it for key, it in given.items() if it is not None}
        if "state" in values:
            if "states" in values:
                raise FilterError("state and states are the same; give one of them")
            one = values.pop("state")
            values["states"] = [one] if isinstance(one, str) else one
        for name in values:
            if name not in cls.__dataclass_fields__:
                raise FilterError(f"unknown filter {name}", hint=f"choose from {cls._names()}")
        if "states" in values:
            values["states"] = _check_states(values["states"])
        if "payload_fields" in values:
            values["payload_fields"] = _check_fields(values["payload_fields"])
        return cls(**values)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """As `as_json` wrote it, perhaps by another release: FilterError for what this one does
        not know, as leaving it out would fit more runs."""
        values: Any = {
            name: datetime.fromisoformat(value) if _is_time(cls, name) else value
            for name, value in given.items()
        }
        return cls.of(values)

    def as_json(self) -> dict[str, Any]:
        """What narrows. Times are instants."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
            if value != self.__dataclass_fields__[name].default
        }

    @classmethod
    def _names(cls) -> str:
        return ", ".join(cls.__dataclass_fields__)

    @property
    def is_empty(self) -> bool:
        return replace(self, system=False) == RunFilter()

    @property
    def shows_system(self) -> bool:
        return self.system or any((self.job, self.queue, self.schedule, self.error_group))

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds the next run at once, however rare it is. Else the search goes
        on in portions, so that it can be stopped."""
        states = self.wanted_states
        if self.error_group is not None:
            # Few of a group ended otherwise.
            others = replace(self, error_group=None, states=None, dead=False)
            return others.is_empty and (states is None or "failed" in states)
        parts = [self.key, self.tenant, self.schedule, states]
        if self._is_searched or sum(it is not None for it in parts) > 1:
            return False
        return states is None or set(states) in ({*RETRIABLE_STATES}, {"failed"})

    @property
    def _is_searched(self) -> bool:
        """By something that no index knows."""
        parts = (self.job, self.queue, self.tag, self.error, self.worker)
        times = (self.ended_since, self.ended_until, self.handled)
        return self.reads_payloads or any(it is not None for it in (*parts, *times))

    @property
    def reads_payloads(self) -> bool:
        """Whether whole payloads are looked at, which may be large."""
        return self.text is not None or self.payload_fields is not None

    @property
    def wanted_states(self) -> list[str] | None:
        if self.dead or self.handled is not None:
            return ["failed"] if self.states is None or "failed" in self.states else []
        if self.states is None and (self.ended_since or self.ended_until) is not None:
            return list(END_STATES)
        return None if self.states is None else list(self.states)

    def or_states(self, states: tuple[str, ...]) -> RunFilter:
        """The same, narrowed to these states where it names none."""
        is_narrow = self.states or self.dead or self.handled is not None
        return self if is_narrow else replace(self, states=states)


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
        if state not in RUN_STATES:
            raise FilterError(
                f"unknown state {state!r}", hint=f"choose from {', '.join(RUN_STATES)}"
            )
    return states


def _check_fields(given: Any) -> dict[str, Any] | None:
    if not isinstance(given, Mapping) or any(not isinstance(it, str) or not it for it in given):
        raise FilterError(
            "payload_fields must map fields to values", hint='for example {"customer.id": 7}'
        )
    return dict(given) or None


def _is_time(cls: type[RunFilter], name: str) -> bool:
    field = cls.__dataclass_fields__.get(name)
    return field is not None and "datetime" in str(field.type)
