"""The connection over which a worker ends attempts and claims runs.

Ends and the next claim go out in one pipeline: one round trip, one transaction, ends first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from rota.model.outcome import Again, Ended, Outcome
from rota.model.run import Claim
from rota.store.claims import ClaimRequest, ReadyClaim, Turn
from rota.store.connection import AsyncConn, break_off
from rota.store.errors import is_missing_partition, translate_foreign
from rota.store.pool import Database
from rota.store.prepared import Early, Prepared, Question, fetch_all

# Run, attempt, duration in ms, and what becomes of it.
Other = tuple[int, int, float, Outcome]

_CLOSE_SECONDS = 2.0
_ANSWER_SECONDS = 30.0


class _RawJson(Loader):
    """Leaves JSON as bytes: what is done with it is the job's business, often nothing."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)[1:]


@dataclass(slots=True, eq=False)
class Ends:
    """Attempts that have ended and are not yet written, as the columns of their statements."""

    ids: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    results: list[str | None] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids) + len(self.others)

    def succeeded(self, run_id: int, attempt: int, duration_ms: float, result: str | None) -> None:
        self.ids.append(run_id)
        self.attempts.append(attempt)
        self.durations.append(duration_ms)
        self.results.append(result)

    def add(self, later: Ends) -> None:
        self.ids += later.ids
        self.attempts += later.attempts
        self.durations += later.durations
        self.results += later.results
        self.others += later.others

    def each(self) -> Iterator[Ends]:
        """These ends one by one."""
        for column in zip(self.ids, self.attempts, self.durations, self.results, strict=True):
            yield Ends(*([value] for value in column))  # type: ignore[arg-type]
        for other in self.others:
            yield Ends(others=[other])

    def refused(self, outcome: Outcome) -> Ends:
        """The same single end with another outcome."""
        (run_id,) = self.all_ids()
        attempt = self.attempts[0] if self.ids else self.others[0][1]
        duration = self.durations[0] if self.ids else self.others[0][2]
        return Ends(others=[(run_id, attempt, duration, outcome)])

    def all_ids(self) -> list[int]:
        return self.ids + [run_id for run_id, *_ in self.others]

    def only(self, wanted: set[int]) -> Ends:
        """The part of these ends that is about the wanted runs."""
        rows = zip(self.ids, self.attempts, self.durations, self.results, strict=True)
        part = Ends(others=[one for one in self.others if one[0] in wanted])
        for run_id, attempt, duration, result in rows:
            if run_id in wanted:
                part.succeeded(run_id, attempt, duration, result)
        return part


class Feed:
    """Ends and claims of one worker identity, over one connection."""

    def __init__(
        self, database: Database, worker: int, jobs: Sequence[str] = (), name: str = "rota worker"
    ) -> None:
        self._database = database
        self._worker = worker
        self._name = f"{name} {worker}"
        self.set_jobs(jobs)
        self._conn: AsyncConn | None = None
        self._is_over = False
        self.refused = 0  # of the last exchange: ends that were not accepted
        # A pipeline takes the whole connection: one caller at a time.
        self._turn = Turn()
        get = database.statements.get
        self._claim = Prepared("claim", get("runs/claim"))
        self._finish = Prepared("finish", get("runs/finish"))
        self._end = Prepared("end", get("runs/end"))
        self._requeue = Prepared("requeue", get("runs/requeue"))

    async def _connection(self) -> AsyncConn:
        if self._is_over:
            raise psycopg.InterfaceError("the worker's identity is over")
        if self._conn is None or self._conn.closed:
            conn = await self._database.connect(self._name, _ANSWER_SECONDS)
            conn.adapters.register_loader("jsonb", _RawJson)
            self._conn = conn
        return self._conn

    def set_jobs(self, jobs: Sequence[str]) -> None:
        """What the next claims may bring."""
        self._jobs = list(jobs)
        self._jobs_text = _texts(jobs)

    async def close(self) -> None:
        """After whoever uses it: a connection closed in the middle of a statement has crashed the
        driver. Whoever still waits then is told that it is gone, and closes it."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(_CLOSE_SECONDS), self._turn:
                    await conn.close()
            finally:
                break_off(conn)

    async def end(self) -> None:
        """Close it for good: nobody shall open it again after the identity that it serves."""
        self._is_over = True
        await self.close()

    async def exchange(
        self, ends: Ends, request: ClaimRequest | None, early: Early[Claim] | None = None
    ) -> tuple[bool, list[Claim] | None]:
        """Write the ends, claim what is asked for. Returns whether every end was accepted, and
        the claimed runs; None where nothing of the request was carried out. A claim without ends
        tells `early` of its runs."""
        async with self._turn:
            conn = await self._connection()
            with translate_foreign():
                try:
                    return await self._send(conn, ends, request, early)
                except errors.CheckViolation as error:
                    if not is_missing_partition(error):
                        raise
                    await conn.execute(self._database.statements.get("upkeep/partitions"))
                    return await self._send(conn, ends, request, early)
                except errors.LockNotAvailable:
                    await self._send_unlocked(conn, ends)
                    return False, None

    async def write_unlocked(self, ends: Ends) -> None:
        """Those whose rows nobody holds; `still_owned` says which were left out."""
        async with self._turn:
            conn = await self._connection()
            with translate_foreign():
                await self._send_unlocked(conn, ends)

    def ready(self, request: ClaimRequest) -> ReadyClaim | None:
        """A claim without ends that has only to be sent; None before the first one."""
        conn = self._conn
        if conn is None or not self._claim.is_known_to(conn):
            return None
        return ReadyClaim(request, conn, self._turn, self._asking(request))

    async def _send(
        self,
        conn: AsyncConn,
        ends: Ends,
        request: ClaimRequest | None,
        early: Early[Claim] | None,
    ) -> tuple[bool, list[Claim]]:
        writing = self._writing(ends)
        asking = [self._asking(request)] if request else []
        answers = await fetch_all(conn, [*writing, *asking], None if writing else early)
        accepted = sum(rows[0][0] for rows in answers[: len(writing)])
        self.refused = len(ends) - accepted
        return accepted == len(ends), answers[-1] if asking else []

    def _writing(self, ends: Ends) -> list[Question[Any]]:
        questions: list[Question[Any]] = []
        if ends.ids:
            has_results = any(result is not None for result in ends.results)
            params = {
                "worker": self._worker,
                "ids": _array(ends.ids),
                "attempts": _array(ends.attempts),
                "durations": _array(ends.durations),
                "results": ends.results if has_results else None,
            }
            questions.append(self._finish.question(params, tuple))
        over = [one for one in ends.others if isinstance(one[3], Ended)]
        if over:
            questions.append(self._end.question(ended_columns(self._worker, over), tuple))
        again = [one for one in ends.others if isinstance(one[3], Again)]
        if again:
            questions.append(self._requeue.question(again_columns(self._worker, again), tuple))
        return questions

    def _asking(self, request: ClaimRequest) -> Question[Claim]:
        return self._claim.question(self._asked(request), Claim._make)

    def _asked(self, request: ClaimRequest) -> dict[str, Any]:
        return {
            "worker": self._worker,
            "limit": request.limit,
            "queues": _texts(request.queues),
            "quota": request.quota,
            "jobs": self._jobs_text,
            "hints": _array(request.hints),
            "batch": request.batch,
            "start_batch": request.start_batch,
        }

    async def _send_unlocked(self, conn: AsyncConn, ends: Ends) -> None:
        """Somebody's open transaction holds a row of the batch: write the others."""
        self.refused = 0
        async with conn.transaction():
            cursor = await conn.execute(
                self._database.statements.get("runs/lock"), {"ids": ends.all_ids()}
            )
            free = {row[0] for row in await cursor.fetchall()}
            part = self._writing(ends.only(free))
            if part:
                await fetch_all(conn, part)

    async def still_owned(self, ids: Sequence[int]) -> set[int]:
        """Of runs whose end was sent: those it was not written for, though they are ours."""
        return {row[0] for row in await self.run("runs/owned", ids=list(ids))}

    async def claim_suspect(self, queues: Sequence[str], inline: Sequence[str]) -> list[Claim]:
        """Over a pooled connection: it is asked every second, and a run that comes just then must
        not wait for that."""
        sql = self._database.statements.get("runs/claim_suspect")
        params = {
            "worker": self._worker,
            "queues": list(queues),
            "jobs": self._jobs,
            "inline": list(inline),
        }
        async with self._database.connection() as conn:
            cursor = conn.cursor(binary=True)
            cursor.adapters.register_loader("jsonb", _RawJson)
            with translate_foreign():
                await cursor.execute(sql, params)
                return [Claim._make(row) for row in await cursor.fetchall()]

    async def run(self, statement: str, **params: Any) -> list[Any]:
        """Another statement about this worker, on the same connection."""
        sql = self._database.statements.get(statement)
        async with self._turn:
            conn = await self._connection()
            with translate_foreign():
                cursor = await conn.execute(sql, {"worker": self._worker, **params})
                return await cursor.fetchall() if cursor.description else []


def ended_columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    """What `runs/end` takes; every outcome is an Ended."""
    outcomes: list[Any] = [outcome for *_, outcome in rows]
    return _columns(worker, rows) | {
        "results": [outcome.result for outcome in outcomes],
        "states": [outcome.state for outcome in outcomes],
        "end_reasons": [outcome.end_reason for outcome in outcomes],
    }


def again_columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    """What `runs/requeue` takes; every outcome is an Again."""
    outcomes: list[Any] = [outcome for *_, outcome in rows]
    return _columns(worker, rows) | {
        "delays": [outcome.delay for outcome in outcomes],
        "spent": [outcome.is_spent for outcome in outcomes],
    }


def _columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    failures = [outcome.failure for *_, outcome in rows]
    return {
        "worker": worker,
        "ids": [row[0] for row in rows],
        "attempts": [row[1] for row in rows],
        "durations": [row[2] for row in rows],
        "attempt_states": [outcome.attempt_state for *_, outcome in rows],
        "messages": [outcome.message for *_, outcome in rows],
        "error_types": [one and one.error_type for one in failures],
        "errors": [one and one.error for one in failures],
        "tracebacks": [one and one.traceback for one in failures],
        "details": [outcome.details for *_, outcome in rows],
    }


def _array(numbers: list[int] | list[float]) -> str:
    """An array as Postgres reads it: a list's own text in other brackets, at a tenth of the cost
    of the driver's walk over its elements."""
    return f"{{{str(numbers)[1:-1]}}}"


def _texts(names: Sequence[str]) -> str:
    """The same for names, which may hold anything."""
    quoted = [name.replace("\\", r"\\").replace('"', r"\"") for name in names]
    return "{" + ",".join([f'"{name}"' for name in quoted]) + "}"
