"""`context()` is a whole `rota.Context`, for handlers that a unit test calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rota
from rota.testing import LoggedLine, context

AT = datetime(2031, 5, 1, 12, tzinfo=UTC)


def test_every_attribute_has_a_value() -> None:
    ctx = context()
    names = [name for name in dir(rota.Context) if not name.startswith("_")]
    for name in names:
        getattr(ctx, name)
    assert (ctx.job, ctx.run_id, ctx.attempt, ctx.max_attempts) == ("job", 1, 1, 3)
    assert (ctx.tenant, ctx.key, ctx.tags, ctx.metadata) == ("", None, [], {})
    assert ctx.triggered_by == {"type": "code"}
    assert ctx.lateness == timedelta()
    assert ctx.deadline is None


def test_what_is_given_is_what_the_handler_sees() -> None:
    ctx = context(
        "send", run_id=7, attempt=2, max_attempts=5, queue="mail", priority=1, tenant="acme",
        key="k", tags=["a"], metadata={"b": 1}, schedule="daily", scheduled_for=AT,
        triggered_by={"type": "catch_up", "since": AT.isoformat()}, started_at=AT,
        lateness=timedelta(minutes=1), timeout=30,
    )  # fmt: skip
    assert (ctx.job, ctx.run_id, ctx.attempt, ctx.max_attempts) == ("send", 7, 2, 5)
    assert (ctx.queue, ctx.priority, ctx.tenant, ctx.key) == ("mail", 1, "acme", "k")
    assert (ctx.tags, ctx.metadata, ctx.schedule) == (["a"], {"b": 1}, "daily")
    assert (ctx.scheduled_for, ctx.is_catch_up) == (AT, True)
    assert ctx.data_interval == (AT, AT)
    assert ctx.lateness == timedelta(minutes=1)
    assert ctx.deadline == AT + timedelta(seconds=30)


def test_it_remembers_what_the_handler_said() -> None:
    ctx = context()
    ctx.log.bind(user=7).warning("careful", n=1)
    ctx.progress(0.5, "half")
    assert ctx.lines == [LoggedLine("warning", "careful", {"user": 7, "n": 1})]
    assert ctx.progresses == [(0.5, "half")]
    assert not ctx.is_cancelled
    ctx.cancel()
    assert ctx.is_cancelled
    with pytest.raises(ValueError, match="fraction"):
        ctx.progress(2)


async def test_a_transaction_is_on_the_given_connection() -> None:
    given: Any = object()
    ctx = context(connection=given)
    async with ctx.transaction() as conn:
        assert conn is given
    with ctx.transaction_sync("some pool") as conn:
        assert conn is given
    with pytest.raises(RuntimeError, match=r"context\(connection=…\)"):
        async with context().transaction():
            pass


def test_a_job_is_called_with_it(app: rota.App) -> None:
    @app.job
    def double(ctx: rota.Context, n: int) -> int:
        return n * ctx.attempt

    assert double(context(double, attempt=3), 2) == 6
