"""One renewal of one worker's lease, by whichever thread has the connection for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from psycopg import errors

from rota.runtime.lease.health import Report
from rota.runtime.metrics.usage import measure
from rota.telemetry.logger import EventLogger


class Answer(Protocol):
    def fetchone(self) -> Any: ...


Execute = Callable[..., Answer]


class HeldRow(Exception):
    """Somebody's open transaction holds the worker's row. The database is there, and answers."""


class Beat:
    """`execute` takes a statement's name and its parameters, over a connection that waits at most
    `answer_seconds` for each."""

    def __init__(self, execute: Execute, log: EventLogger, *, answer_seconds: float) -> None:
        self._execute = execute
        self._log = log
        # Half of it, so that the other half is left for the question who it is.
        self._wait_ms = round(answer_seconds * 500)
        self._told: dict[int, object] = {}

    def renew(self, worker: int, report: Report, *, pid: int, is_stuck: bool) -> bool:
        """False: the lease is lost. What its process costs is measured and told, too."""
        told = {"stuck": is_stuck, **_shown(report), **measure(pid)._asdict()}
        try:
            row = self._execute(
                "workers/beat", worker=worker, wait=self._wait_ms, **told
            ).fetchone()
        except errors.LockNotAvailable as error:
            self.tell_holder(worker, "the lease could not be renewed")
            raise HeldRow(worker) from error
        if self._told.pop(worker, None) is not None:
            self._log.info("the lease is being renewed again", worker=worker)
        return bool(row and row[1])

    def tell_holder(self, worker: int, what: str) -> None:
        """Once for each who holds it. A lock on the whole table has no holder of the row."""
        row = self._execute("workers/holder", worker=worker).fetchone()
        pid, since, query = row or (None, None, None)
        if self._told.get(worker) != (pid, since):
            self._told[worker] = (pid, since)
            self._log.warning(
                f"{what}: an open transaction has locked the worker's row",
                worker=worker, pid=pid, since=since, query=query,
            )  # fmt: skip


def _shown(report: Report) -> dict[str, Any]:
    """Times become the seconds since then."""
    now = time.monotonic()
    return {
        "claimed": None if report.claimed_at is None else now - report.claimed_at,
        "finished": None if report.finished_at is None else now - report.finished_at,
        "errors": report.errors,
        "trouble": report.trouble,
    }
