"""Executes plans on the caller's own connection, of any driver, without ending its transaction."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from rota.jobs import connections
from rota.postgres.plans import Plan, Rows
from rota.postgres.sessions.pool import Database
from rota.postgres.statements import as_json_rows

T = TypeVar("T")


async def run_joined(database: Database, connection: Any, plan: Plan[T]) -> T:
    """Execute a plan on the caller's connection. Opening our own database registers the jobs, as an
    enqueue does."""
    connections.find_driver(connection)
    await database.open()
    try:
        ask = next(plan)
        while True:
            sql = as_json_rows(database.statements.get(ask.statement))
            ask = plan.send(_rows(await connections.fetch(connection, sql, ask.params)))
    except StopIteration as done:
        value: T = done.value
        return value


def run_joined_sync(database: Database, connection: Any, plan: Plan[T]) -> T:
    connections.find_driver(connection)
    database.open_sync()
    try:
        ask = next(plan)
        while True:
            sql = as_json_rows(database.statements.get(ask.statement))
            ask = plan.send(_rows(connections.fetch_sync(connection, sql, ask.params)))
    except StopIteration as done:
        value: T = done.value
        return value


def _rows(found: list[Any]) -> Rows:
    return [json.loads(text) for (text,) in found]
