"""Reading schedules and changing them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from rota.errors import ScheduleNotFound
from rota.model.documents import ScheduleDocuments
from rota.model.list_filters import TimeOrder
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import LISTED_BYTES, Page
from rota.model.schedule_edit import Override
from rota.model.schedule_info import ScheduleInfo, Triggered
from rota.model.wording import listed
from rota.store.audit import act_as
from rota.store.pages import check_order, read_page
from rota.store.plans import Ask, Plan, Rows
from rota.store.schedules.lists import named

# Rows of a ledger that one page of exceptions looks at.
MOST_SEARCHED = 20_000


def find_schedule(name: str, tenant: str) -> Plan[ScheduleInfo]:
    found = yield from named(name, tenant)
    if found is None:
        raise (yield from _not_found(name, tenant))
    return found


def find_documents(name: str, tenant: str) -> Plan[ScheduleDocuments]:
    rows = yield Ask("schedules/documents", {"name": name, "tenant": tenant})
    if not rows:
        raise (yield from _not_found(name, tenant))
    return ScheduleDocuments(**rows[0])


def lock_schedule(name: str, tenant: str) -> Plan[ScheduleInfo]:
    """To be changed in this transaction."""
    rows = yield Ask("schedules/lock", {"name": name, "tenant": tenant})
    if not rows:
        raise (yield from _not_found(name, tenant))
    return (yield from find_schedule(name, tenant))


def _not_found(name: str, tenant: str) -> Plan[ScheduleNotFound]:
    known = yield Ask("schedules/names", {"tenant": tenant})
    near = get_close_matches(name, [row["name"] for row in known], 1)
    hint = f"did you mean {near[0]}?" if near else listed("schedules")
    return ScheduleNotFound(f'no schedule is named "{name}"', hint=hint)


def create_schedule(
    name: str, tenant: str, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """False if one of that name exists."""
    yield from act_as(actor)
    params = {"name": name, "tenant": tenant, "columns": _json(columns)}
    return bool((yield Ask("schedules/create", params)))


def put_schedule(
    name: str, tenant: str, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """What code says; fields that an operator has touched stay. Returns whether it wrote."""
    params = {"name": name, "tenant": tenant, "columns": _json(columns), "actor": actor}
    rows = yield Ask("schedules/put", params)
    return bool(rows[0]["is_written"])


def put_schedules(
    wanted: Sequence[tuple[str, str, Mapping[str, Any]]],
    *,
    actor: str | None,
    application: str,
    build: str | None,
    at_start: bool,
    forced: Sequence[str] = (),
) -> Plan[int]:
    """As `put_schedule`, of many by tenant, name and columns: equal columns are sent once. Older
    code than the newest of its application adds what is missing."""
    documents: dict[str, int] = {}
    places = [documents.setdefault(_json(one), len(documents) + 1) for _, _, one in wanted]
    params = {
        "tenants": [tenant for tenant, _, _ in wanted],
        "names": [name for _, name, _ in wanted],
        "places": places,
        "documents": list(documents),
        "actor": actor,
        "application": application,
        "build": build,
        "at_start": at_start,
        "forced": list(forced),
    }
    rows = yield Ask("schedules/put_many", params)
    return int(rows[0]["written"])


def update_schedule(
    schedule_id: int, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """Change the given columns; returns whether anything was written."""
    yield from act_as(actor)
    rows = yield Ask("schedules/update", {"id": schedule_id, "columns": _json(columns)})
    return bool(rows)


def find_overrides(name: str, tenant: str) -> Plan[list[Override]]:
    rows = yield Ask("schedules/overrides", {"name": name, "tenant": tenant})
    return [Override(**row) for row in rows]


def reset_schedule(
    name: str, tenant: str, fields: Sequence[str] | None, *, actor: str | None
) -> Plan[list[str]]:
    """Back to what the code says, of these columns or of all; returns those that were set."""
    given = None if fields is None else list(fields)
    params = {"name": name, "tenant": tenant, "fields": given, "actor": actor}
    rows = yield Ask("schedules/reset", params)
    return list(rows[0]["fields"])


def find_payload_problems(
    wanted: Sequence[tuple[str, Mapping[str, Any] | None]],
) -> Plan[dict[int, str]]:
    """What jobs would not take, by the place in `wanted`: job and payload, None the default one."""
    distinct: dict[tuple[str, str | None], int] = {}
    for place, (job, payload) in enumerate(wanted):
        distinct.setdefault((job, None if payload is None else _json(payload)), place)
    params = {"jobs": [job for job, _ in distinct], "payloads": [it for _, it in distinct]}
    rows = yield Ask("schedules/payload_problems", params)
    places = list(distinct.values())
    return {places[row["place"] - 1]: row["problem"] for row in rows if row["problem"] is not None}


def read_requirements(tenant: str) -> Plan[Rows]:
    """Name, job and required names of each schedule."""
    return (yield Ask("schedules/requiring", {"tenant": tenant}))


def pause_schedule(
    name: str, tenant: str, *, reason: str | None, until: datetime | None, actor: str | None
) -> Plan[bool]:
    """False if it was so already."""
    params = {"name": name, "tenant": tenant, "reason": reason, "until": until, "actor": actor}
    (row,) = yield Ask("schedules/pause", params)
    return bool(row["is_changed"])


def resume_schedule(name: str, tenant: str, *, catch_up: bool, actor: str | None) -> Plan[bool]:
    """False if it was not paused."""
    params = {"name": name, "tenant": tenant, "catch_up": catch_up, "actor": actor}
    (row,) = yield Ask("schedules/resume", params)
    return bool(row["is_changed"])


def set_enabled(name: str, tenant: str, *, enabled: bool, actor: str | None) -> Plan[bool]:
    """False if it was so already."""
    params = {"name": name, "tenant": tenant, "enabled": enabled, "actor": actor}
    (row,) = yield Ask("schedules/set_enabled", params)
    return bool(row["is_changed"])


def trigger_schedule(
    name: str, tenant: str, *, payload: str | None, metadata: str | None, actor: str | None
) -> Plan[Triggered]:
    options = {"payload": payload, "metadata": metadata, "actor": actor}
    rows = yield Ask("schedules/trigger", {"name": name, "tenant": tenant} | options)
    answer = rows[0]["answer"]
    return Triggered(answer["run_id"], answer["job"], answer["schedule"])


def reschedule(name: str, tenant: str, *, at: datetime, actor: str | None) -> Plan[None]:
    yield Ask("schedules/reschedule", {"name": name, "tenant": tenant, "at": at, "actor": actor})


def delete_schedule(
    name: str, tenant: str, *, cancel_waiting: bool, actor: str | None
) -> Plan[int]:
    """Answers how many waiting runs were cancelled."""
    params = {"name": name, "tenant": tenant, "cancel_waiting": cancel_waiting, "actor": actor}
    rows = yield Ask("schedules/delete", params)
    return int(rows[0]["cancelled"])


def find_ledgers(name: str, tenant: str) -> Plan[list[int]]:
    """The schedule of that name or, if it is gone, those that had it."""
    found = yield from named(name, tenant)
    if found is not None:
        return [found.id]
    rows = yield Ask("schedules/deleted", {"name": name, "tenant": tenant})
    if not rows:
        raise (yield from _not_found(name, tenant))
    return [row["schedule_id"] for row in rows]


def page_exceptions(
    schedule_ids: Sequence[int],
    *,
    only: str,
    since: datetime | None,
    before: datetime | None,
    cursor: Sequence[Any] | None,
    limit: int,
) -> Plan[Page[OccurrenceInfo]]:
    """What did not simply run, or was filled in, among the next MOST_SEARCHED rows."""
    params = {
        "ids": list(schedule_ids), "only": only, "since": since, "before": before,
        "most": MOST_SEARCHED, "value_bytes": LISTED_BYTES,
    }  # fmt: skip
    return read_page(
        "schedules/history_only",
        params,
        OccurrenceInfo,
        order="newest",
        cursor=cursor,
        limit=limit,
    )


def page_history(
    schedule_ids: Sequence[int],
    *,
    decision: str | None,
    since: datetime | None,
    before: datetime | None,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
) -> Plan[Page[OccurrenceInfo]]:
    order = check_order(order, TimeOrder)
    statement = "schedules/history_oldest" if order == "oldest" else "schedules/history"
    params = {
        "ids": list(schedule_ids), "decision": decision, "since": since, "before": before,
        "value_bytes": LISTED_BYTES,
    }  # fmt: skip
    return read_page(statement, params, OccurrenceInfo, order=order, cursor=cursor, limit=limit)


def times_that_ran(schedule_id: int, from_at: datetime, until_at: datetime) -> Plan[set[datetime]]:
    params = {"id": schedule_id, "from_at": from_at, "until_at": until_at}
    rows = yield Ask("schedules/ran", params)
    return {row["nominal_at"] for row in rows}


class Backfill(NamedTuple):
    """What all portions of a backfill share."""

    name: str
    tenant: str
    from_at: datetime
    until_at: datetime
    priority: int | None
    reason: str | None
    actor: str | None
    total: int


def fill_portion(
    given: Backfill,
    number: int | None,
    *,
    times: Sequence[datetime],
    since: Sequence[datetime | None],
    starts: Sequence[datetime],
) -> Plan[tuple[int, list[int]]]:
    """The backfill's number, which the first portion makes, and the runs of these times, in their
    order."""
    portion = {"times": list(times), "since": list(since), "starts": list(starts)}
    rows = yield Ask("schedules/backfill", {**given._asdict(), **portion, "backfill": number})
    answer = rows[0]["answer"]
    return answer["backfill_id"], answer["run_ids"]


def _json(columns: Mapping[str, Any]) -> str:
    return json.dumps(dict(columns), ensure_ascii=False)
