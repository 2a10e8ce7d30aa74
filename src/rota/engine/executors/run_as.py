"""Enforces `run_as`: no trigger that the role has deferred may run at commit, where it would run
with the worker's rights.

The role's caller, a SECURITY DEFINER function, checks deferred constraints and closes cursors. But
a trigger may defer another one, and only the server sees which are deferred. So the caller is
called again until a pass writes nothing: everything deferred has then run, and nothing is new.

The caller belongs to the role, because otherwise it could not run with the role's rights, and so
the role may alter it. Each call returns a nonce, which proves that its body ran, and at the end the
function must be the same version as before the job.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor

from rota.engine.executors.sql_result import SqlFailure
from rota.postgres.sql_jobs import CommandMark, SqlCall, caller_state, mark_command
from rota.postgres.statements import Statements

_PASSES = 20

Reset = Callable[[], Awaitable[None]]


async def settle(
    conn: AsyncConnection[Any], call: SqlCall, statements: Statements, reset: Reset
) -> None:
    """Run everything deferred. `reset` undoes the settings of the role, above all its search path,
    because the statements here run as the worker."""
    await reset()
    for _ in range(_PASSES):
        before, _ = await _mark(conn, statements)
        await ask_as(conn, str(call.settle))
        await reset()
        after, has_cursor = await _mark(conn, statements)
        if after == before + 1 and not has_cursor:
            await _check(conn, call, statements)
            return
    message = f"deferred constraints still write after being checked {_PASSES} times"
    raise SqlFailure("NotSettled", message, message)


async def ask_as(conn: AsyncConnection[Any], call: str, *parameters: str) -> Any:
    """Call as the role, and check the nonce. Return the result."""
    nonce = secrets.token_hex(16)
    cursor = AsyncRawCursor(conn)
    await cursor.execute(call.encode(), [*parameters, nonce])
    row = await cursor.fetchone()
    if row is None or row[1] != nonce:
        raise _changed("did not run")
    return row[0]


async def _check(conn: AsyncConnection[Any], call: SqlCall, statements: Statements) -> None:
    query = caller_state(str(call.run_as))
    rows = await (await conn.execute(*statements.of(query))).fetchall()
    if query.read(rows) != call.state:
        raise _changed("was changed while the job ran")


def _changed(how: str) -> SqlFailure:
    message = f"the function that runs jobs as another role {how}"
    return SqlFailure("RunAsChanged", message, message)


async def _mark(conn: AsyncConnection[Any], statements: Statements) -> CommandMark:
    query = mark_command()
    async with conn.transaction(force_rollback=True):
        rows = await (await conn.execute(*statements.of(query))).fetchall()
    return query.read(rows)
