"""The edits of a schedule, and reverting one of them."""

from __future__ import annotations

from dataclasses import replace

from rota.errors import WrongState
from rota.model.page import Page
from rota.model.schedule_edit import ScheduleEdit
from rota.model.schedule_fields import schedule_settings
from rota.model.schedule_info import ScheduleInfo
from rota.operations.commands import Cursor
from rota.operations.schedules import edits
from rota.postgres.audit import because
from rota.postgres.plans import Plan
from rota.postgres.schedules import edits as schedule_edits
from rota.postgres.schedules import schedules
from rota.postgres.versions import expect_version

_COLUMNS = {"job", *schedule_settings()}
# Besides the columns of an edit: fields that other verbs of the audit change.
_TOLD = _COLUMNS | {"pause_reason", "paused_until", "next_run_at"}


def page(name: str, tenant: str, cursor: Cursor, limit: int) -> Plan[Page[ScheduleEdit]]:
    found = yield from schedule_edits.page_edits(name, tenant, cursor=cursor, limit=limit)
    return Page([_of_people(edit) for edit in found.items], found.cursor)


def find(name: str, tenant: str, entry_id: int) -> Plan[ScheduleEdit]:
    return _of_people((yield from schedule_edits.find_edit(name, tenant, entry_id)))


def _of_people(edit: ScheduleEdit) -> ScheduleEdit:
    """Remove fields that the scheduler changed at the same time."""
    changes = [change for change in edit.changes if change.field in _TOLD]
    is_update = edit.action == "schedule.updated"
    can_revert = is_update and any(change.field in _COLUMNS for change in changes)
    return replace(edit, changes=changes, can_revert=can_revert)


def revert(
    name: str,
    tenant: str,
    entry_id: int,
    version: int | None,
    reason: str | None,
    *,
    actor: str | None,
) -> Plan[ScheduleInfo]:
    """Make a new edit that restores the values from before the given one."""
    stored = yield from schedules.lock_schedule(name, tenant)
    yield from expect_version("schedule", name, version, tenant)
    edit = yield from find(name, tenant, entry_id)
    if not edit.can_revert:
        verb = edit.action.removeprefix("schedule.")
        raise WrongState(
            f"entry {entry_id} cannot be reverted: the schedule was {verb}",
            hint="only updates can be reverted",
            field="entry_id",
        )
    before = {change.field: change.before for change in edit.changes if change.field in _COLUMNS}
    why = reason or f"reverts edit {entry_id} of {edit.actor}"
    return (yield from because(why, edits.update(stored, before, actor=actor)))
