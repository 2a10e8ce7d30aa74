"""Cleanups: schedules of the job `rota.cleanup`, read as rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rota.errors import InputError, ScheduleNotFound
from rota.model.cleanup import JOB, CleanupCount, CleanupInfo, CleanupTable, rule_of
from rota.model.nearest import listed, nearest
from rota.model.schedule_info import ScheduleInfo
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.schedules.lists import list_schedules, named

MOST_TABLES = 1000


def list_cleanups() -> Plan[list[ScheduleInfo]]:
    """Return cleanups by name; Rota's own only if it was given rules."""
    found = yield from list_schedules(job=JOB, system=True)
    return [info for info in found if not info.tenant and (rules_of(info) or not info.is_system)]


def find_cleanup(name: str) -> Plan[ScheduleInfo]:
    found = yield from named(name, "")
    if found is not None and found.job == JOB:
        return found
    known = yield from list_cleanups()
    hint = nearest(name, [cleanup.name for cleanup in known], listed("cleanup"))
    raise ScheduleNotFound(f'no cleanup is named "{name}"', hint=hint)


def rules_of(stored: ScheduleInfo) -> list[Mapping[str, Any]]:
    rules = (stored.payload or {}).get("rules")
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def info_of(stored: ScheduleInfo) -> CleanupInfo:
    return CleanupInfo(
        name=stored.name,
        description=stored.description,
        rules=[rule_of(rule) for rule in rules_of(stored)],
        timing=stored.timing,
        timezone=stored.timezone,
        state=stored.state,
        next_run_at=stored.next_run_at,
        last_run_at=stored.last_run_at,
        last_run_success=stored.last_run_success,
    )


def plan_cleanup(stored: ScheduleInfo) -> Plan[list[CleanupCount]]:
    """Count the rows that each rule of the cleanup would remove now."""
    rules = rules_of(stored)
    rows = yield Execute("cleanup/plan", {"payload": json.dumps({"rules": rules})})
    return [
        CleanupCount(stored.name, row["table_name"], str(rule.get("column")), row["matching"])
        for row, rule in zip(rows, rules, strict=True)
    ]


def known_tables(names: list[str] | None = None) -> Plan[Rows]:
    """Return the tables that cleanups can remove rows from, all or those of these names."""
    rows = yield Execute("cleanup/known_tables", {"names": names, "most": MOST_TABLES})
    return rows


def list_tables() -> Plan[list[CleanupTable]]:
    rows = yield from known_tables()
    return [CleanupTable(row["full_name"], row["times"]) for row in rows if row["times"]]


def resolve_table(name: str) -> Plan[str]:
    """Return the table's name with its schema; raise InputError if there is no such table."""
    rows = yield Execute("cleanup/table", {"name": name})
    if rows:
        return str(rows[0]["name"])
    known = [table.name for table in (yield from list_tables())]
    names = known + [full_name.partition(".")[2] for full_name in known]
    hint = nearest(name, names, "name it with its schema: public.sessions")
    raise InputError(f'there is no table "{name}"', hint=hint)
