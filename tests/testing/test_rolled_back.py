"""`assert_enqueued(connection=)` inside of a test that rolls back, with every driver and ORM."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

import rota
from rota.testing import assert_enqueued, assert_enqueued_async
from tests.jobs.drivers import ASYNC, SYNC, AsyncOpen, Open


class RollBack(Exception):
    """The end of such a test."""


@pytest.mark.parametrize("connected", SYNC, ids=lambda it: it.__name__)
def test_what_is_not_committed_is_seen(app: rota.App, database_url: str, connected: Open) -> None:
    @app.job
    def send(user: int) -> None: ...

    with suppress(RollBack), connected(database_url) as conn:
        send.options(connection=conn, tags=["a"], delay=60).enqueue_sync(user=7)
        (run,) = assert_enqueued(app, send, payload={"user": 7}, connection=conn, tags=["a"])
        assert run.run_at - run.created_at == timedelta(seconds=60)
        assert run.state == "scheduled"
        with pytest.raises(AssertionError, match="found 0"):
            assert_enqueued(app, send)
        with pytest.raises(AssertionError, match="expected 2 runs of send"):
            assert_enqueued(app, send, count=2, connection=conn)
        with pytest.raises(TypeError, match="no field 'colour'"):
            assert_enqueued(app, send, colour="red", connection=conn)
        raise RollBack
    with pytest.raises(AssertionError, match="none at all"):
        assert_enqueued(app, send)


@pytest.mark.parametrize("connected", ASYNC, ids=lambda it: it.__name__)
async def test_the_same_on_async_connections(
    app: rota.App, database_url: str, connected: AsyncOpen
) -> None:
    @app.job
    async def send(user: int) -> None: ...

    with suppress(RollBack):
        async with connected(database_url) as conn:
            sent = await send.options(connection=conn).enqueue(user=7)
            (run,) = await assert_enqueued_async(app, send, connection=conn, payload={"user": 7})
            assert (run.id, run.state) == (sent.id, "queued")
            with pytest.raises(AssertionError, match="found 0"):
                await assert_enqueued_async(app, send)
            raise RollBack
    with pytest.raises(AssertionError, match="none at all"):
        await assert_enqueued_async(app, send)


def test_an_async_connection_is_refused_with_a_word(app: rota.App) -> None:
    class AsyncConnection:
        __module__ = "psycopg"

    with pytest.raises(rota.InputError, match="is async"):
        assert_enqueued(app, "send", connection=AsyncConnection())
