"""A start on a server that is away, full or read-only: one line says so, and it waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import psycopg

from rota.errors import RotaError
from rota.store.sessions.outage import is_passing
from rota.store.sessions.pool import Database

START_SECONDS = 1.0


def may_wait(database: Database, error: BaseException) -> bool:
    """Whether a start that failed so is tried again. Not for what somebody has to change: a wrong
    password, a database that does not exist or is not migrated, settings that do not fit."""
    cause = error.__cause__ if isinstance(error, RotaError) else error
    if cause is None or not is_passing(cause):
        return False
    database.outage.note(cause)
    return True


async def until_served(
    database: Database, step: Callable[[], Awaitable[object]], hold_up: Callable[[bool], None]
) -> None:
    """A server that is away, full or read-only comes back: that is no reason to end. `hold_up` is
    told while the start waits for it."""
    while True:
        try:
            await step()
            return
        except (psycopg.Error, OSError, RotaError) as error:
            if not may_wait(database, error):
                raise
        hold_up(True)
        await asyncio.sleep(START_SECONDS)
        hold_up(False)


def until_open(database: Database) -> None:
    """For whoever has no event loop."""
    while True:
        try:
            database.open_sync()
            return
        except (psycopg.Error, OSError, RotaError) as error:
            if not may_wait(database, error):
                raise
        time.sleep(START_SECONDS)
