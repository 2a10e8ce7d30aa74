"""Calls a SQL function as the body of a run: its effect and the run's end commit together.

The order on the attempt's own connection: BEGIN, the timeout as a statement of its own (inside the
statement of the call it would do nothing), the call, deferred constraints, the fenced end, COMMIT.
The connection is closed afterwards, because a function leaves settings, temporary tables and
advisory locks behind; behind a pooler, which keeps its own connection, these are removed before. A
procedure that commits by itself has no such transaction: at least once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import Any

import psycopg
from psycopg import AsyncClientCursor, AsyncConnection, errors
from psycopg.adapt import Buffer, Loader

from rota.engine.executors.attempt_session import AttemptSession
from rota.engine.executors.base import CommittedItself, Decided
from rota.engine.executors.ending import Rows, carry_out, write
from rota.engine.executors.run_as import ask_as, settle
from rota.engine.executors.sql_result import FunctionResult, SqlFailure, read_result
from rota.errors import AttemptTimeout
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.postgres.runs.ends import end_one
from rota.postgres.sessions import handlers
from rota.postgres.sessions.opening import lent
from rota.postgres.sql_jobs import SqlCall, find_call
from rota.postgres.statements import Statements

WriteLog = Callable[[str, str, Mapping[str, Any]], None]

_CLOCK_RATE = 1001  # the server's milliseconds per second of ours: its clock may be corrected
_CANCEL_AGAIN = 0.2
_QUIET_STATES = (None, "00000", "01000")


class SqlFunctionCall:
    """A call of a SQL function, on a connection of its own.

    `started` and `timeout` are the attempt's; `is_debug` includes RAISE DEBUG. `stop` may be called
    at any time: it sends cancel requests until the call has ended.
    """

    def __init__(
        self,
        claim: Claim,
        worker: int,
        *,
        url: str,
        schema: str,
        started: float,
        timeout: float | None,
        lease_seconds: float,
        is_debug: bool,
        write_log: WriteLog,
        has_session: bool = True,
    ) -> None:
        self._claim = claim
        self._worker = worker
        self._url = url
        self._statements = Statements(schema)
        self._lending = AttemptSession(self._statements, claim, worker, lease_seconds)
        self._started = started
        self._timeout = timeout
        self._lease_seconds = lease_seconds
        self._is_debug = is_debug
        self._has_session = has_session
        self._write_log = write_log
        self._told = asyncio.Event()

    def stop(self) -> None:
        self._told.set()

    async def run(self, decide: Callable[[FunctionResult], Outcome]) -> CommittedItself | Decided:
        """Call the function, and end the run with the outcome that `decide` derives from its
        result. Raise an error of the function as SqlFunctionError, and LeaseLost if the run belongs
        to another worker."""
        arguments = lent(self._lending.name)
        conn = await AsyncConnection.connect(self._url, **arguments)
        await conn.set_read_only(False)  # the end is written in it, whatever the default
        conn.add_notice_handler(self._hear)
        conn.adapters.register_loader("jsonb", _Text)
        canceller = asyncio.create_task(self._cancel_when_told(conn))
        try:
            return await self._call(conn, decide)
        except psycopg.Error as error:
            raise self._explained(error) from error
        finally:
            canceller.cancel()
            await conn.close()

    async def _call(
        self, conn: AsyncConnection[Any], decide: Callable[[FunctionResult], Outcome]
    ) -> CommittedItself | Decided:
        found = find_call(self._claim.job)
        rows = await (await conn.execute(*self._statements.of(found))).fetchall()
        call = found.read(rows)
        if call.transaction_mode == "none":
            if not self._has_session:
                raise NeedsSession
            answer = await self._ask(conn, call, is_local=False)
            return Decided(decide(answer), self._duration_ms)
        async with self._transaction(conn):
            answer = await self._ask(conn, call, is_local=True)
            await self._close_up(conn, call)
            if self._told.is_set():
                raise asyncio.CancelledError
            outcome, duration_ms = decide(answer), self._duration_ms
            await self._write(conn, outcome, duration_ms)
        return CommittedItself(outcome, duration_ms)

    @asynccontextmanager
    async def _transaction(self, conn: AsyncConnection[Any]) -> AsyncIterator[None]:
        """Roll back by closing the connection if it leads to a pooler: the pooler then closes its
        own, with everything that the function has left there."""
        async with conn.transaction():
            try:
                yield
            except BaseException:
                if not self._has_session:
                    await conn.close()
                raise

    async def _ask(
        self, conn: AsyncConnection[Any], call: SqlCall, is_local: bool
    ) -> FunctionResult:
        level = "debug1" if self._is_debug else "log"
        await conn.execute(*self._lending.begin(is_local=is_local, level=level))
        await self._limit(conn, is_local)
        if self._told.is_set():
            raise asyncio.CancelledError
        payload = self._claim.payload.decode()
        if call.settle is not None:
            return read_result(await ask_as(conn, call.call, payload))
        cursor = psycopg.AsyncRawCursor(conn)
        takes_payload = call.call.endswith("$1::jsonb)")
        await cursor.execute(call.call.encode(), [payload] if takes_payload else None)
        if not call.is_answering:
            return FunctionResult(True)
        row = await cursor.fetchone()
        return read_result(row[0] if row else None)

    async def _limit(self, conn: AsyncConnection[Any], is_local: bool = True) -> None:
        if self._timeout is not None:
            left = self._timeout - (time.monotonic() - self._started)
            # Rounded up: an error before the attempt's time is over would not count as a timeout.
            timeout = f"{max(1, ceil(left * _CLOCK_RATE) + 1)}ms"
            limit = handlers.limit(self._statements, timeout=timeout, is_local=is_local)
            await conn.execute(*limit)

    async def _close_up(self, conn: AsyncConnection[Any], call: SqlCall) -> None:
        """Run what the body has deferred: code of the function may still run in triggers, and as
        its role."""

        async def reset() -> None:
            await AsyncClientCursor(conn).execute(*self._lending.reset())
            await self._limit(conn)

        if call.settle is not None:
            await settle(conn, call, self._statements, reset)
        last = self._lending.end(is_settled=call.settle is not None, clears=not self._has_session)
        await AsyncClientCursor(conn).execute(*last)

    async def _write(
        self, conn: AsyncConnection[Any], outcome: Outcome, duration_ms: float
    ) -> None:
        """Write the end as the last statement: a lock from the start would make cancel and rescue
        wait."""
        ending = end_one(self._statements, self._claim, self._worker, duration_ms, outcome)

        async def fetch(sql: str, parameters: Mapping[str, Any]) -> Rows:
            cursor = await conn.execute(sql.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

        steps = write(self._statements, ending, self._claim, self._lease_seconds)
        await carry_out(steps, fetch)

    @property
    def _duration_ms(self) -> float:
        return (time.monotonic() - self._started) * 1000

    async def _cancel_when_told(self, conn: AsyncConnection[Any]) -> None:
        """Send cancel requests repeatedly: a request between two statements cancels nothing."""
        await self._told.wait()
        while True:
            with suppress(psycopg.Error, OSError):
                await conn.cancel_safe(timeout=5)
            await asyncio.sleep(_CANCEL_AGAIN)

    def _hear(self, notice: errors.Diagnostic) -> None:
        """Store RAISE NOTICE and the like while the function runs, so that they survive a
        rollback."""
        severity = notice.severity_nonlocalized or "NOTICE"
        level = _LEVELS.get(severity, "debug" if severity.startswith("DEBUG") else "info")
        fields = {
            "sqlstate": None if notice.sqlstate in _QUIET_STATES else notice.sqlstate,
            "detail": notice.message_detail,
            "hint": notice.message_hint,
        }
        shown = {name: value for name, value in fields.items() if value}
        self._write_log(level, notice.message_primary or "", shown)

    def _explained(self, error: psycopg.Error) -> BaseException:
        if error.sqlstate is None:
            return error
        is_over = self._timeout is not None and time.monotonic() - self._started >= self._timeout
        if isinstance(error, errors.QueryCanceled) and is_over:
            return AttemptTimeout(self._timeout or 0.0)
        return SqlFunctionError.of(error)


class NeedsSession(SqlFailure):
    """The procedure's settings are those of the session, which a pooler would lend to others
    between its commits."""

    def __init__(self) -> None:
        text = (
            "a procedure that commits needs its own session, and the pooler provides sessions for"
            " a transaction only: set database.direct_url to the address of the server itself"
        )
        super().__init__("NeedsSession", text, text)


class SqlFunctionError(SqlFailure):
    """An error of the function, with the server's text."""

    @classmethod
    def of(cls, error: psycopg.Error) -> SqlFunctionError:
        about, kind = error.diag, type(error).__name__
        message = about.message_primary or str(error)
        lines = {
            "ERROR": message,
            "SQLSTATE": error.sqlstate,
            "DETAIL": about.message_detail,
            "HINT": about.message_hint,
            "CONTEXT": about.context,
        }
        text = "\n".join(f"{name}: {value}" for name, value in lines.items() if value)
        own = (error.sqlstate or "").startswith("RO")
        return cls(f"{'JobError' if own else kind} ({error.sqlstate})", message, text)


class _Text(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode()


_LEVELS = {"LOG": "info", "INFO": "info", "NOTICE": "info", "WARNING": "warning"}
