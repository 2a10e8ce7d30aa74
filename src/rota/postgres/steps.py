"""Long work as many short transactions: every statement of a plan commits on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql

from rota.postgres.errors import translate
from rota.postgres.plans import Execute, Rows
from rota.postgres.rows import named_row
from rota.postgres.sessions.connection import ANSWER_SECONDS
from rota.postgres.sessions.pool import Database

T = TypeVar("T")
OnProgress = Callable[[int], None]


class Write(NamedTuple):
    """A statement composed by the database, because tables cannot be parameters. It is cancelled
    after `seconds`, not by SET: a pooler may give the session to another client."""

    text: str
    seconds: float = ANSWER_SECONDS


class Hold(NamedTuple):
    """A statement that begins a separate transaction and takes locks, which are held until the plan
    ends; the plan itself needs many transactions."""

    statement: str


class WriteRefused(Exception):
    """The database refused a `Write` or a `Hold`; the plan decides how to go on."""


class Pause(NamedTuple):
    """Leave the server to others for a while."""

    seconds: float


Step = Execute | Write | Hold | Pause
Steps = Generator[Step, Rows, T]

# The share of time in which gentle work uses the server, and its longest pause.
_SHARE = 1 / 15
_LONGEST_PAUSE = 10.0


def gently(ask: Execute) -> Steps[Rows]:
    """Execute a portion of work without hurry: a pause of fourteen times its duration follows."""
    started = time.monotonic()
    rows = yield ask
    took = time.monotonic() - started
    yield Pause(min(took * (1 / _SHARE - 1), _LONGEST_PAUSE))
    return rows


async def run_steps(database: Database, steps: Steps[T], name: str = "rota") -> T:
    """Run the steps on their own connection; each `Hold` gets another one."""
    with translate():
        async with AsyncExitStack() as stack:
            conn = await stack.enter_async_context(await database.connect(name))
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                        step = steps.send([])
                        continue
                    at = conn
                    at.answer_seconds = _bound(step)
                    if isinstance(step, Hold):
                        at = await stack.enter_async_context(await database.connect(name))
                    cursor = at.cursor(row_factory=named_row)
                    try:
                        await cursor.execute(*_read(database, step))
                    except psycopg.Error as error:
                        step = _refuse(steps, step, error)
                        continue
                    step = steps.send(await cursor.fetchall() if cursor.description else [])
            except StopIteration as done:
                answer: T = done.value
                return answer


def run_steps_sync(database: Database, steps: Steps[T], name: str = "rota") -> T:
    with translate(), ExitStack() as stack:
        conn = stack.enter_context(database.connect_sync(name))
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = steps.send([])
                    continue
                at = conn
                at.answer_seconds = _bound(step)
                if isinstance(step, Hold):
                    at = stack.enter_context(database.connect_sync(name))
                cursor = at.cursor(row_factory=named_row)
                try:
                    cursor.execute(*_read(database, step))
                except psycopg.Error as error:
                    step = _refuse(steps, step, error)
                    continue
                step = steps.send(cursor.fetchall() if cursor.description else [])
        except StopIteration as done:
            answer: T = done.value
            return answer


def _bound(step: Execute | Write | Hold) -> float:
    return step.seconds if isinstance(step, Write) else ANSWER_SECONDS


def _read(database: Database, step: Execute | Write | Hold) -> tuple[Any, dict[str, Any] | None]:
    match step:
        case Write(text, _):
            return sql.SQL(text), None
        case Hold(statement):
            return database.statements.get(statement), None
    return database.statements.get(step.statement), step.params


def _refuse(steps: Steps[T], step: Execute | Write | Hold, error: psycopg.Error) -> Step:
    if isinstance(step, Execute):
        raise error
    return steps.throw(WriteRefused(str(error).strip()))
