"""What handlers get, return and raise, in each executor."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rota
from rota.testing import eventually, run_due
from tests.conftest import MakeApp
from tests.engine import bodies
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_servers


async def test_async_bodies_share_the_loop(app: rota.App) -> None:
    meeting = asyncio.Barrier(3)

    @app.job
    async def meet(n: int) -> int:
        await meeting.wait()
        return n

    runs = [await meet.enqueue(n=n) for n in range(3)]
    await run_due(app)
    assert [await run.wait(1) for run in runs] == [0, 1, 2]


async def test_def_bodies_run_in_threads_beside_each_other(app: rota.App) -> None:
    meeting = threading.Barrier(3)
    main = threading.get_ident()

    @app.job(executor="thread")
    def meet() -> bool:
        meeting.wait(20)
        return threading.get_ident() != main

    runs = [await meet.enqueue() for _ in range(3)]
    await run_due(app)
    assert [await run.wait(1) for run in runs] == [True] * 3


async def test_children_are_replaced_as_the_settings_say(make_app: MakeApp) -> None:
    app = make_app(**{"worker.concurrency": 1, "worker.child_max_runs": 2})
    job = app.job(executor="process")(bodies.own_pid)
    async with app.worker():
        pids = [(await (await job.enqueue(n=n)).wait(30))[1] for n in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_process_bodies_run_in_children(app: rota.App) -> None:
    job = app.job(executor="process")(bodies.own_pid)
    runs = [await job.enqueue(n=n) for n in range(3)]
    await run_due(app)
    results = [await run.wait(1) for run in runs]
    assert [n for n, _ in results] == [0, 1, 2]
    assert os.getpid() not in [pid for _, pid in results]


async def test_a_child_speaks_through_its_context(app: rota.App, engine: Engine) -> None:
    job = app.job(executor="process", queue="mail")(bodies.tell)
    run = await job.options(key="k").enqueue()
    await run_due(app)
    assert await run.wait(1) == {"run": run.id, "attempt": 1, "queue": "mail", "key": "k"}
    (line,) = engine.rows("SELECT message, fields FROM rota.logs WHERE run_id = %s", run.id)
    assert line["message"] == "from the child"
    assert line["fields"]["pid"] != os.getpid()


async def test_the_context_tells_everything(app: rota.App) -> None:
    seen: list[dict[str, Any]] = []

    @app.job(queue="mail", max_attempts=4, timeout=30)
    async def look(ctx: rota.Context, n: int) -> None:
        fields = (
            "job run_id attempt max_attempts queue priority tenant key tags metadata queued_at"
            " started_at deadline triggered_by scheduled_for is_catch_up lateness schedule"
            " is_cancelled"
        )
        seen.append({name: getattr(ctx, name) for name in fields.split()})

    run = await look.options(
        key="k", priority=2, tenant="acme", tags=["a"], metadata={"b": 1}
    ).enqueue(n=1)
    plain = await look.enqueue(n=2)
    await run_due(app)
    rich, bare = sorted(seen, key=lambda line: line["run_id"])
    assert rich.pop("queued_at") <= rich["started_at"] <= datetime.now(UTC)
    assert rich["deadline"] == rich.pop("started_at") + timedelta(seconds=30)
    assert rich.pop("deadline")
    assert rich.pop("lateness") >= timedelta()
    assert rich == {
        "job": "look", "run_id": run.id, "attempt": 1, "max_attempts": 4, "queue": "mail",
        "priority": 2, "tenant": "acme", "key": "k", "tags": ["a"], "metadata": {"b": 1},
        "triggered_by": {"type": "code"}, "scheduled_for": None, "is_catch_up": False,
        "schedule": None, "is_cancelled": False,
    }  # fmt: skip
    assert (bare["run_id"], bare["tenant"], bare["tags"], bare["metadata"], bare["key"]) == (
        plain.id, "", [], {}, None,
    )  # fmt: skip


async def test_sql_says_that_it_was_sql(app: rota.App, engine: Engine) -> None:
    seen: list[object] = []

    @app.job
    async def look(ctx: rota.Context) -> None:
        seen.append(ctx.triggered_by)

    await app.database.open()
    engine.one("SELECT rota.enqueue('look')")
    await run_due(app)
    assert seen == [{"type": "sql"}]


async def test_a_failure_is_tried_again_until_it_works(app: rota.App, engine: Engine) -> None:
    @app.job(max_attempts=3)
    async def third_time(ctx: rota.Context) -> str:
        if ctx.attempt < 3:
            raise LookupError(f"attempt {ctx.attempt}")
        return "charm"

    run = await third_time.enqueue()
    await run_due(app)
    assert await run.wait(1) == "charm"
    first, second, third = engine.attempts(run.id)
    assert (first["state"], first["error_type"], first["error"]) == (
        "failed", "LookupError", "attempt 1",
    )  # fmt: skip
    assert "raise LookupError" in first["traceback"]
    assert "slots.py" not in first["traceback"]
    assert (second["error"], third["state"], third["error"]) == ("attempt 2", "succeeded", None)


async def test_attempts_are_used_up(app: rota.App, engine: Engine) -> None:
    @app.job(max_attempts=2)
    async def never() -> None:
        raise LookupError("no")

    run = await never.enqueue()
    await run_due(app)
    with pytest.raises(rota.RunFailed, match="attempts used up: no"):
        await run.wait(1)
    assert engine.attempt_states(run.id) == ["failed", "failed"]


async def test_retry_snooze_and_cancel(app: rota.App, engine: Engine) -> None:
    @app.job(max_attempts=2)
    async def ask(ctx: rota.Context, what: str) -> str:
        if ctx.attempt == 1 and what == "retry":
            raise rota.Retry(0, "once more")
        if ctx.attempt < 4 and what == "snooze":
            raise rota.Snooze(0)
        if what == "cancel":
            raise rota.Cancel("not needed")
        return what

    runs = {what: await ask.enqueue(what=what) for what in ("retry", "snooze", "cancel")}
    await run_due(app)
    assert await runs["retry"].wait(1) == "retry"
    assert engine.attempts(runs["retry"].id)[0]["error"] == "once more"
    assert await runs["snooze"].wait(1) == "snooze"
    assert engine.attempt_states(runs["snooze"].id) == ["snoozed"] * 3 + ["succeeded"]
    info = await runs["cancel"].info()
    assert (info.state, info.end_reason) == ("cancelled", "cancelled by its handler: not needed")
    assert info.attempts_used == 0


async def test_give_up_on_and_retry_on(app: rota.App) -> None:
    @app.job(max_attempts=3, give_up_on=(KeyError,))
    async def fussy(kind: str) -> None:
        raise KeyError("k") if kind == "key" else ValueError("v")

    given_up, tried = await fussy.enqueue(kind="key"), await fussy.enqueue(kind="value")
    await run_due(app)
    info = await given_up.info()
    assert (info.end_reason, info.attempt) == ("gave up on KeyError", 1)
    assert (await tried.info()).attempt == 3


def recurse() -> None:
    recurse()


def interrupt() -> None:
    raise KeyboardInterrupt


def leave() -> None:
    raise SystemExit(3)


def cancelled() -> None:
    raise asyncio.CancelledError


def stop_iteration() -> None:
    raise StopIteration


def generator_exit() -> None:
    raise GeneratorExit


RUDE: dict[str, Callable[[], None]] = {
    "RecursionError": recurse,
    "KeyboardInterrupt": interrupt,
    "SystemExit": leave,
    "CancelledError": cancelled,
    "GeneratorExit": generator_exit,
}


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_whatever_a_handler_raises_is_its_failure(
    app: rota.App, engine: Engine, executor: str
) -> None:
    if executor == "async":

        @app.job(max_attempts=1)
        async def rude(kind: str) -> None:
            RUDE[kind]()

        @app.job
        async def polite(n: int) -> int:
            return n
    else:

        @app.job(max_attempts=1, executor="thread")
        def rude(kind: str) -> None:
            RUDE[kind]()

        @app.job(executor="thread")
        def polite(n: int) -> int:
            return n

    runs = {kind: await rude.enqueue(kind=kind) for kind in RUDE}
    others = [await polite.enqueue(n=n) for n in range(20)]
    await run_due(app)
    for kind, run in runs.items():
        (attempt,) = engine.attempts(run.id)
        assert attempt["state"] == "failed"
        assert attempt["error_type"].endswith(kind)
    assert [await run.wait(1) for run in others] == list(range(20))


async def test_a_child_that_leaves_ends_its_own_attempt(app: rota.App, engine: Engine) -> None:
    leave = app.job(executor="process", max_attempts=1)(bodies.leave)
    fail = app.job(executor="process", max_attempts=1)(bodies.fail)
    snooze = app.job(executor="process")(bodies.snooze_once)
    left, failed, rested = (
        await leave.enqueue(),
        await fail.enqueue(words="from afar"),
        await snooze.enqueue(),
    )
    await run_due(app)
    assert engine.attempt_states(left.id) == ["failed"]
    (attempt,) = engine.attempts(failed.id)
    assert (attempt["error_type"], attempt["error"]) == ("LookupError", "from afar")
    assert "bodies.py" in attempt["traceback"]
    assert await rested.wait(1) == "rested"
    assert engine.attempt_states(rested.id) == ["snoozed", "succeeded"]


async def test_context_variables_do_not_leak(make_app: Callable[..., rota.App]) -> None:
    app = make_app(worker={"concurrency": 1})
    colour = contextvars.ContextVar("colour", default="none")
    colour.set("the test's")
    seen: list[str] = []

    @app.job
    async def paint(n: int) -> None:
        seen.append(colour.get())
        colour.set(f"red {n}")
        await asyncio.sleep(0)

    @app.job(executor="thread")
    def paint_thread(n: int) -> None:
        seen.append(colour.get())
        colour.set(f"blue {n}")

    for n in range(3):
        await paint.enqueue(n=n)
        await paint_thread.enqueue(n=n)
    await run_due(app)
    assert seen == ["none"] * 6


async def test_progress_and_logs_are_seen_while_it_runs(app: rota.App, engine: Engine) -> None:
    seen = asyncio.Event()

    @app.job
    async def slow(ctx: rota.Context) -> None:
        ctx.log.bind(order=7).warning("half way", left=3)
        ctx.log.debug("not stored")
        ctx.progress(0.5, "half")
        await seen.wait()

    run = await slow.enqueue()
    async with app.worker():

        async def shown() -> None:
            info = await run.info()
            assert (info.progress, info.message) == (0.5, "half")
            assert engine.one("SELECT count(*) FROM rota.logs") == 1

        await eventually(shown)
        seen.set()
        await run.wait(20)
    (line,) = engine.rows("SELECT * FROM rota.logs")
    assert (line["run_id"], line["attempt"], line["level"]) == (run.id, 1, "warning")
    assert (line["message"], line["fields"]) == ("half way", {"order": 7, "left": 3})


async def test_an_expired_run_is_not_started(app: rota.App) -> None:
    started: list[int] = []

    @app.job
    async def late() -> None:
        started.append(1)

    run = await late.options(expires_at=datetime.now(UTC)).enqueue()
    await run_due(app)
    info = await run.info()
    assert (info.state, info.end_reason, started) == ("cancelled", "expired", [])


async def test_a_payload_that_no_longer_fits_ends_with_words(app: rota.App, engine: Engine) -> None:
    @app.job
    async def count(n: int) -> None: ...

    await app.database.open()
    run = engine.one("SELECT rota.enqueue('count', '{\"n\": \"many\"}')")
    await run_due(app)
    ended = engine.run(run)
    assert ended["state"] == "failed"
    assert "n" in ended["last_error"]
