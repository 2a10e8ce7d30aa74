"""Statements of the hot paths, prepared once per connection and sent without the driver's cursor.

A cursor examines the text, the parameters and their types each time. On an idle worker that delays
a run by a third of a millisecond; on an enqueuer it is half of its own work.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary
from zlib import crc32

import psycopg
from psycopg import abc, adapt, errors, generators
from psycopg.adapt import PyFormat
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from rota.postgres.pipeline.reading import Reading
from rota.postgres.rows import NOT_READ, read_patiently
from rota.postgres.sessions.connection import CALL_OFF_SECONDS, AsyncConn, Conn, NoAnswer
from rota.postgres.statements import convert

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

# Row loaders of the statements prepared on a connection, by name: connections are reused, and
# callers with the same statement share its loader.
_KNOWN: WeakKeyDictionary[AsyncConn | Conn, dict[bytes, abc.Transformer]] = WeakKeyDictionary()
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_LISTS = adapt.Transformer()
# No statement here takes a second; one that waits for a lock is cancelled after this time.
_ANSWER_SECONDS = 30.0
_MOMENT = 100  # milliseconds


class Early(Protocol[R_contra]):
    """Receives rows before their commit, to prepare the runs."""

    def rows(self, rows: Sequence[R_contra]) -> None: ...

    def committed(self) -> None: ...


class Prepared:
    """A statement whose parameters are texts, numbers and lists of them."""

    def __init__(self, name: str, sql: str) -> None:
        text, self._names = convert(sql, "numeric")
        self._text = text.encode()
        # The text depends on the schema, and a caller's connection may serve two schemas.
        self.name = f"rota_{name}_{crc32(self._text):x}".encode()

    def question(self, parameters: Mapping[str, Any], make: Callable[[Any], R]) -> PreparedCall[R]:
        """Bind parameters; `make` turns each row, a tuple, into its result."""
        return PreparedCall(self, [_encode(parameters[name]) for name in self._names], make)

    async def fetch(
        self,
        conn: AsyncConn,
        parameters: Mapping[str, Any],
        make: Callable[[Any], R],
        early: Early[R] | None = None,
    ) -> list[R]:
        (rows,) = await fetch_all(conn, [self.question(parameters, make)], early)
        return rows

    def fetch_sync(
        self, conn: Conn, parameters: Mapping[str, Any], make: Callable[[Any], R]
    ) -> list[R]:
        question = self.question(parameters, make)
        with conn.lock:
            try:
                return _ask_sync(conn, question)
            except errors.Error as error:
                if not _is_forgotten(conn, error):
                    raise
                return _ask_sync(conn, question)

    def is_known_to(self, conn: AsyncConn | Conn) -> bool:
        return self.name in _KNOWN.get(conn, ())

    async def prepare(self, conn: AsyncConn) -> None:
        if _keeps(conn):
            conn.pgconn.send_prepare(self.name, self._text)
            self._prepared(conn, await conn.wait(generators.execute(conn.pgconn)))
        self._know(conn)

    def prepare_sync(self, conn: Conn) -> None:
        if _keeps(conn):
            conn.pgconn.send_prepare(self.name, self._text)
            self._prepared(conn, conn.wait(generators.execute(conn.pgconn)))
        self._know(conn)

    def send(self, conn: AsyncConn | Conn, values: Sequence[abc.Buffer | None]) -> None:
        """Send the statement by name; with its text if the session does not keep prepared
        statements."""
        if _keeps(conn):
            conn.pgconn.send_query_prepared(self.name, values, result_format=Format.BINARY)
        else:
            conn.pgconn.send_query_params(self._text, values, result_format=Format.BINARY)

    def _prepared(self, conn: AsyncConn | Conn, results: Sequence[PGresult]) -> None:
        # The name contains a checksum of the text: a statement of that name, prepared by another
        # client of the same pooler, is the same statement.
        with suppress(errors.DuplicatePreparedStatement):
            _check(conn, results[-1])

    def _know(self, conn: AsyncConn | Conn) -> None:
        _KNOWN.setdefault(conn, {})[self.name] = adapt.Transformer.from_context(conn)


class PreparedCall(NamedTuple, Generic[R]):
    statement: Prepared
    values: Sequence[abc.Buffer | None]
    make: Callable[[Any], R]


async def fetch_all(
    conn: AsyncConn, questions: Sequence[PreparedCall[Any]], early: Early[Any] | None = None
) -> list[list[Any]]:
    """Return the rows of each statement, in one round trip and one transaction. The statements are
    sent before the first wait, so a busy event loop does not delay them."""
    async with conn.lock:
        try:
            return await _ask(conn, questions, early)
        except errors.Error as error:
            return await ask_again(conn, questions, error, early)


async def ask_again(
    conn: AsyncConn,
    questions: Sequence[PreparedCall[Any]],
    error: errors.Error,
    early: Early[Any] | None = None,
) -> list[list[Any]]:
    """Send the statements again if the error only means that the server has forgotten them;
    otherwise raise it."""
    if not _is_forgotten(conn, error):
        raise error
    return await _ask(conn, questions, early)


async def _ask(
    conn: AsyncConn, questions: Sequence[PreparedCall[Any]], early: Early[Any] | None
) -> list[list[Any]]:
    for question in questions:
        if not question.statement.is_known_to(conn):
            await question.statement.prepare(conn)
    return await Pipeline(conn, questions, early).wait()


def _ask_sync(conn: Conn, question: PreparedCall[R]) -> list[R]:
    statement, values, _ = question
    if not statement.is_known_to(conn):
        statement.prepare_sync(conn)
    statement.send(conn, values)
    result = _answer(conn)
    _check(conn, result)
    return _rows(conn, question, result)


def _answer(conn: Conn) -> PGresult:
    """Return the last result. Nearly all results arrive within a moment and need nothing that the
    driver does for slower ones."""
    pgconn, results = conn.pgconn, list[PGresult]()
    if not pgconn.flush():
        look = select.poll()
        look.register(pgconn.socket, select.POLLIN)
        while _has_come(pgconn, look):
            result = pgconn.get_result()
            if result is None:
                return results[-1]
            results.append(result)
    results += conn.wait(generators.execute(pgconn), timeout=_ANSWER_SECONDS)
    return results[-1]


def _has_come(pgconn: PGconn, look: select.poll) -> bool:
    while pgconn.is_busy():
        if not look.poll(_MOMENT):
            return False
        pgconn.consume_input()
    return True


def _is_forgotten(conn: AsyncConn | Conn, error: errors.Error) -> bool:
    """Return whether the server has lost the prepared statements and they can be prepared again:
    after DISCARD ALL, or when a pooler switched to another server connection. Inside a transaction,
    which the error has aborted, it is too late; the next transaction prepares them again."""
    if not isinstance(error, errors.InvalidSqlStatementName):
        return False
    _KNOWN.pop(conn, None)
    return conn.pgconn.transaction_status == TransactionStatus.IDLE


class Pipeline:
    """Statements sent at once over a connection that has them prepared and has no other user, and
    their results. `early` gets rows as soon as the server sends them; the pipeline ends when their
    commit is flushed."""

    def __init__(
        self,
        conn: AsyncConn,
        questions: Sequence[PreparedCall[Any]],
        early: Early[Any] | None = None,
    ) -> None:
        self._conn = conn
        self._pgconn = conn.pgconn
        self._questions = questions
        self._early = early
        self._rows: list[list[Any]] = []
        self._error: Exception | None = None
        self._pgconn.enter_pipeline_mode()
        for question in questions:
            question.statement.send(conn, question.values)
        if early is not None:
            self._pgconn.send_flush_request()
        self._pgconn.pipeline_sync()
        # The server already works while the reader is set up.
        self._reading = Reading(conn, self._read, has_rest=bool(self._pgconn.flush()))

    async def wait(self) -> list[list[Any]]:
        # Not asyncio.timeout, which costs a twentieth of a short statement.
        timer = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._late)
        try:
            await self._reading.ended
        except (asyncio.CancelledError, NoAnswer):
            await self.call_off()
            raise
        finally:
            timer.cancel()
        if self._error is not None:
            raise self._error
        return self._rows

    def _late(self) -> None:
        self._reading.give_up(NoAnswer(_ANSWER_SECONDS))

    def _read(self) -> None:
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:
                continue  # the end of one statement's results
            if result.status == ExecStatus.PIPELINE_SYNC:
                self._pgconn.exit_pipeline_mode()
                if self._early is not None and self._error is None:
                    self._early.committed()
                self._reading.stop()
                return
            if self._error is None:
                self._take(result)

    def _take(self, result: PGresult) -> None:
        try:
            _check(self._conn, result)
        except psycopg.Error as error:
            self._error = error
            return
        self._rows.append(_rows(self._conn, self._questions[len(self._rows)], result))
        if self._early is not None:
            self._early.rows(self._rows[-1])

    async def call_off(self) -> None:
        """Cancel the statements as the driver does: the connection must be left with nothing under
        way. If that takes too long or is interrupted, the connection is closed."""
        ended = self._reading.renew()
        try:
            async with asyncio.timeout(CALL_OFF_SECONDS):
                with suppress(psycopg.Error, OSError):
                    await self._conn.cancel_safe(timeout=CALL_OFF_SECONDS)
                await asyncio.wait([ended])
        except TimeoutError:
            pass
        finally:
            if not ended.done():
                self._reading.stop()
                self._pgconn.finish()
            else:
                ended.exception()  # retrieve it, to avoid asyncio's "exception was never retrieved"


def _rows(conn: AsyncConn | Conn, question: PreparedCall[R], result: PGresult) -> list[R]:
    loader = _KNOWN[conn][question.statement.name]
    loader.set_pgresult(result)
    try:
        return loader.load_rows(0, result.ntuples, question.make)
    except NOT_READ:  # an unreadable row must not prevent the claim of the others
        return read_patiently(conn, result, question.make)


def _keeps(conn: AsyncConn | Conn) -> bool:
    return bool(getattr(conn, "keeps_session", True))


def _encode(value: Any) -> abc.Buffer | None:
    if value is None:
        return None
    if isinstance(value, list):
        return _LISTS.get_dumper(value, PyFormat.TEXT).dump(value)
    return str(value).encode()


def _check(conn: AsyncConn | Conn, result: PGresult) -> None:
    if result.status not in _GOOD:
        raise errors.error_from_result(result, encoding=conn.info.encoding)
