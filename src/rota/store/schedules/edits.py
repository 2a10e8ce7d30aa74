"""What the audit knows of a schedule: its edits, and what was run by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rota.errors import AuditEntryNotFound
from rota.model.page import Page
from rota.model.schedule_edit import FieldChange, ManualRun, ScheduleEdit
from rota.store.pages import read_page
from rota.store.plans import Ask, Plan

_EDITS = [
    f"schedule.{verb}"
    for verb in (
        "created", "updated", "enabled", "disabled", "paused", "resumed", "rescheduled", "deleted",
    )
]  # fmt: skip
_MANUAL = ["schedule.triggered", "schedule.backfilled"]


def page_edits(
    name: str, tenant: str, *, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[ScheduleEdit]]:
    params = {"name": name, "tenant": tenant, "actions": _EDITS, "id": None}
    return read_page("schedules/edits", params, _edit, order="newest", cursor=cursor, limit=limit)


def find_edit(name: str, tenant: str, entry_id: int) -> Plan[ScheduleEdit]:
    params = {"name": name, "tenant": tenant, "actions": _EDITS, "id": entry_id}
    found = yield from read_page(
        "schedules/edits", params, _edit, order="newest", cursor=None, limit=1
    )
    if not found.items:
        raise AuditEntryNotFound(f'the audit has no edit {entry_id} of schedule "{name}"')
    return found.items[0]


def list_manual(name: str, tenant: str, limit: int) -> Plan[list[ManualRun]]:
    params = {"name": name, "tenant": tenant, "actions": _MANUAL, "id": None}
    found = yield from read_page(
        "schedules/edits", params, _row, order="newest", cursor=None, limit=limit
    )
    ids = [row["after"]["run_id"] for row in found.items if "run_id" in (row["after"] or {})]
    since = min((row["at"] for row in found.items), default=None)
    rows = (yield Ask("runs/states", {"ids": ids, "since": since})) if ids else []
    states = {row["id"]: row["state"] for row in rows}
    return [_manual(row, states) for row in found.items]


def _row(**row: Any) -> dict[str, Any]:
    return row


def _edit(**row: Any) -> ScheduleEdit:
    before, after = row["before"] or {}, row["after"] or {}
    changes = [
        FieldChange(name, before.get(name), value) for name, value in after.items() if before
    ]
    return ScheduleEdit(row["id"], row["at"], row["actor"], row["action"], row["reason"], changes)


def _manual(row: dict[str, Any], states: dict[int, str]) -> ManualRun:
    after = row["after"] or {}
    said = {"at": row["at"], "actor": row["actor"], "reason": row["reason"]}
    if row["action"] == "schedule.triggered":
        number = int(after["run_id"])
        return ManualRun(**said, kind="triggered", run_id=number, state=states.get(number))
    return ManualRun(
        **said,
        kind="backfilled",
        from_at=datetime.fromisoformat(after["from"]),
        until_at=datetime.fromisoformat(after["until"]),
        runs=after["runs"],
    )
