"""Reads and changes schedules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import ScheduleNotFound
from rota.model.documents import ScheduleDocuments
from rota.model.list_filters import TimeOrder
from rota.model.nearest import listed, nearest
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import LISTED_BYTES, Page
from rota.model.schedule_edit import Override
from rota.model.schedule_info import ScheduleInfo, Triggered
from rota.postgres.audit import act_as
from rota.postgres.pages import check_order, read_page
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.schedules.lists import named

# Rows of the ledger that one page of exceptions examines.
MOST_SEARCHED = 20_000


def find_schedule(name: str, tenant: str) -> Plan[ScheduleInfo]:
    found = yield from named(name, tenant)
    if found is None:
        raise (yield from _not_found(name, tenant))
    return found


def find_documents(name: str, tenant: str) -> Plan[ScheduleDocuments]:
    rows = yield Execute("schedules/documents", {"name": name, "tenant": tenant})
    if not rows:
        raise (yield from _not_found(name, tenant))
    return ScheduleDocuments(**rows[0])


def lock_schedule(name: str, tenant: str) -> Plan[ScheduleInfo]:
    """Lock a schedule, to change it in this transaction."""
    rows = yield Execute("schedules/lock", {"name": name, "tenant": tenant})
    if not rows:
        raise (yield from _not_found(name, tenant))
    return (yield from find_schedule(name, tenant))


def _not_found(name: str, tenant: str) -> Plan[ScheduleNotFound]:
    known = yield Execute("schedules/names", {"tenant": tenant})
    hint = nearest(name, [row["name"] for row in known], listed("schedules"))
    return ScheduleNotFound(f'no schedule is named "{name}"', hint=hint)


def create_schedule(
    name: str, tenant: str, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """Create a schedule; return False if one of that name exists."""
    yield from act_as(actor)
    params = {"name": name, "tenant": tenant, "columns": _json(columns)}
    return bool((yield Execute("schedules/create", params)))


def put_schedule(
    name: str, tenant: str, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """Store the schedule as declared in code, except fields that an operator has edited. Return
    whether anything was written."""
    params = {"name": name, "tenant": tenant, "columns": _json(columns), "actor": actor}
    rows = yield Execute("schedules/put", params)
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
    """Store many schedules like `put_schedule`, by tenant, name and columns; equal columns are sent
    once. A build older than the newest of its application only adds missing schedules."""
    documents: dict[str, int] = {}
    places = [documents.setdefault(_json(columns), len(documents) + 1) for _, _, columns in wanted]
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
    rows = yield Execute("schedules/put_many", params)
    return int(rows[0]["written"])


def update_schedule(
    schedule_id: int, columns: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    """Change the given columns; return whether anything was written."""
    yield from act_as(actor)
    rows = yield Execute("schedules/update", {"id": schedule_id, "columns": _json(columns)})
    return bool(rows)


def find_overrides(name: str, tenant: str) -> Plan[list[Override]]:
    rows = yield Execute("schedules/overrides", {"name": name, "tenant": tenant})
    return [Override(**row) for row in rows]


def reset_schedule(
    name: str, tenant: str, fields: Sequence[str] | None, *, actor: str | None
) -> Plan[list[str]]:
    """Reset these columns, or all, to the values of the code; return the columns that were
    edited."""
    given = None if fields is None else list(fields)
    params = {"name": name, "tenant": tenant, "fields": given, "actor": actor}
    rows = yield Execute("schedules/reset", params)
    return list(rows[0]["fields"])


def read_requirements(tenant: str) -> Plan[Rows]:
    """Return the name, job and required names of each schedule."""
    return (yield Execute("schedules/requiring", {"tenant": tenant}))


def trigger_schedule(
    name: str, tenant: str, *, payload: str | None, metadata: str | None, actor: str | None
) -> Plan[Triggered]:
    options = {"payload": payload, "metadata": metadata, "actor": actor}
    rows = yield Execute("schedules/trigger", {"name": name, "tenant": tenant} | options)
    answer = rows[0]["answer"]
    return Triggered(answer["run_id"], answer["job"], answer["schedule"])


def find_ledgers(name: str, tenant: str) -> Plan[list[int]]:
    """Return the id of the schedule of that name or, if it was deleted, of the deleted ones."""
    found = yield from named(name, tenant)
    if found is not None:
        return [found.id]
    rows = yield Execute("schedules/deleted", {"name": name, "tenant": tenant})
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
    """Return a page of occurrences with another decision than `ran`, or of backfilled ones
    (`only`), among the next MOST_SEARCHED rows."""
    params = {
        "ids": list(schedule_ids),
        "only": only,
        "since": since,
        "before": before,
        "most": MOST_SEARCHED,
        "value_bytes": LISTED_BYTES,
    }
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
        "ids": list(schedule_ids),
        "decision": decision,
        "since": since,
        "before": before,
        "value_bytes": LISTED_BYTES,
    }
    return read_page(statement, params, OccurrenceInfo, order=order, cursor=cursor, limit=limit)


def times_that_ran(schedule_id: int, from_at: datetime, until_at: datetime) -> Plan[set[datetime]]:
    params = {"id": schedule_id, "from_at": from_at, "until_at": until_at}
    rows = yield Execute("schedules/ran", params)
    return {row["nominal_at"] for row in rows}


class Backfill(NamedTuple):
    """The parameters that all portions of a backfill share."""

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
    """Backfill a portion of times. Return the number of the backfill, which the first portion
    creates, and the runs in the order of `times`."""
    portion = {"times": list(times), "since": list(since), "starts": list(starts)}
    rows = yield Execute("schedules/backfill", {**given._asdict(), **portion, "backfill": number})
    answer = rows[0]["answer"]
    return answer["backfill_id"], answer["run_ids"]


def _json(columns: Mapping[str, Any]) -> str:
    return json.dumps(dict(columns), ensure_ascii=False)
