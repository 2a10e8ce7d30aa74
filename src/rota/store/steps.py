"""Long work as many short transactions: every statement of a plan commits by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql

from rota.store.errors import translate
from rota.store.plans import Ask, Rows
from rota.store.pool import Database
from rota.store.rows import named_row

T = TypeVar("T")
OnProgress = Callable[[int], None]


class Write(NamedTuple):
    """A statement that the database has composed itself, because tables cannot be parameters."""

    text: str


class Refused(Exception):
    """The database did not carry out a `Write`; the plan decides what that means."""


class Pause(NamedTuple):
    """Let others have the server for a while."""

    seconds: float


Step = Ask | Write | Pause
Steps = Generator[Step, Rows, T]

# Of the time, what gentle work takes of the server; and the longest pause.
_SHARE = 1 / 15
_LONGEST_PAUSE = 10.0


def gently(ask: Ask) -> Steps[Rows]:
    """A portion of work that is in no hurry: it is followed by fourteen times its time of rest."""
    started = time.monotonic()
    rows = yield ask
    took = time.monotonic() - started
    yield Pause(min(took * (1 / _SHARE - 1), _LONGEST_PAUSE))
    return rows


async def run_steps(database: Database, steps: Steps[T], name: str = "rota") -> T:
    """On a connection of its own, so that locks of the session end with it."""
    with translate():
        async with await database.connect(name) as conn:
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                        step = steps.send([])
                        continue
                    cursor = conn.cursor(row_factory=named_row)
                    try:
                        await cursor.execute(*_read(database, step))
                    except psycopg.Error as error:
                        step = _refuse(steps, step, error)
                        continue
                    step = steps.send(await cursor.fetchall() if cursor.description else [])
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]


def run_steps_sync(database: Database, steps: Steps[T], name: str = "rota") -> T:
    with translate(), database.connect_sync(name) as conn:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = steps.send([])
                    continue
                cursor = conn.cursor(row_factory=named_row)
                try:
                    cursor.execute(*_read(database, step))
                except psycopg.Error as error:
                    step = _refuse(steps, step, error)
                    continue
                step = steps.send(cursor.fetchall() if cursor.description else [])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def _read(database: Database, step: Ask | Write) -> tuple[Any, dict[str, Any] | None]:
    if isinstance(step, Write):
        return sql.SQL(step.text), None
    return database.statements.get(step.statement), step.params


def _refuse(steps: Steps[T], step: Ask | Write, error: psycopg.Error) -> Step:
    if isinstance(step, Ask):
        raise error
    return steps.throw(Refused(str(error).strip()))
