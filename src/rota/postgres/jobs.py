"""Reads registered jobs, and changes the settings that operators may change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rota.errors import JobError, UnknownJob, WrongState
from rota.hints import Hint, OperationCall
from rota.model.drift import Drift
from rota.model.job import JobFilters, JobFunction, JobInfo, JobOrder, SqlFunction
from rota.model.nearest import listed, nearest
from rota.model.page import LISTED_BYTES, Page
from rota.model.queue import JobDepth
from rota.postgres.pages import check_filters, check_order, read_all, read_page, wanted_metadata
from rota.postgres.plans import Execute, Plan, call
from rota.postgres.versions import expect_version

# Columns that only a job of kind sql has.
OF_SQL = frozenset({"function_name", "run_as", "transaction_mode"})


def list_jobs(*, order: str = "name", **filters: Unpack[JobFilters]) -> Plan[list[JobInfo]]:
    params = _filters(filters)
    return read_all("jobs/list", params, JobInfo, order=check_order(order, JobOrder))


def page_jobs(
    *, order: str, cursor: Sequence[Any] | None, limit: int, **filters: Unpack[JobFilters]
) -> Plan[Page[JobInfo]]:
    order = check_order(order, JobOrder)
    params = _filters(filters) | {"value_bytes": LISTED_BYTES}
    return read_page("jobs/list", params, JobInfo, order=order, cursor=cursor, limit=limit)


def _filters(given: JobFilters, name: str | None = None) -> dict[str, Any]:
    check_filters(given, JobFilters, "jobs")
    return {
        "name": name,
        "value_bytes": None,
        "system": bool(given.get("system")),
        "tag": given.get("tag"),
        "queue": given.get("queue"),
        "enabled": given.get("enabled"),
        "text": given.get("text"),
        "metadata": wanted_metadata(given.get("metadata")),
    }


def find_job(name: str) -> Plan[JobInfo]:
    found = yield from read_all("jobs/list", _filters({"system": True}, name), JobInfo)
    if not found:
        raise UnknownJob(f'no job is named "{name}"', hint=(yield from _hint(name)))
    return found[0]


def present_name(name: str) -> Plan[str]:
    """Return the name that a job has now, by any that it has or had."""
    return str((yield from call("present_name", of_job=name)))


def _hint(name: str) -> Plan[Hint | str]:
    names = yield from present_names()
    if name in names:
        return f"it was renamed: its name is {names[name]}"
    return nearest(name, sorted(set(names.values())), listed("jobs"))


def present_names() -> Plan[dict[str, str]]:
    """Return the present names of all jobs, by each name that they have or had."""
    rows = yield Execute("jobs/names", {})
    earlier = {row["name"]: row["job"] for row in rows if row["name"] != row["job"]}
    return earlier | {row["job"]: row["job"] for row in rows if row["name"] == row["job"]}


def read_depths(name: str | None) -> Plan[dict[str, JobDepth]]:
    rows = yield Execute("jobs/depths", {"job": name})
    return {row["job"]: JobDepth(**row) for row in rows}


def find_function(name: str) -> Plan[SqlFunction | None]:
    """Return the SQL function of a job; None for a job of another kind."""
    found = yield from find_job(name)
    rows = yield Execute("jobs/function", {"name": name})
    if not rows or found.function_name is None:
        return None
    return SqlFunction(found.function_name, found.run_as, rows[0]["definition"])


def list_functions(text: str | None) -> Plan[list[JobFunction]]:
    """Return the database functions that a job can call."""
    rows = yield Execute("jobs/functions", {"text": text})
    return [JobFunction(**row) for row in rows]


def create_job(
    name: str, columns: Mapping[str, Any], *, reason: str | None, actor: str | None
) -> Plan[JobInfo]:
    """Create a job that calls a database function. Raise WrongState if the name is taken, JobError
    if the function belongs to PostgreSQL, to an extension or to Rota."""
    yield Execute("jobs/act_as", {"actor": actor, "reason": reason})
    made = yield Execute("jobs/create", {"name": name, "columns": json.dumps(dict(columns))})
    if not made:
        raise WrongState(f'job "{name}" already exists', hint="update it instead")
    yield from check_function(name, made[0]["function_name"])
    return (yield from find_job(name))


def check_function(name: str, function: str) -> Plan[None]:
    """Raise JobError unless the function is one that jobs can be given; existing functions may not
    be."""
    offered = {known.function_name.partition("(")[0] for known in (yield from list_functions(None))}
    if function.partition("(")[0] not in offered:
        raise JobError(
            f'job "{name}": {function} is not a function that jobs can be given: it belongs to '
            "PostgreSQL, to an extension or to Rota, or this role may not execute it",
            hint=Hint("{} lists those that can", OperationCall("jobs", "functions")),
        )


def update_job(
    name: str,
    columns: Mapping[str, Any],
    *,
    reset: Sequence[str],
    version: int | None,
    reason: str | None,
    actor: str | None,
) -> Plan[JobInfo]:
    """Change columns; columns in `reset` return to the values of the code and follow it again."""
    found = yield from find_job(name)
    if found.kind != "sql" and OF_SQL & {*columns}:
        raise JobError(
            f'job "{name}" is not a SQL job: its function is in the code of its application'
        )
    yield from expect_version("job", name, version)
    yield Execute("jobs/act_as", {"actor": actor, "reason": reason})
    params = {"name": name, "columns": json.dumps(dict(columns)), "reset": list(reset)}
    yield Execute("jobs/update", params)
    found = yield from find_job(name)
    if "function_name" in columns and found.function_name is not None:
        yield from check_function(name, found.function_name)
    return found


def plan_jobs(params: Mapping[str, Any]) -> Plan[list[Drift]]:
    """Return the drift that a registration with these parameters would change; nothing is
    written."""
    rows = yield Execute("jobs/plan", dict(params))
    return [Drift(**row) for row in rows]


def sync_jobs(params: Mapping[str, Any], *, actor: str | None) -> Plan[list[str]]:
    """Register jobs; return the names of those that were written."""
    yield Execute("jobs/act_as", {"actor": actor, "reason": None})
    rows = yield Execute("jobs/register", dict(params))
    return [row["register_jobs"] for row in rows]
