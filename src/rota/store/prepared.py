"""Statements of the hot paths, prepared once on a connection and sent past the driver's cursor.

A cursor looks at the text, the parameters and their types anew each time. On an idle worker that
is a third of a millisecond in which a run waits, on an enqueuer half of what it does itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary
from zlib import crc32

import psycopg
from psycopg import abc, adapt, errors, generators
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from rota.store.pool import AsyncConn
from rota.store.reading import Reading
from rota.store.statements import convert

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

Values = Sequence[bytes | None]

# What reads the answers of the statements that a connection knows, by their names: connections go
# from hand to hand, and two who ask the same share it.
_KNOWN: WeakKeyDictionary[AsyncConn, dict[bytes, abc.Transformer]] = WeakKeyDictionary()
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_CALL_OFF_SECONDS = 5.0


class Early(Protocol[R_contra]):
    """Who wants the rows before they are committed, to get ready meanwhile."""

    def rows(self, rows: Sequence[R_contra]) -> None: ...

    def committed(self) -> None: ...


class Prepared:
    """One statement, whose parameters are texts and numbers; rows come as tuples or as what `make`
    makes of them."""

    def __init__(self, name: str, sql: str) -> None:
        text, self._names = convert(sql, "numeric")
        self._text = text.encode()
        # The text differs with the schema, and a caller's connection may serve two of them.
        self._name = f"rota_{name}_{crc32(self._text):x}".encode()

    async def fetch(
        self,
        conn: AsyncConn,
        parameters: Mapping[str, Any],
        make: Callable[[Any], R],
        early: Early[R] | None = None,
    ) -> list[R]:
        values = self.values(parameters)
        async with conn.lock:
            if not self.is_known_to(conn):
                await self._prepare(conn)
            return await self.ask(conn, values, make, early).wait()

    # In two steps, for who has nothing left to do in the moment that counts.

    def values(self, parameters: Mapping[str, Any]) -> Values:
        return [_encode(parameters[name]) for name in self._names]

    def is_known_to(self, conn: AsyncConn) -> bool:
        return self._name in _KNOWN.get(conn, ())

    def ask(
        self,
        conn: AsyncConn,
        values: Values,
        make: Callable[[Any], R],
        early: Early[R] | None = None,
    ) -> Answer[R]:
        """Send it now, over a connection that knows it and that nobody else uses."""
        answer = Answer(conn, _KNOWN[conn][self._name], make, early)
        answer.ask(self._name, values)
        return answer

    async def _prepare(self, conn: AsyncConn) -> None:
        conn.pgconn.send_prepare(self._name, self._text)
        results: list[PGresult] = await conn.wait(generators.execute(conn.pgconn))
        _check(conn, results[-1])
        _KNOWN.setdefault(conn, {})[self._name] = adapt.Transformer.from_context(conn)


class Answer(Generic[R]):
    """Of one statement. For who wants rows early, a pipeline of it alone: the server sends the
    rows when it has them, and the end of the pipeline when their commit is flushed."""

    def __init__(
        self,
        conn: AsyncConn,
        loader: abc.Transformer,
        make: Callable[[Any], R],
        early: Early[R] | None,
    ) -> None:
        self._conn = conn
        self._pgconn = conn.pgconn
        self._loader = loader
        self._make = make
        self._early = early
        self._rows: list[R] = []
        self._error: Exception | None = None

    def ask(self, name: bytes, values: Values) -> None:
        if self._early is None:
            self._pgconn.send_query_prepared(name, values, result_format=Format.BINARY)
        else:
            self._pgconn.enter_pipeline_mode()
            self._pgconn.send_query_prepared(name, values, result_format=Format.BINARY)
            self._pgconn.send_flush_request()
            self._pgconn.pipeline_sync()
        # The server works already while we get ready to listen.
        is_sent = not self._pgconn.flush()
        self._reading = Reading(self._conn, self._read)
        if not is_sent:
            self._reading.send_rest()

    async def wait(self) -> list[R]:
        try:
            await self._reading.ended
        except asyncio.CancelledError:
            await self.call_off()
            raise
        if self._error is not None:
            raise self._error
        return self._rows

    def _read(self) -> None:
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:
                if self._early is None:
                    self._reading.stop()
                    return
            elif result.status == ExecStatus.PIPELINE_SYNC:
                self._pgconn.exit_pipeline_mode()
                if self._early is not None and self._error is None:
                    self._early.committed()
                self._reading.stop()
                return
            else:
                self._take(result)

    def _take(self, result: PGresult) -> None:
        try:
            _check(self._conn, result)
        except psycopg.Error as error:
            self._error = error
            return
        self._loader.set_pgresult(result)
        self._rows = self._loader.load_rows(0, result.ntuples, self._make)
        if self._early is not None:
            self._early.rows(self._rows)

    async def call_off(self) -> None:
        """As the driver does it: nobody waits any longer, but the connection has to be left with
        nothing under way."""
        ended = self._reading.renew()
        with suppress(psycopg.Error, OSError):
            await self._conn.cancel_safe(timeout=_CALL_OFF_SECONDS)
        await asyncio.wait([ended], timeout=_CALL_OFF_SECONDS)
        if not ended.done():
            self._reading.stop()
            self._pgconn.finish()


def _encode(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()


def _check(conn: AsyncConn, result: PGresult) -> None:
    if result.status not in _GOOD:
        raise errors.error_from_result(result, encoding=conn.info.encoding)
