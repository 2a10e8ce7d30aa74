"""Statements of the hot paths, prepared once on a connection and sent past the driver's cursor.

A cursor looks at the text, the parameters and their types anew each time. On an idle worker that
is a third of a millisecond in which a run waits, on an enqueuer half of what it does itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from psycopg import abc, adapt, errors, generators
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from rota.store.pool import AsyncConn
from rota.store.statements import convert

R = TypeVar("R")

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class Prepared:
    """One statement, whose parameters are texts and numbers; rows come as tuples or as what `make`
    makes of them."""

    def __init__(self, name: str, sql: str) -> None:
        text, self._names = convert(sql, "numeric")
        self._text = text.encode()
        self._name = f"rota_{name}".encode()
        self._loaders: WeakKeyDictionary[AsyncConn, abc.Transformer] = WeakKeyDictionary()

    async def fetch(
        self, conn: AsyncConn, parameters: Mapping[str, Any], make: Callable[[Any], R]
    ) -> list[R]:
        values = [_encode(parameters[name]) for name in self._names]
        async with conn.lock:
            loader = self._loaders.get(conn) or await self._prepare(conn)
            conn.pgconn.send_query_prepared(self._name, values, result_format=Format.BINARY)
            result = await _finish(conn)
            loader.set_pgresult(result)
            return loader.load_rows(0, result.ntuples, make)

    async def _prepare(self, conn: AsyncConn) -> abc.Transformer:
        conn.pgconn.send_prepare(self._name, self._text)
        await _finish(conn)
        loader: abc.Transformer = adapt.Transformer.from_context(conn)
        self._loaders[conn] = loader
        return loader


def _encode(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()


async def _finish(conn: AsyncConn) -> PGresult:
    results: list[PGresult] = await conn.wait(generators.execute(conn.pgconn))
    result = results[-1]
    if result.status not in _GOOD:
        raise errors.error_from_result(result, encoding=conn.info.encoding)
    return result
