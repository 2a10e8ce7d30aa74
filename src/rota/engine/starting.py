"""Starts on a server that is unavailable, full or read-only: logs this once, and waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import psycopg

from rota.errors import RotaError
from rota.postgres.sessions.outage import is_passing
from rota.postgres.sessions.pool import Database

START_SECONDS = 1.0


def may_wait(database: Database, error: BaseException) -> bool:
    """Return whether a failed start is tried again. It is not if a person has to change something:
    a wrong password, a database that does not exist or is not migrated, settings that do not
    fit."""
    cause = error.__cause__ if isinstance(error, RotaError) else error
    if cause is None or not is_passing(cause):
        return False
    database.outage.note(cause)
    return True


async def until_served(
    database: Database, step: Callable[[], Awaitable[object]], hold_up: Callable[[bool], None]
) -> None:
    """Repeat `step` until the server is available and accepts writes. `hold_up` is called when a
    wait begins and ends."""
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
    """Open the database like `until_served`, without an event loop."""
    while True:
        try:
            database.open_sync()
            return
        except (psycopg.Error, OSError, RotaError) as error:
            if not may_wait(database, error):
                raise
        time.sleep(START_SECONDS)
