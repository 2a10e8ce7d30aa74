"""What a newcomer does wrong is answered with what to do."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota


async def test_waiting_inside_the_transaction_of_the_enqueue(
    app: rota.App, database_url: str
) -> None:
    @app.job
    async def send() -> None: ...

    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        run = await send.options(connection=conn).enqueue()
        for wait in (run.wait(5), _sync(run)):
            with pytest.raises(rota.RunNotFound) as raised:
                await wait
            assert raised.value.hint is not None
            assert "its transaction has not been committed" in raised.value.hint
        await conn.rollback()


async def _sync(run: rota.Run[Any]) -> None:
    run.wait_sync(5)


async def test_a_connection_of_the_other_kind(
    app: rota.App, conn: psycopg.Connection[Any], aconn: psycopg.AsyncConnection[Any]
) -> None:
    @app.job
    async def send() -> None: ...

    with pytest.raises(rota.InputError, match="use enqueue_sync, or enqueue_many_sync"):
        await send.options(connection=conn).enqueue()
    with pytest.raises(rota.InputError, match=r"use await enqueue\(\), or await enqueue_many\(\)"):
        send.options(connection=aconn).enqueue_sync()
