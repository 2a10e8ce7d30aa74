"""The wall of `run_as`: nothing that the role left behind may run when the transaction ends,
because that would be as the worker.

The role's caller, a SECURITY DEFINER function, settles deferred constraints and closes cursors. But
a trigger may defer its next one, and only the server knows what is deferred. So the caller is asked
again until a pass writes nothing: what was deferred has then run, and nothing can be new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection

from rota.executors.sql_answer import SqlFailure
from rota.store.statements import Statements

_PASSES = 20

Reset = Callable[[], Awaitable[None]]


async def settle(
    conn: AsyncConnection[Any], caller: str, statements: Statements, reset: Reset
) -> None:
    """`reset` takes the session back from what the role has set, its search path above all: what
    is said here is said as the worker."""
    mark = statements.get("jobs/mark_command")
    await reset()
    for _ in range(_PASSES):
        before, _ = await _mark(conn, mark)
        await conn.execute(caller.encode())
        await reset()
        after, has_cursor = await _mark(conn, mark)
        if after == before + 1 and not has_cursor:
            return
    message = f"deferred constraints still write after being checked {_PASSES} times"
    raise SqlFailure("NotSettled", message, message)


async def _mark(conn: AsyncConnection[Any], statement: str) -> tuple[int, bool]:
    async with conn.transaction(force_rollback=True):
        row = await (await conn.execute(statement)).fetchone()
    assert row is not None
    return row[0], row[1]
