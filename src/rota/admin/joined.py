"""Plans on a connection of the caller's, of any driver. Nothing here ends its transaction."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from rota.jobs import connections
from rota.store.plans import Plan, Rows
from rota.store.sessions.pool import Database
from rota.store.statements import as_json_rows

T = TypeVar("T")


async def run_joined(database: Database, connection: Any, plan: Plan[T]) -> T:
    """Carry out a plan there. Opening our own database registers the jobs, as an enqueue does."""
    connections.find_driver(connection)
    await database.open()
    try:
        ask = next(plan)
        while True:
            sql = as_json_rows(database.statements.get(ask.statement))
            ask = plan.send(_rows(await connections.fetch(connection, sql, ask.params)))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def run_joined_sync(database: Database, connection: Any, plan: Plan[T]) -> T:
    connections.find_driver(connection)
    database.open_sync()
    try:
        ask = next(plan)
        while True:
            sql = as_json_rows(database.statements.get(ask.statement))
            ask = plan.send(_rows(connections.fetch_sync(connection, sql, ask.params)))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def _rows(found: list[Any]) -> Rows:
    return [json.loads(text) for (text,) in found]
