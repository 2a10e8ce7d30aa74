"""Writes the end of a run inside the transaction of its effects.

Shared by async and sync code and all drivers: a generator yields statements, or seconds to wait,
and receives their rows or errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from rota.engine.executors.attempt_session import Statement
from rota.errors import LeaseLost
from rota.model.run import Claim
from rota.postgres.errors import find_sqlstate, is_missing_partition
from rota.postgres.runs import ends
from rota.postgres.sessions import handlers
from rota.postgres.statements import Statements
from rota.postgres.upkeep import make_partitions

Rows = list[Any]
Steps = Generator[Statement | float, Rows, None]

_LOCKED = "55P03"
_LOCKED_PAUSE = 0.05


def finish(
    statements: Statements, claim: Claim, worker: int, ms: float, result: str | None
) -> Statement:
    """The statement for a success."""
    return ends.finish_one(statements, claim, worker, ms, result)


def write(statements: Statements, end: Statement, claim: Claim, seconds: float) -> Steps:
    """Write the end as the last statement: a lock from the start would make cancel and rescue wait.
    Raise LeaseLost if the run belongs to another worker; then nothing may be committed. Errors that
    may pass are retried, because the work is done, from the savepoint of `session/mark`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            rows = yield end
        except Exception as error:
            found = find_sqlstate(error)
            is_locked = found is not None and found.sqlstate == _LOCKED
            if time.monotonic() > deadline or not (is_locked or is_missing_partition(found)):
                raise
        else:
            if not rows or rows[0][0] != 1:
                raise LeaseLost(f"run {claim.id} now belongs to another worker")
            return
        yield handlers.back_to_mark(statements)
        yield _LOCKED_PAUSE if is_locked else statements.of(make_partitions())


async def carry_out(steps: Steps, fetch: Callable[..., Awaitable[Rows]]) -> None:
    try:
        step = next(steps)
        while True:
            try:
                rows = await (_pause(step) if isinstance(step, float) else fetch(*step))
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(rows)
    except StopIteration:
        return


def carry_out_sync(steps: Steps, fetch: Callable[..., Rows]) -> None:
    try:
        step = next(steps)
        while True:
            try:
                rows = _pause_sync(step) if isinstance(step, float) else fetch(*step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(rows)
    except StopIteration:
        return


async def _pause(seconds: float) -> Rows:
    await asyncio.sleep(seconds)
    return []


def _pause_sync(seconds: float) -> Rows:
    time.sleep(seconds)
    return []
