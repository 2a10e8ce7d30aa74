"""Assertions about what was enqueued."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from rota.app import App
from rota.jobs import connections
from rota.jobs.decorator import BoundJob
from rota.model.formatting import plural
from rota.model.run import RunInfo
from rota.postgres.testing import runs_of_job

_SHOWN = 10
_FIELDS = {field.name: str(field.type) for field in fields(RunInfo)}


def assert_enqueued(
    app: App,
    job: BoundJob | str,
    *,
    count: int | None = None,
    connection: Any = None,
    **filters: Any,
) -> list[RunInfo]:
    """Return the runs of a job that match, oldest first; fail if there are none, or not `count`.

        assert_enqueued(app, send_welcome, payload={"user_id": 7}, queue="mail")

    A filter is a field of `rota.RunInfo`. `payload` and `metadata` must contain the given values,
    and may contain more. Runs that have ended count too, unless `state=` is given.

    With `connection`, a sync one of psycopg, SQLAlchemy or Django, it sees the uncommitted enqueues
    of that connection's transaction: for tests that roll back.
    """
    name = _name(job)
    if connection is None:
        runs = app.runs.sync.list(job=name, order="oldest", limit=1_000_000)
    else:
        query = runs_of_job(name)
        rows = connections.fetch_sync(connection, *app.database.statements.of(query))
        runs = _read(query.read(rows))
    return _matching(runs, name, count, filters)


async def assert_enqueued_async(
    app: App,
    job: BoundJob | str,
    *,
    count: int | None = None,
    connection: Any = None,
    **filters: Any,
) -> list[RunInfo]:
    """The same for an async connection of psycopg, asyncpg or SQLAlchemy."""
    name = _name(job)
    if connection is None:
        runs = await app.runs.list(job=name, order="oldest", limit=1_000_000)
    else:
        query = runs_of_job(name)
        rows = await connections.fetch(connection, *app.database.statements.of(query))
        runs = _read(query.read(rows))
    return _matching(runs, name, count, filters)


def _name(job: BoundJob | str) -> str:
    return job if isinstance(job, str) else job.name


def _read(texts: Sequence[str]) -> list[RunInfo]:
    return [RunInfo(**_instants(json.loads(text))) for text in texts]


def _instants(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value)
        if "datetime" in _FIELDS[name] and isinstance(value, str)
        else value
        for name, value in row.items()
        if name in _FIELDS
    }


def _matching(
    runs: list[RunInfo], name: str, count: int | None, filters: Mapping[str, Any]
) -> list[RunInfo]:
    for field in filters:
        if field not in _FIELDS:
            raise TypeError(f"a run has no field {field!r}; it has {', '.join(_FIELDS)}")
    found = [run for run in runs if all(_matches(run, it, filters[it]) for it in filters)]
    wanted = "at least one run" if count is None else plural(count, "run")
    if not found if count is None else len(found) != count:
        shown = "".join(f"\n  {run}" for run in runs[:_SHOWN]) or " none at all"
        raise AssertionError(
            f"expected {wanted} of {name} with {filters}, found {len(found)}; its runs:{shown}"
        )
    return found


def _matches(run: RunInfo, name: str, wanted: Any) -> bool:
    value = getattr(run, name)
    if name in ("payload", "metadata") and isinstance(wanted, Mapping):
        return all(key in value and value[key] == wanted[key] for key in wanted)
    return bool(value == wanted)
