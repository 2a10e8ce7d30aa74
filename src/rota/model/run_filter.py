"""The filters of runs that lists and bulk actions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Self, TypedDict

from rota.errors import FilterError, InputError
from rota.model.asked import BIGGEST_ID, OfJob, OfQueue, OfTenant
from rota.model.exclusion import Exclude, read_exclusions
from rota.model.fields import Field, Moment, Plain, settings_of
from rota.model.run import RunInfo
from rota.model.states import END_STATES, RETRIABLE_STATES, RUN_STATES


class RunFilters(TypedDict, total=False):
    """Filters of lists of runs and of bulk actions."""

    states: Annotated[
        str | Sequence[str] | None,
        Field(
            "Filter by state.",
            "failed",
            "State",
            short="state",
            metavar="STATE",
            choices=dict.fromkeys(RUN_STATES, ""),
        ),
    ]
    state: str | Sequence[str] | None  # another name of `states`, for Python
    job: OfJob
    queue: OfQueue
    tenant: OfTenant
    tag: Annotated[str | None, Field("Filter by tag.", "vip", longest=100, metavar="TAG")]
    key: Annotated[
        str | None, Field("Filter by idempotency key.", "order-7", longest=400, metavar="KEY")
    ]
    schedule: Annotated[
        str | None,
        Field(
            "Only runs of this schedule, including manual runs and backfills.",
            "digest",
            metavar="NAME",
        ),
    ]
    worker: Annotated[
        int | None,
        Field(
            "Only runs whose current or last worker is this one.",
            3,
            least=0,
            most=BIGGEST_ID,
            metavar="ID",
        ),
    ]
    text: Annotated[
        str | Sequence[str] | None,
        Field(
            "Text in the payload, the last error or its type; all of them if there are several.",
            "refused",
            shortest=1,
            longest=400,
            metavar="TEXT",
        ),
    ]
    error: Annotated[
        str | None,
        Field("Text in the last error or its type.", "refused", shortest=1, longest=400),
    ]
    error_group: Annotated[
        str | None,
        Field(
            "Only runs whose last error belongs to this error group.",
            "5f0c…",
            longest=40,
            metavar="ID",
            short="group",
        ),
    ]
    payload_fields: Annotated[
        Mapping[str, Plain] | None,
        Field(
            "A field of the payload and its value, e.g. customer.id:7.",
            {"customer.id": 7},
            "Payload",
            short="payload-field",
            word="payload",
            metavar="FIELD:VALUE",
        ),
    ]
    since: Annotated[
        Moment | None, Field("Created at this time or later: a time, or how long ago.", "24h")
    ]
    until: Annotated[
        Moment | None, Field("Created before this time: a time, or how long ago.", "1h")
    ]
    ended_since: Annotated[
        Moment | None, Field("Finished at this time or later: a time, or how long ago.", "24h")
    ]
    ended_until: Annotated[
        Moment | None, Field("Finished before this time: a time, or how long ago.", "1h")
    ]
    dead: Annotated[bool | None, Field("Only dead letters: runs that failed permanently.", True)]
    handled: Annotated[
        bool | None, Field("Only dead letters that are handled (true), or not (false).", False)
    ]
    system: Annotated[bool | None, Field("Include runs of Rota's own jobs.", True)]
    exclude: Exclude


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs: all that match every given filter and none of `exclude`. `since` and `until` are
    times of the creation, `ended_since` and `ended_until` of the end; the upper bound is exclusive,
    and a timedelta counts back from now, by the database's clock. `payload_fields` are names
    (`customer.id`) with values, compared as text. Runs of Rota's own jobs are omitted, unless
    `system` is set or a job, queue, schedule or error group is given."""

    states: tuple[str, ...] | None = None
    job: str | None = None
    queue: str | None = None
    tenant: str | None = None
    tag: str | None = None
    key: str | None = None
    schedule: str | None = None
    worker: int | None = None
    text: tuple[str, ...] | None = None
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
    exclude: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: RunFilters) -> Self:
        """Raise FilterError for a value that no run can have."""
        known = {one.name: one for one in settings_of(RunFilters)}
        values: dict[str, Any] = {}
        for name, value in _with_one_name(given).items():
            if name not in known:
                raise FilterError(f"unknown filter {name}", hint=f"choose from {', '.join(known)}")
            try:
                read = known[name].read(value)
            except InputError as error:
                raise error.retold(FilterError) from None
            # No state is none of them; nothing else can be asked for by an empty list.
            if read is not None and (name == "states" or read not in ([], {})):
                values[name] = tuple(read) if isinstance(read, list) else read
        values["exclude"] = read_exclusions(values.get("exclude"), RunFilters)
        return cls(**values)

    @classmethod
    def from_json(cls, given: Any) -> Self:
        """Read what `as_json` wrote, perhaps in another release: raise FilterError for unknown
        filters, because ignoring them would match more runs."""
        return cls.of(given)

    def as_json(self) -> dict[str, Any]:
        """Return the filters that are set. Times are instants."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["exclude"] = tuple(f"{name}:{value}" for name, value in self.exclude)
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
        wanted = any(part is not None for part in (*parts, *times))
        return wanted or self.reads_payloads or bool(self.exclude)

    @property
    def reads_payloads(self) -> bool:
        """Whether whole payloads are read, which may be large."""
        is_left_out = any(name in ("text", "payload") for name, _ in self.exclude)
        return self.text is not None or self.payload_fields is not None or is_left_out

    @property
    def reads_errors(self) -> bool:
        """Whether types of errors are compared."""
        is_left_out = any(name in ("text", "error") for name, _ in self.exclude)
        return self.text is not None or self.error is not None or is_left_out

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


def _with_one_name(given: Any) -> dict[str, Any]:
    """The filters, where `state` is another name of `states`."""
    found = dict(given)
    if found.get("state") is not None and found.get("states") is not None:
        raise FilterError("state and states are the same filter; pass only one of them")
    state = found.pop("state", None)
    return found if state is None else found | {"states": state}
