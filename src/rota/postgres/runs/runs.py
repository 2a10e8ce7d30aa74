"""Reads runs and acts on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.errors import RunNotFound
from rota.model.attempt import AttemptInfo
from rota.model.child_run import ChildRun
from rota.model.details import Handled, RunDetails
from rota.model.documents import RunDocuments
from rota.model.log import LogLine
from rota.model.page import LISTED_BYTES, Page
from rota.model.run import RunInfo
from rota.postgres.pages import read_all, read_page
from rota.postgres.plans import Execute, Plan

_USUAL_LIFE = timedelta(days=2)


def find_run(run_id: int) -> Plan[RunInfo]:
    """Find a run: among open runs, then in the history around its creation, then in all of it."""
    rows = yield Execute("runs/find_open", {"id": run_id})
    if not rows:
        marks = yield Execute("runs/created_after", {"id": run_id})
        since = marks[0]["since"]
        if since is not None:
            bounds = {"id": run_id, "since": since, "until": since + _USUAL_LIFE}
            rows = yield Execute("runs/find_recent", bounds)
    if not rows:
        # Both at once: the run may have been retried since the first search.
        rows = yield Execute("runs/find_anywhere", {"id": run_id})
    if not rows:
        raise RunNotFound(f"there is no run {run_id}")
    return RunInfo(**rows[0])


def _attempts(run: RunInfo, since: datetime) -> Plan[list[AttemptInfo]]:
    params = {"id": run.id, "since": since, "attempt": None, "value_bytes": None}
    return read_all("runs/attempts", params, AttemptInfo)


def page_attempts(
    run_id: int, *, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[AttemptInfo]]:
    since = yield from oldest_trace((yield from find_run(run_id)))
    params = {"id": run_id, "since": since, "attempt": None, "value_bytes": LISTED_BYTES}
    return (
        yield from read_page(
            "runs/attempts", params, AttemptInfo, order="oldest", cursor=cursor, limit=limit
        )
    )


def find_attempt(run_id: int, attempt: int) -> Plan[AttemptInfo]:
    since = yield from oldest_trace((yield from find_run(run_id)))
    params = {"id": run_id, "since": since, "attempt": attempt, "value_bytes": None}
    found = yield from read_all("runs/attempts", params, AttemptInfo)
    if not found:
        raise RunNotFound(f"run {run_id} has no attempt {attempt}")
    return found[0]


def find_details(run_id: int, *, log_lines: int) -> Plan[RunDetails]:
    """Return a run with all its attempts and its last log lines, the oldest first."""
    run = yield from find_run(run_id)
    since = yield from oldest_trace(run)
    attempts = yield from _attempts(run, since)
    params = {"id": run.id, "since": since, "limit": log_lines}
    rows = (yield Execute("logs/of_run", params)) if log_lines else []
    lines = [LogLine(**row) for row in reversed(rows)]
    apart = (yield Execute("runs/isolation", {"id": run.id})) if run.finished_at is None else []
    handled = yield from _handled(run)
    return RunDetails(run, attempts, lines, apart[0]["isolation"] if apart else None, handled)


def _handled(run: RunInfo) -> Plan[Handled | None]:
    if run.state != "failed":
        return None
    params = {"id": run.id, "group": run.error_group, "finished_at": run.finished_at}
    rows = yield Execute("runs/handled", params)
    return Handled(**rows[0]) if rows else None


def find_documents(run: int | RunInfo, most: int) -> Plan[RunDocuments]:
    """Find documents by id only: the run may end meanwhile, and an unusual end time cannot be
    compared."""
    run_id = run.id if isinstance(run, RunInfo) else run
    rows = yield Execute("runs/documents", {"id": run_id, "most": most})
    if not rows:
        raise RunNotFound(f"there is no run {run_id}")
    return RunDocuments(**rows[0])


def find_children(run: int | RunInfo, limit: int) -> Plan[list[ChildRun]]:
    found = run if isinstance(run, RunInfo) else (yield from find_run(run))
    since = yield from oldest_trace(found)
    rows = yield Execute("runs/children", {"id": found.id, "since": since, "limit": limit})
    return [ChildRun(**row) for row in rows]


def oldest_trace(run: RunInfo) -> Plan[datetime]:
    """Return the time of the oldest trace of a run. It may have been created while the clock was
    ahead."""
    (mark,) = yield Execute("runs/created_after", {"id": run.id})
    return run.created_at if mark["since"] is None else min(mark["since"], run.created_at)


def still_open(ids: Sequence[int]) -> Plan[set[int]]:
    rows = yield Execute("runs/still_open", {"ids": list(ids)})
    return {row["id"] for row in rows}


def retry_run(
    run_id: int, *, payload: str | None, delay: float | None, reason: str | None, actor: str | None
) -> Plan[None]:
    params: dict[str, Any] = {
        "id": run_id,
        "payload": payload,
        "delay": delay,
        "reason": reason,
        "actor": actor,
    }
    yield Execute("runs/retry", params)


def enqueue_manually(params: dict[str, Any], *, actor: str | None) -> Plan[tuple[int, bool]]:
    """Enqueue a run; return its id and whether it existed already. Only new runs are recorded in
    the audit."""
    rows = yield Execute("runs/enqueue_manual", params | {"actor": actor})
    run_id, is_duplicate = rows[0]["run_id"], rows[0]["is_duplicate"]
    if not is_duplicate:
        entry = {"run_id": run_id, "job": params["job"], "tenant": params["tenant"]}
        yield Execute("runs/audit_enqueued", entry | {"actor": actor})
    return run_id, is_duplicate
