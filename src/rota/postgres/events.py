"""Emits and reads events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from rota.errors import EventNotFound, WatchNotFound
from rota.model.event import BindingInfo, EventFilters, EventInfo
from rota.model.exclusion import read_exclusions
from rota.model.field_values import past_instant
from rota.model.fields import Moment
from rota.model.nearest import listed
from rota.model.page import PAGE_BYTES, Page
from rota.model.table_watch import Received, Refusal, Replayed, WatchInfo
from rota.postgres.audit import act_as, write_audit
from rota.postgres.clock import read_clock
from rota.postgres.pages import excluded, like, read_page
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.queries import Query, each

_FILTERS = ("id", "tenant", "name", "pattern", "key", "job", "outcome", "text")
# Up to this many tenants, a name is looked up in each, because the key of events begins with the
# tenant.
_FEW_TENANTS = 100


class EmittedRun(NamedTuple):
    """A run that an event has started, or an existing one. If nothing was started, a single entry
    has only the event's id."""

    run: int | None
    job: str | None
    is_duplicate: bool | None
    event_id: int


def emit(params: Mapping[str, Any]) -> Query[list[EmittedRun]]:
    return Query("events/emit", params, each(EmittedRun._make))


def emit_event(
    params: Mapping[str, Any], *, actor: str | None, reason: str | None = None
) -> Plan[Rows]:
    """Emit an event and record it in the audit. Return the run, the job and whether it is a
    duplicate, for each job bound to the event; one row without a run if nothing was started."""
    yield from act_as(actor)
    rows = yield Execute("events/emit", dict(params))
    after = {
        "event_id": rows[0]["event_id"],
        "payload": json.loads(params["payload"]),
        "key": params["key"],
        "runs": [row["run_id"] for row in rows if row["run_id"] and not row["is_duplicate"]],
    }
    yield from write_audit(
        actor,
        "event.emitted",
        "event",
        params["event"],
        after=after,
        reason=reason,
        tenant=params["tenant"],
    )
    return rows


def receive_event(params: Mapping[str, Any]) -> Plan[Received]:
    rows = yield Execute("events/emit", dict(params))
    found = yield from find_event(rows[0]["event_id"])
    return Received(found.id, found.duplicate_of is not None)


def page_events(
    *,
    order: str = "newest",
    cursor: Sequence[Any] | None = None,
    limit: int = 50,
    value_bytes: int | None = None,
    **filters: Unpack[EventFilters],
) -> Plan[Page[EventInfo]]:
    now = yield from read_clock()
    params = dict.fromkeys(_FILTERS) | _wanted(filters)
    params["since"] = past_instant(filters.get("since"), now)
    params["until"] = past_instant(filters.get("until"), now)
    tenants = (yield from _few_tenants()) if _is_by_name(params) else None
    statement = "events/list" if tenants is None else "events/list_named"
    if order == "oldest":
        statement += "_oldest"
    params |= {"tenants": tenants, "value_bytes": value_bytes}
    return (
        yield from read_page(
            statement,
            params,
            EventInfo,
            order=order,
            cursor=cursor,
            limit=limit,
            most_bytes=None if value_bytes is None else PAGE_BYTES,
        )
    )


def _is_by_name(params: Mapping[str, Any]) -> bool:
    return params["name"] is not None and params["tenant"] is None


def _few_tenants() -> Plan[list[str] | None]:
    """Return the tenants that have events; None if there are too many to look up a name in each."""
    rows = yield Execute("events/tenants", {})
    found = list(rows[0]["tenants"])
    return found if len(found) <= _FEW_TENANTS else None


def _wanted(filters: EventFilters) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: wanted
        for key, wanted in filters.items()
        if wanted is not None and key not in ("since", "until")
    }
    if "*" in found.get("name", ""):
        found["pattern"] = found.pop("name")
    texts = found.pop("text", None)
    words = [texts] if isinstance(texts, str) else texts
    found["texts"] = [like(text) for text in words] if words else None
    return found | excluded(read_exclusions(found.pop("exclude", None), EventFilters))


def find_event(event_id: int) -> Plan[EventInfo]:
    params = dict.fromkeys((*_FILTERS, "since", "until", "value_bytes")) | _wanted({})
    params |= {"id": event_id}
    found = yield from read_page(
        "events/list", params, EventInfo, order="newest", cursor=None, limit=1
    )
    if not found.items:
        raise EventNotFound(f"there is no event {event_id}; it may be past its retention")
    return found.items[0]


def list_bindings(event: str | None = None, job: str | None = None) -> Plan[list[BindingInfo]]:
    rows = yield Execute("events/bindings", {"event": event, "job": job})
    return [BindingInfo(**row) for row in rows]


def list_watches() -> Plan[list[WatchInfo]]:
    rows = yield Execute("events/watches", {"id": None})
    return [WatchInfo(**row) for row in rows]


def find_watch(watch: int) -> Plan[WatchInfo]:
    rows = yield Execute("events/watches", {"id": watch})
    if not rows:
        raise WatchNotFound(f"there is no watch {watch}", hint=listed("watches"))
    return WatchInfo(**rows[0])


def replay_events(
    job: str,
    *,
    since: Moment | None,
    until: Moment | None,
    **params: Any,
) -> Plan[Replayed]:
    now = yield from read_clock()
    asked = params | {"job": job}
    asked |= {"since": past_instant(since, now), "until": past_instant(until, now)}
    (row,) = yield Execute("events/replay", asked)
    return Replayed(**row, is_dry_run=bool(params["dry_run"]))


def page_refusals(
    hook: str | None, *, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[Refusal]]:
    return read_page(
        "events/refusals", {"hook": hook}, Refusal, order="newest", cursor=cursor, limit=limit
    )
