"""Reading runs and acting on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.errors import RunNotFound
from rota.model.attempt import AttemptInfo
from rota.model.run import RunInfo
from rota.store.plans import Ask, Plan

_USUAL_LIFE = timedelta(days=2)


def find_run(run_id: int) -> Plan[RunInfo]:
    """Open runs first; then the history around the run's creation; only then all of it."""
    rows = yield Ask("runs/find_open", {"id": run_id})
    if not rows:
        marks = yield Ask("runs/created_after", {"id": run_id})
        since = marks[0]["since"]
        if since is not None:
            bounds = {"id": run_id, "since": since, "until": since + _USUAL_LIFE}
            rows = yield Ask("runs/find_recent", bounds)
    if not rows:
        rows = yield Ask("runs/find_ended", {"id": run_id})
    if not rows:
        # It may have ended between the first look and the last, or been retried.
        rows = yield Ask("runs/find_open", {"id": run_id})
    if not rows:
        raise RunNotFound(f"there is no run {run_id}")
    return RunInfo(**rows[0])


def find_attempts(run: RunInfo) -> Plan[list[AttemptInfo]]:
    """All attempts of a run, the first one first."""
    rows = yield Ask("runs/attempts", {"id": run.id, "since": run.created_at})
    return [AttemptInfo(**row) for row in rows]


def list_runs(
    *,
    states: Sequence[str] | None = None,
    job: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    tag: str | None = None,
    key: str | None = None,
    since: datetime | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> Plan[list[RunInfo]]:
    """Newest first, paged by `before_id`."""
    params = {
        "states": None if states is None else list(states),
        "job": job,
        "queue": queue,
        "tenant": tenant,
        "tag": tag,
        "key": key,
        "since": since,
        "before_id": before_id,
        "limit": limit,
    }
    rows = yield Ask("runs/list", params)
    return [RunInfo(**row) for row in rows]


def still_open(ids: Sequence[int]) -> Plan[set[int]]:
    rows = yield Ask("runs/still_open", {"ids": list(ids)})
    return {row["id"] for row in rows}


def cancel_run(run_id: int, *, reason: str | None, actor: str | None) -> Plan[str]:
    """`cancelled` if it was waiting, `requested` if a worker has to be told."""
    rows = yield Ask("runs/cancel", {"id": run_id, "reason": reason, "actor": actor})
    return str(rows[0]["cancel_run"])


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
    yield Ask("runs/retry", params)


def enqueue_by_name(params: dict[str, Any]) -> Plan[tuple[int, bool]]:
    rows = yield Ask("runs/enqueue", params)
    return rows[0]["run_id"], rows[0]["is_duplicate"]
