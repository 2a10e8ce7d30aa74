"""Sends plans and queries over a connection and reads the rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import psycopg

from rota.postgres.plans import Plan
from rota.postgres.queries import Query
from rota.postgres.rows import NOT_READ, Row, named_row, read_again
from rota.postgres.sessions.connection import AsyncConn, Conn
from rota.postgres.statements import Statements

T = TypeVar("T")


async def fetch(conn: AsyncConn, statements: Statements, query: Query[T]) -> T:
    cursor = await conn.execute(statements.get(query.statement), query.params)
    return query.read(await cursor.fetchall() if cursor.description else [])


def fetch_sync(conn: Conn, statements: Statements, query: Query[T]) -> T:
    cursor = conn.execute(statements.get(query.statement), query.params)
    return query.read(cursor.fetchall() if cursor.description else [])


async def drive(conn: AsyncConn, statements: Statements, plan: Plan[T]) -> T:
    try:
        ask = next(plan)
        while True:
            cursor = conn.cursor(row_factory=named_row)
            sql = statements.get(ask.statement)
            executing = cursor.execute(sql, ask.params, binary=ask.is_large)
            await (_beside(executing, ask.meanwhile) if ask.meanwhile else executing)
            ask = plan.send(await _rows(cursor) if cursor.description else [])
    except StopIteration as done:
        answer: T = done.value
        return answer


def drive_sync(conn: Conn, statements: Statements, plan: Plan[T]) -> T:
    try:
        ask = next(plan)
        while True:
            cursor = conn.cursor(row_factory=named_row)
            sql = statements.get(ask.statement)
            cursor.execute(sql, ask.params, binary=ask.is_large)
            ask = plan.send(_rows_sync(cursor) if cursor.description else [])
    except StopIteration as done:
        answer: T = done.value
        return answer


async def _rows(cursor: psycopg.AsyncCursor[Row]) -> list[Row]:
    try:
        return await cursor.fetchall()
    except NOT_READ:
        return read_again(cursor, named_row(cursor))


def _rows_sync(cursor: psycopg.Cursor[Row]) -> list[Row]:
    try:
        return cursor.fetchall()
    except NOT_READ:
        return read_again(cursor, named_row(cursor))


async def _beside(executing: Coroutine[Any, Any, object], work: Callable[[], object]) -> None:
    """Call `work` while the server executes a statement."""
    task = asyncio.ensure_future(executing)
    await asyncio.sleep(0)  # send the statement now
    try:
        work()
    finally:
        await task
