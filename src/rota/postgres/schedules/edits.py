"""The edits and manual runs of a schedule, from the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from rota.errors import AuditEntryNotFound
from rota.model.page import LISTED_BYTES, Page
from rota.model.schedule_edit import FieldChange, ManualRun, ScheduleEdit
from rota.postgres.pages import RowKey, page_of, read_page, read_rows
from rota.postgres.plans import Execute, Plan

_EDITS = [
    f"schedule.{verb}"
    for verb in (
        "created",
        "updated",
        "enabled",
        "disabled",
        "paused",
        "resumed",
        "rescheduled",
        "deleted",
    )
]
KINDS = ("triggered", "backfilled")


def page_edits(
    name: str, tenant: str, *, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[ScheduleEdit]]:
    params = _of(name, tenant) | {"id": None, "value_bytes": LISTED_BYTES}
    return read_page("schedules/edits", params, _edit, order="newest", cursor=cursor, limit=limit)


def find_edit(name: str, tenant: str, entry_id: int) -> Plan[ScheduleEdit]:
    params = _of(name, tenant) | {"id": entry_id, "value_bytes": None}
    found = yield from read_page(
        "schedules/edits", params, _edit, order="newest", cursor=None, limit=1
    )
    if not found.items:
        raise AuditEntryNotFound(f'the audit has no edit {entry_id} of schedule "{name}"')
    return found.items[0]


def _of(name: str, tenant: str) -> dict[str, Any]:
    return {"name": name, "tenant": tenant, "actions": _EDITS}


def page_manual(
    name: str, tenant: str, *, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[ManualRun]]:
    asked: Asked = {"name": name, "tenant": tenant, "kinds": KINDS, "since": None, "before": None}
    rows = yield from read_manual(asked, order="newest", cursor=cursor, limit=limit)
    return page_of([(place, manual) for place, manual, _ in rows], limit)


class Asked(TypedDict):
    """A selection of manual runs: of a schedule, of some kinds, in a period."""

    name: str
    tenant: str
    kinds: Sequence[str]
    since: datetime | None
    before: datetime | None


def read_manual(
    asked: Asked, *, order: str, cursor: Sequence[Any] | None, limit: int
) -> Plan[list[tuple[RowKey, ManualRun, dict[str, Any]]]]:
    """Return the manual runs of a page, and one more if there is one, each with its place and the
    row of its run, which is empty if the run was removed."""
    actions = [f"schedule.{kind}" for kind in asked["kinds"]]
    params = {name: value for name, value in asked.items() if name != "kinds"} | {
        "actions": actions
    }
    found = yield from read_rows(
        "schedules/manual", params, dict[str, Any], order=order, cursor=cursor, limit=limit
    )
    ids = [row["after"]["run_id"] for _, row in found if "run_id" in (row["after"] or {})]
    since = min((row["at"] for _, row in found), default=None)
    wanted = {"ids": ids, "since": since, "value_bytes": LISTED_BYTES}
    rows = (yield Execute("runs/outcomes", wanted)) if ids else []
    runs = {row["id"]: row for row in rows}
    manual = [(place, _manual(row, runs)) for place, row in found]
    return [(place, entry, runs.get(entry.run_id or 0, {})) for place, entry in manual]


def _edit(**row: Any) -> ScheduleEdit:
    before, after = row["before"] or {}, row["after"] or {}
    changes = [
        FieldChange(name, before.get(name), value) for name, value in after.items() if before
    ]
    return ScheduleEdit(row["id"], row["at"], row["actor"], row["action"], row["reason"], changes)


def _manual(row: dict[str, Any], runs: Mapping[int, Mapping[str, Any]]) -> ManualRun:
    after = row["after"] or {}
    origin = {"at": row["at"], "actor": row["actor"], "reason": row["reason"]}
    if row["action"] == "schedule.triggered":
        number = int(after["run_id"])
        state = runs.get(number, {}).get("state")
        return ManualRun(**origin, kind="triggered", run_id=number, state=state)
    return ManualRun(
        **origin,
        kind="backfilled",
        from_at=datetime.fromisoformat(after["from"]),
        until_at=datetime.fromisoformat(after["until"]),
        runs=after["runs"],
    )
