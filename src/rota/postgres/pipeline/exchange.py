"""The connection over which a worker ends attempts and claims runs.

Ends and the next claim are sent in one pipeline: one round trip, one transaction, ends first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from rota.model.outcome import Ended, Refused, Requeue
from rota.model.run import Claim
from rota.postgres import upkeep
from rota.postgres.errors import is_missing_partition, translate_foreign
from rota.postgres.pipeline.claims import ClaimRequest, ConnectionTurn, ReadyClaim
from rota.postgres.pipeline.ends import (
    Ends,
    array,
    ended_columns,
    kept_columns,
    refuse_columns,
    requeue_columns,
)
from rota.postgres.pipeline.prepared import Early, Prepared, PreparedCall, fetch_all
from rota.postgres.queries import Query, column
from rota.postgres.sessions.connection import AsyncConn, break_off
from rota.postgres.sessions.pool import Database

T = TypeVar("T")
_CLOSE_SECONDS = 2.0
_ANSWER_SECONDS = 30.0


class _RawJson(Loader):
    """Leave JSON as bytes: only the job decides whether to decode it, and often it does not."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)[1:]


class Exchange:
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
        self.refused = 0  # ends of the last exchange that were not accepted
        # A pipeline occupies the whole connection: one caller at a time.
        self._turn = ConnectionTurn()
        get = database.statements.get
        self._claim = Prepared("claim", get("runs/claim"))
        self._finish = Prepared("finish", get("runs/finish"))
        self._finish_span = Prepared("finish_span", get("runs/finish_span"))
        self._end = Prepared("end", get("runs/end"))
        self._requeue = Prepared("requeue", get("runs/requeue"))
        self._refuse = Prepared("refuse", get("runs/refuse"))

    @property
    def worker(self) -> int:
        return self._worker

    async def open(self) -> None:
        """Open the connection before other callers use up the server's: without this one nothing
        runs."""
        async with self._turn:
            await self._connection()

    async def _connection(self) -> AsyncConn:
        if self._is_over:
            raise psycopg.InterfaceError("the worker's identity is over")
        if self._conn is None or self._conn.closed:
            conn = await self._database.connect(self._name, _ANSWER_SECONDS)
            conn.adapters.register_loader("jsonb", _RawJson)
            self._conn = conn
        return self._conn

    def set_jobs(self, jobs: Sequence[str]) -> None:
        """Set the jobs that the next claims may return."""
        self._jobs = list(jobs)
        self._jobs_text = _texts(jobs)

    async def close(self) -> None:
        """Close the connection once it is not in use: closing it in the middle of a statement has
        crashed the driver. A caller that still waits after `_CLOSE_SECONDS` gets an error and
        closes it."""
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
        """Close the connection for good: it must not be opened again after the identity that it
        serves."""
        self._is_over = True
        await self.close()

    async def exchange(
        self, ends: Ends, request: ClaimRequest | None, early: Early[Claim] | None = None
    ) -> tuple[bool, list[Claim] | None]:
        """Write the ends and claim the requested runs. Return whether every end was accepted, and
        the claimed runs; None if the claim was not carried out. A claim without ends passes its
        runs to `early` before the commit."""
        async with self._turn:
            conn = await self._connection()
            with translate_foreign():
                try:
                    return await self._send(conn, ends, request, early)
                except errors.CheckViolation as error:
                    if not is_missing_partition(error):
                        raise
                    await self._database.fetch_on(conn, upkeep.make_partitions())
                    return await self._send(conn, ends, request, early)
                except errors.LockNotAvailable:
                    # Neither the claim nor the other ends wait for the lock.
                    return await self._send_unlocked(conn, ends), None

    def ready(self, request: ClaimRequest) -> ReadyClaim | None:
        """Return a claim without ends that only has to be sent; None before the first claim."""
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

    def _writing(self, ends: Ends) -> list[PreparedCall[Any]]:
        questions: list[PreparedCall[Any]] = []
        if (span := ends.span()) is not None:
            questions.append(self._finish_span.question({"worker": self._worker} | span, tuple))
        elif ends.ids:
            has_results = any(result is not None for result in ends.results)
            params = {
                "worker": self._worker,
                "ids": array(ends.ids),
                "attempts": array(ends.attempts),
                "durations": array(ends.durations),
                "results": ends.results if has_results else None,
            }
            questions.append(self._finish.question(params, tuple))
        over = [other for other in ends.others if isinstance(other[3], Ended)]
        if over:
            questions.append(self._end.question(ended_columns(self._worker, over), tuple))
        again = [other for other in ends.others if isinstance(other[3], Requeue)]
        if again:
            questions.append(self._requeue.question(requeue_columns(self._worker, again), tuple))
        refused = [other for other in ends.others if isinstance(other[3], Refused)]
        if refused:
            questions.append(self._refuse.question(refuse_columns(self._worker, refused), tuple))
        return questions

    def _asking(self, request: ClaimRequest) -> PreparedCall[Claim]:
        return self._claim.question(self._asked(request), Claim._make)

    def _asked(self, request: ClaimRequest) -> dict[str, Any]:
        return {
            "worker": self._worker,
            "limit": request.limit,
            "queues": _texts(request.queues),
            "quota": request.quota,
            "jobs": self._jobs_text,
            "hints": array(request.hints),
            "batch": request.batch,
            "start_batch": request.start_batch,
            "lane": request.lane,
        }

    async def _send_unlocked(self, conn: AsyncConn, ends: Ends) -> bool:
        """Write the ends whose rows no other transaction has locked. Return whether all ends were
        accepted."""
        accepted = 0
        # If a lock blocks even the ends of unlocked runs, leave all of them for later.
        with suppress(errors.LockNotAvailable):
            async with conn.transaction():
                cursor = await conn.execute(
                    self._database.statements.get("runs/lock"), {"ids": ends.all_ids()}
                )
                free = {row[0] for row in await cursor.fetchall()}
                answers = await fetch_all(conn, self._writing(ends.only(free)))
                accepted = sum(rows[0][0] for rows in answers)
        self.refused = len(ends) - accepted
        return not self.refused

    async def keep(self, ends: Ends) -> int:
        """Store the ends that were not accepted and belong to this worker, to be written later
        (`settle_kept_ends`). Return their number. A pooled connection is used, because the worker's
        own may be the one that waits."""
        query = Query("runs/keep_ends", kept_columns(self._worker, ends), column)
        with translate_foreign():
            return len(await self._database.fetch(query, is_hurried=False))

    async def claim_suspect(self, queues: Sequence[str], inline: Sequence[str]) -> list[Claim]:
        """Claim a suspect over a pooled connection: this happens every second, and a run that
        arrives meanwhile must not wait for it."""
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

    async def fetch(self, query: Query[T]) -> T:
        """Execute another statement on the same connection."""
        async with self._turn:
            conn = await self._connection()
            with translate_foreign():
                return await self._database.fetch_on(conn, query)


def _texts(names: Sequence[str]) -> str:
    """Format names as a Postgres array, with any characters quoted."""
    quoted = [name.replace("\\", r"\\").replace('"', r"\"") for name in names]
    return "{" + ",".join([f'"{name}"' for name in quoted]) + "}"
