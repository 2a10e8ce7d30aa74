"""`@app.on_dead_letter`: a job that hears of every run that has failed permanently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]
QUICK: dict[str, Any] = {"backoff": {"base": 0.01, "jitter": 0}}
LETTERS = """
SELECT r.job, r.payload -> 'letter' ->> 'run_id', r.payload -> 'letter' ->> 'end_reason'
FROM rota.runs r WHERE r.job LIKE 'on_dead_letter.%' ORDER BY r.id
"""


@pytest.mark.parametrize("is_async", [True, False])
async def test_it_hears_of_a_run_that_has_used_up_its_attempts(
    make_app: Callable[..., rota.App], is_async: bool
) -> None:
    app, heard = make_app(), []

    @app.job(max_attempts=2, queue="mail", **QUICK)
    async def charge(order: int) -> None:
        raise ValueError(f"order {order} declined")

    if is_async:

        @app.on_dead_letter
        async def report(ctx: rota.Context, letter: rota.DeadLetter) -> None:
            heard.append(letter)

    else:

        @app.on_dead_letter(max_attempts=7)
        def report(ctx: rota.Context, letter: rota.DeadLetter) -> None:
            heard.append(letter)

    async with app.worker():
        run = await charge.options(tenant="acme").enqueue(7)
        with pytest.raises(rota.RunFailed):
            await run.wait(60)
        await eventually(lambda: len(heard) == 1)
    (letter,) = heard
    assert (letter.run_id, letter.job, letter.queue, letter.tenant) == (
        run.id, "charge", "mail", "acme",
    )  # fmt: skip
    assert (letter.attempt, letter.end_reason) == (2, "attempts used up")
    assert (letter.error_type, letter.error) == ("ValueError", "order 7 declined")
    assert letter.finished_at == (await app.runs.get(run.id)).finished_at
    assert (await app.jobs.get("on_dead_letter.report")).max_attempts == (3 if is_async else 7)


async def test_it_hears_of_a_refused_payload(make_app: Callable[..., rota.App], conn: Conn) -> None:
    app = make_app()

    @app.job
    async def charge(order: int) -> None: ...

    @app.on_dead_letter
    async def report(ctx: rota.Context, letter: rota.DeadLetter) -> None: ...

    async with app.worker():
        found = conn.execute("""SELECT rota.enqueue('charge', '{"order": "none"}')""").fetchone()
        assert found is not None
        wanted = [("on_dead_letter.report", str(found[0]), "payload refused")]
        await eventually(lambda: conn.execute(LETTERS).fetchall() == wanted)


async def test_it_may_be_about_some_jobs(make_app: Callable[..., rota.App], conn: Conn) -> None:
    app = make_app()

    @app.job(max_attempts=1)
    async def charge() -> None:
        raise ValueError("declined")

    @app.job(max_attempts=1)
    async def other() -> None:
        raise ValueError("something else")

    @app.on_dead_letter(jobs=[charge, "pack"])
    async def report(ctx: rota.Context, letter: rota.DeadLetter) -> None: ...

    async with app.worker():
        runs = [await other.enqueue(), await charge.enqueue()]
        for run in runs:
            with pytest.raises(rota.RunFailed):
                await run.wait(60)
    assert conn.execute(LETTERS).fetchall() == [
        ("on_dead_letter.report", str(runs[1].id), "attempts used up")
    ]


async def test_its_own_dead_letters_are_not_passed_to_it(
    make_app: Callable[..., rota.App], conn: Conn
) -> None:
    app = make_app()

    @app.job(max_attempts=1)
    async def charge() -> None:
        raise ValueError("declined")

    @app.on_dead_letter(max_attempts=1)
    async def report(ctx: rota.Context, letter: rota.DeadLetter) -> None:
        raise RuntimeError("no network")

    async with app.worker():
        await charge.enqueue()
        ended = "SELECT state FROM rota.runs WHERE job = 'on_dead_letter.report'"
        await eventually(lambda: conn.execute(ended).fetchall() == [("failed",)])
    assert len(conn.execute(LETTERS).fetchall()) == 1


def test_it_is_enqueued_with_the_end_whoever_writes_it(engine: Engine, conn: Conn) -> None:
    """By the rescue of a lost worker, and before that transaction nobody sees it."""
    conn.execute(
        "CREATE FUNCTION public.none() RETURNS jsonb LANGUAGE sql AS"
        """ $$ SELECT '{"success": true, "message": ""}'::jsonb $$"""
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, events) VALUES"
        " ('on_dead_letter.sql', 'sql', 'public.none', '{rota.dead_letter}')"
    )
    engine.job("work")
    run = engine.enqueue(max_attempts=1)
    worker = engine.worker("work")
    assert engine.claim_one(worker)["id"] == run
    assert conn.execute(LETTERS).fetchall() == []
    engine.lose(worker)
    engine.rescue()
    assert conn.execute(LETTERS).fetchall() == [
        ("on_dead_letter.sql", str(run), "attempts used up")
    ]


async def test_a_letter_that_cannot_be_passed_on_lets_the_run_end(
    make_app: Callable[..., rota.App], conn: Conn
) -> None:
    app = make_app()
    app.queue("letters", max_waiting=1)

    @app.job(max_attempts=1)
    async def charge() -> None:
        raise ValueError("declined")

    @app.on_dead_letter(queue="letters", enabled=False)
    async def report(ctx: rota.Context, letter: rota.DeadLetter) -> None: ...

    async with app.worker():
        runs = [await charge.enqueue() for _ in range(5)]
        for run in runs:
            with pytest.raises(rota.RunFailed):
                await asyncio.wait_for(run.wait(60), 60)
    assert 1 <= len(conn.execute(LETTERS).fetchall()) <= 5


def test_what_is_no_such_function(make_app: Callable[..., rota.App]) -> None:
    app = make_app()
    with pytest.raises(rota.JobError, match="needs a function of"):

        @app.on_dead_letter  # type: ignore[arg-type]
        async def report(ctx: rota.Context, run_id: int) -> None: ...

    with pytest.raises(rota.JobError, match="events is not for it"):

        @app.on_dead_letter(events=["x"])
        async def other(ctx: rota.Context, letter: rota.DeadLetter) -> None: ...
