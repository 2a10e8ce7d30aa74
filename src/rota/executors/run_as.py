"""Enforces `run_as`: nothing that the role has deferred may run at commit, where it would run with
the worker's rights.

The role's caller, a SECURITY DEFINER function, settles deferred constraints and closes cursors. But
a trigger may defer another one, and only the server knows what is deferred. So the caller is called
again until a pass writes nothing: everything deferred has then run, and nothing is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection

from rota.executors.sql_result import SqlFailure
from rota.store.sql_jobs import CommandMark, mark_command
from rota.store.statements import Statements

_PASSES = 20

Reset = Callable[[], Awaitable[None]]


async def settle(
    conn: AsyncConnection[Any], caller: str, statements: Statements, reset: Reset
) -> None:
    """`reset` takes the session back from what the role has set, its search path above all: what
    is said here is said as the worker."""
    await reset()
    for _ in range(_PASSES):
        before, _ = await _mark(conn, statements)
        await conn.execute(caller.encode())
        await reset()
        after, has_cursor = await _mark(conn, statements)
        if after == before + 1 and not has_cursor:
            return
    message = f"deferred constraints still write after being checked {_PASSES} times"
    raise SqlFailure("NotSettled", message, message)


async def _mark(conn: AsyncConnection[Any], statements: Statements) -> CommandMark:
    query = mark_command()
    async with conn.transaction(force_rollback=True):
        rows = await (await conn.execute(*statements.of(query))).fetchall()
    return query.read(rows)
