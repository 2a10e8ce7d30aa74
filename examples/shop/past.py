"""Writes past runs with their attempts, log lines, ledger and roll-ups, as workers would have.

For the demo only: Rota itself never writes invented times. Everything is written with COPY, in one
transaction and in chronological order, so that ids and times agree.
"""

from __future__ import annotations

import json
import random
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rota.model.histogram import BUCKETS, bucket_of, pack

RUN_COLUMNS = (
    "id created_at run_at started_at finished_at worker attempt duration_ms attempts_used "
    "max_attempts priority is_redelivery state attempt_state queue job tenant payload result key "
    "tags triggered_by schedule scheduled_for progress message details error_type "
    "error traceback end_reason"
)
TRY_COLUMNS = (
    "run_id attempt state worker started_at finished_at duration_ms is_spent job tenant error_type "
    "error traceback"
)
LINE_COLUMNS = "level job tenant at run_id worker attempt seq message fields"
LEDGER_COLUMNS = (
    "schedule_id nominal_at through_at decision reason tenant schedule claimed_at decided_at "
    "decided_by enqueued_at run_id state success duration_ms lateness_ms error"
)
ROLLUP_COLUMNS = "minute job queue outcome worker attempts duration_ms longest_ms histogram"


@dataclass(slots=True)
class Line:
    after: float  # seconds since the attempt began
    level: str
    message: str
    fields: dict[str, Any] | None = None


@dataclass(slots=True)
class Try:
    """One attempt: start, duration, state, error and log lines."""

    started_at: datetime
    seconds: float
    state: str = "succeeded"
    error: tuple[str, str, str] | None = None  # type, message, traceback
    lines: list[Line] = field(default_factory=list)

    @property
    def finished_at(self) -> datetime:
        return self.started_at + timedelta(seconds=self.seconds)


@dataclass(slots=True)
class Past:
    """A run that has ended. `occurrence` is the name of its schedule and its nominal time."""

    job: str
    queue: str
    created_at: datetime
    payload: dict[str, Any]
    tries: list[Try]
    tenant: str = ""
    max_attempts: int = 3
    priority: int = 5
    key: str | None = None
    tags: list[str] | None = None
    result: Any = None
    message: str | None = None
    details: Any = None
    end_reason: str | None = None
    event: str | None = None
    occurrence: tuple[str, datetime] | None = None
    progress: float | None = None
    id: int = 0

    @property
    def state(self) -> str:
        last = self.tries[-1].state
        return last if last in ("succeeded", "cancelled") else "failed"

    @property
    def triggered_by(self) -> dict[str, Any] | None:
        if self.occurrence:
            return {"type": "scheduler", "schedule": self.occurrence[0], "since": None}
        return {"type": "event", "event": self.event} if self.event else None


@dataclass(slots=True)
class Passed:
    """A nominal time that started no run."""

    schedule: str
    at: datetime
    decision: str
    reason: str


class Book:
    """Collects everything, and writes it."""

    def __init__(self, worker: int, schedules: dict[str, int]) -> None:
        self.worker = worker
        self.schedules = schedules
        self.runs: list[Past] = []
        self.passed: list[Passed] = []

    async def write(self, conn: Any) -> None:
        self.runs.sort(key=lambda run: run.created_at)
        await self._number(conn)
        await _copy(conn, "ledger", LEDGER_COLUMNS, self._ledger())
        await _copy(conn, "ended_runs", RUN_COLUMNS, map(self._run, self.runs))
        await _copy(conn, "past_attempts", TRY_COLUMNS, self._tries())
        await _copy(conn, "logs", LINE_COLUMNS, self._lines())
        await _copy(conn, "rollup_minutes", ROLLUP_COLUMNS, self._rollups())

    async def _number(self, conn: Any) -> None:
        cursor = await conn.execute(
            "SELECT nextval('rota.run_ids') FROM generate_series(1, %s)", [len(self.runs)]
        )
        ids = sorted(number for (number,) in await cursor.fetchall())
        for run, number in zip(self.runs, ids, strict=True):
            run.id = number
        # Which ids belong to which time: filters by time use these marks.
        await conn.cursor().executemany(
            "INSERT INTO rota.id_marks (id, at) VALUES (%s, %s)",
            [(run.id, run.created_at) for run in self.runs[::50]],
        )

    def _run(self, run: Past) -> Sequence[Any]:
        last = run.tries[-1]
        name, nominal = run.occurrence or (None, None)
        spent = sum(one.state != "snoozed" for one in run.tries)
        return (
            run.id, run.created_at, last.started_at, last.started_at, last.finished_at,
            self.worker, len(run.tries), last.seconds * 1000, spent, run.max_attempts,
            run.priority, False, run.state, last.state, run.queue, run.job, run.tenant,
            json.dumps(run.payload), _json(run.result), run.key, run.tags,
            _json(run.triggered_by), name, nominal,
            run.progress, run.message, _json(run.details), *(last.error or (None, None, None)),
            run.end_reason,
        )  # fmt: skip

    def _tries(self) -> Iterable[Sequence[Any]]:
        for run in self.runs:
            for n, one in enumerate(run.tries[:-1], start=1):
                yield (
                    run.id, n, one.state, self.worker, one.started_at, one.finished_at,
                    one.seconds * 1000, one.state != "snoozed", run.job, run.tenant,
                    *(one.error or (None, None, None)),
                )  # fmt: skip

    def _lines(self) -> Iterable[Sequence[Any]]:
        for run in self.runs:
            for n, one in enumerate(run.tries, start=1):
                for seq, line in enumerate(one.lines, start=1):
                    at = one.started_at + timedelta(seconds=line.after)
                    yield (
                        line.level, run.job, run.tenant, at, run.id, self.worker, n, seq,
                        line.message, _json(line.fields),
                    )  # fmt: skip

    def _ledger(self) -> Iterable[Sequence[Any]]:
        for run in self.runs:
            if run.occurrence:
                last, (name, at) = run.tries[-1], run.occurrence
                yield (
                    self.schedules[name], at, at, "ran", None, "", name, run.created_at,
                    run.created_at, self.worker, run.created_at, run.id, run.state,
                    run.state == "succeeded", last.seconds * 1000,
                    (last.started_at - at).total_seconds() * 1000,
                    last.error and last.error[1],
                )  # fmt: skip
        for one in self.passed:
            yield (
                self.schedules[one.schedule], one.at, one.at, one.decision, one.reason, "",
                one.schedule, one.at, one.at, self.worker, *(None,) * 7,
            )  # fmt: skip

    def _rollups(self) -> Iterable[Sequence[Any]]:
        seconds: dict[tuple[datetime, str, str, str], list[float]] = defaultdict(list)
        for run in self.runs:
            for one in run.tries:
                minute = one.finished_at.replace(second=0, microsecond=0)
                seconds[minute, run.job, run.queue, one.state].append(one.seconds)
        for (minute, job, queue, state), found in seconds.items():
            buckets = [0] * BUCKETS
            for one_of in found:
                buckets[bucket_of(one_of)] += 1
            yield (
                minute, job, queue, state, 0, len(found), sum(found) * 1000,
                max(found) * 1000, pack(buckets),
            )  # fmt: skip


class Teller:
    """Generates runs up to now."""

    def __init__(self, book: Book, since: datetime, now: datetime) -> None:
        self.book = book
        self.since = since
        self.now = now
        self.luck = random.Random(4)

    def add(self, run: Past) -> datetime:
        """Adds the run, unless it would end in the future. Returns when it ends."""
        ended = run.tries[-1].finished_at
        if ended < self.now:
            self.book.runs.append(run)
        return ended

    def soon(self, at: datetime) -> datetime:
        """When a worker starts it: usually at once."""
        return at + timedelta(seconds=0.002 + self.luck.expovariate(1 / 0.02))


def error_of(call: Callable[..., Any], *args: Any) -> tuple[str, str, str] | None:
    """Type, message and traceback of what the shop's own code raises; None if it succeeds."""
    try:
        call(*args)
    except Exception as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        kind = type(error)
        name = kind.__qualname__
        if kind.__module__ != "builtins" and not kind.__module__.startswith("rota."):
            name = f"{kind.__module__}.{name}"
        return name, str(error), "".join(traceback.format_exception(error))
    return None


async def _copy(conn: Any, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    names = ", ".join(columns.split())
    async with conn.cursor().copy(f"COPY rota.{table} ({names}) FROM STDIN") as copy:
        for row in rows:
            await copy.write_row(row)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
