"""Reads schedules, with their timing in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Unpack

from rota.errors import FilterError, TimingError
from rota.model.list_filters import ScheduleFilters, ScheduleOrder
from rota.model.page import LISTED_BYTES, Page
from rota.model.planned import Planned
from rota.model.schedule import timing_arguments
from rota.model.schedule_info import ScheduleInfo
from rota.model.states import ScheduleState, wanted_states
from rota.model.strip import Strip, strip_of
from rota.postgres.clock import read_clock
from rota.postgres.pages import (
    check_filters,
    check_order,
    page_of,
    read_all,
    read_page,
    read_rows,
    wanted_metadata,
)
from rota.postgres.plans import Execute, Plan
from rota.timing.breath import breathing
from rota.timing.describe import describe
from rota.timing.timing import Timing

_TIMING = (
    "cron",
    "interval_seconds",
    "run_at",
    "timezone",
    "gap",
    "fold",
    "start_at",
    "end_at",
    "has_seconds",
    "anchor_at",
)
_STRIP_DAYS = 31
MOST_COUNTED = 20_000
_INITS = {
    "once": "once ever, at the first start",
    "release": "once for each release",
    "start": "whenever the first worker starts",
}


def timing_of(stored: Mapping[str, Any]) -> Timing:
    """Return the timing of a row; other columns are ignored."""
    return Timing.of(**timing_arguments({name: stored.get(name) for name in _TIMING}))


def in_words(stored: Mapping[str, Any]) -> str:
    """Describe when a schedule runs; a timing that cannot be read is shown as written."""
    if stored["init"] is not None:
        return _INITS.get(stored["init"], str(stored["init"]))
    try:
        words = describe(timing_of(stored))
    except TimingError:
        return str(stored["cron"] or stored["timezone"])
    is_from_end = stored["every_from"] == "end"
    return f"{words}, counted from the end of the last run" if is_from_end else words


def _make(**row: Any) -> ScheduleInfo:
    return ScheduleInfo(timing=in_words(row), **row)


def list_schedules(
    *, order: str = "name", **filters: Unpack[ScheduleFilters]
) -> Plan[list[ScheduleInfo]]:
    """Return all schedules that match."""
    params = yield from _wanted(filters)
    if check_order(order, ScheduleOrder) == "name":
        return (yield from read_all("schedules/list", params, _make))
    ids = yield from read_all("schedules/sort", params, _id, order=order)
    return (yield from _in_order(ids))


def page_schedules(
    *, order: str, cursor: Sequence[Any] | None, limit: int, **filters: Unpack[ScheduleFilters]
) -> Plan[Page[ScheduleInfo]]:
    """Return a page of schedules. Ordered by name, an index finds the page; otherwise all matches
    are sorted."""
    params = (yield from _wanted(filters)) | {"value_bytes": LISTED_BYTES}
    if check_order(order, ScheduleOrder) == "name":
        return (
            yield from read_page(
                "schedules/list", params, _make, order=order, cursor=cursor, limit=limit
            )
        )
    rows = yield from read_rows(
        "schedules/sort", params, _id, order=order, cursor=cursor, limit=limit
    )
    ids = [schedule_id for _, schedule_id in rows[:limit]]
    found = {info.id: info for info in (yield from _in_order(ids, LISTED_BYTES))}
    page = page_of([(place, found.get(schedule_id)) for place, schedule_id in rows], limit)
    return Page([info for info in page.items if info is not None], page.cursor)


def named(name: str, tenant: str) -> Plan[ScheduleInfo | None]:
    params = _filters({"system": True, "tenant": tenant}) | {"name": name}
    found = yield from read_all("schedules/list", params, _make)
    return found[0] if found else None


def read_strips(ids: Sequence[int], limit: int) -> Plan[dict[int, Strip]]:
    """Return the last decisions of some schedules, by id."""
    until = yield from read_clock()
    since = until - timedelta(days=_STRIP_DAYS)
    params = {"ids": list(ids), "since": since, "until": until, "limit": limit}
    rows = yield Execute("schedules/strips", params)
    return {
        row["id"]: strip_of(list(zip(row["decisions"], row["reasons"], row["states"], strict=True)))
        for row in rows
    }


def count_states(filters: ScheduleFilters) -> Plan[dict[str, int]]:
    """Count the schedules in each state, ignoring a filter on states; at most MOST_COUNTED."""
    params = (yield from _wanted(filters)) | {"states": None, "most": MOST_COUNTED}
    yield Execute("session/plan_by_values", {"is_local": True})
    rows = yield Execute("schedules/counts", params)
    return {row["state"]: row["count"] for row in rows}


def read_planned(filters: ScheduleFilters) -> Plan[list[Planned]]:
    """Return the schedules that have future times."""
    params = yield from _wanted(filters)
    yield Execute("session/plan_by_values", {"is_local": True})
    rows = yield Execute("schedules/planned", params)
    return [Planned(**row) for row in breathing(rows)]


def place_of(schedule_id: int) -> Plan[tuple[str, str]]:
    """Return the place where a page after this schedule begins, in the order of names."""
    rows = yield Execute("schedules/place", {"id": schedule_id})
    if not rows:
        raise FilterError(
            f"schedule {schedule_id} no longer exists: start again with the first page"
        )
    return rows[0]["tenant"], rows[0]["name"]


def _in_order(ids: Sequence[int], value_bytes: int | None = None) -> Plan[list[ScheduleInfo]]:
    params = _filters({"system": True}) | {"ids": list(ids), "value_bytes": value_bytes}
    found = {info.id: info for info in (yield from read_all("schedules/list", params, _make))}
    return [found[schedule_id] for schedule_id in ids if schedule_id in found]


def _id(**row: int) -> int:
    return row["id"]


def _wanted(given: ScheduleFilters) -> Plan[dict[str, Any]]:
    params = _filters(given)
    if not given.get("attention"):
        return params
    rows = yield Execute("attention/schedules", {})
    return params | {"ids": [row["id"] for row in rows], "system": True}


def _filters(given: ScheduleFilters) -> dict[str, Any]:
    check_filters(given, ScheduleFilters, "schedules")
    states = wanted_states(given.get("state"), given.get("states"), ScheduleState)
    return {
        "ids": None,
        "name": None,
        "value_bytes": None,
        "system": given.get("system", False),
        "job": given.get("job"),
        "queue": given.get("queue"),
        "tag": given.get("tag"),
        "tenant": given.get("tenant"),
        "states": None if states is None else list(states),
        "text": given.get("text"),
        "calendar": given.get("calendar"),
        "metadata": wanted_metadata(given.get("metadata")),
    }
