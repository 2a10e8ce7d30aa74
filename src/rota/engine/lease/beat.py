"""The heartbeat: renews the lease of one worker, in the thread that has a connection for it."""

from __future__ import annotations

import time

from psycopg import errors

from rota.engine.lease.health import HealthReport
from rota.engine.metrics.usage import measure
from rota.postgres.queries import FetchSync
from rota.postgres.workers import leases
from rota.telemetry.logger import EventLogger


class HeldRow(Exception):
    """Another open transaction holds the worker's row. The database itself responds."""


class Beat:
    """Renews leases. `fetch` uses a connection that waits at most `answer_seconds` for each
    statement."""

    def __init__(self, fetch: FetchSync, log: EventLogger, *, answer_seconds: float) -> None:
        self._fetch = fetch
        self._log = log
        # Half of the time, so that the other half remains for finding out which transaction holds
        # the row.
        self._wait_ms = round(answer_seconds * 500)
        self._told: dict[int, object] = {}

    def renew(self, worker: int, report: HealthReport, *, pid: int, is_stuck: bool) -> bool:
        """Renew the lease and store what the process uses. Return False if the lease is lost."""
        usage = measure(pid)
        query = leases.beat(
            worker,
            wait_ms=self._wait_ms,
            is_stuck=is_stuck,
            claimed_seconds=_ago(report.claimed_at),
            finished_seconds=_ago(report.finished_at),
            errors=report.errors,
            trouble=report.trouble,
            memory_bytes=usage.memory_bytes,
            cpu_seconds=usage.cpu_seconds,
        )
        try:
            is_renewed = self._fetch(query)
        except errors.LockNotAvailable as error:
            self.tell_holder(worker, "the lease could not be renewed")
            raise HeldRow(worker) from error
        if self._told.pop(worker, None) is not None:
            self._log.info("the lease is being renewed again", worker=worker)
        return is_renewed

    def tell_holder(self, worker: int, what: str) -> None:
        """Log which transaction holds the worker's row, once per transaction. A lock on the whole
        table has no holder of the row."""
        pid, since, query = self._fetch(leases.holder(worker)) or (None, None, None)
        if self._told.get(worker) != (pid, since):
            self._told[worker] = (pid, since)
            self._log.warning(
                f"{what}: an open transaction has locked the worker's row",
                worker=worker,
                pid=pid,
                since=since,
                query=query,
            )


def _ago(at: float | None) -> float | None:
    return None if at is None else time.monotonic() - at
