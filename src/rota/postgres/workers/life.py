"""The statements about a worker's own life, from its registration to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rota.postgres.queries import Query, nothing, number


def register_worker(
    *,
    name: str,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    jobs: Sequence[str],
    concurrency: int,
    lease_seconds: float,
    intakes: Sequence[int] = (),
) -> Query[int]:
    """Add a row of rota.workers; return its id. `intakes` identify, job by job, the payloads that
    its code accepts."""
    params = {
        "name": name,
        "host": host,
        "pid": pid,
        "version": version,
        "queues": list(queues),
        "jobs": list(jobs),
        "concurrency": concurrency,
        "lease_seconds": lease_seconds,
        "intakes": list(intakes),
    }
    return Query("workers/register", params, number)


def say_polling(worker: int) -> Query[None]:
    """Record that the worker cannot listen, and polls."""
    return Query("workers/say_polling", {"worker": worker}, nothing)


def start_worker(declared: Mapping[str, Any], *, is_new: bool) -> Query[None]:
    """Record the application and build of a worker; `declared` is the argument of
    `definitions.declare`."""
    params = {name: declared[name] for name in ("worker", "application", "build", "release")}
    return Query("workers/start", params | {"is_new": is_new}, nothing)


def set_jobs(worker: int, jobs: Sequence[str], intakes: Sequence[int]) -> Query[None]:
    """Store the jobs that the worker can run now."""
    params = {"worker": worker, "jobs": list(jobs), "intakes": list(intakes)}
    return Query("workers/set_jobs", params, nothing)


def set_state(worker: int, state: Literal["stopping", "gone"]) -> Query[None]:
    return Query("workers/set_state", {"worker": worker, "state": state}, nothing)


def quiet_seconds(worker: int, *, most: float, ticking: bool) -> Query[float]:
    """Return for how many seconds no work is expected, as far as the database can tell."""
    params = {"worker": worker, "most": most, "ticking": ticking}
    return Query("workers/quiet_seconds", params, _seconds)


def fall_asleep(worker: int, *, most: float, ticking: bool) -> Query[float]:
    """Mark the worker as gone until work is due; return the seconds until then."""
    params = {"worker": worker, "most": most, "ticking": ticking}
    return Query("workers/fall_asleep", params, _seconds)


def wake_up(worker: int) -> Query[None]:
    """Record that no worker sleeps under this id any more."""
    return Query("workers/wake_up", {"worker": worker}, nothing)


def _seconds(rows: list[Any]) -> float:
    return float(rows[0][0]) if rows else 0.0
