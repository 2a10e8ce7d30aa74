"""Hooks: round attempts in every executor, round the life of a worker, and after failures."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import context, eventually, run_all_sync
from tests.workers import WorkerProcess

KINDS = ["in_coroutine", "in_thread", "in_process", "in_process_coroutine"]
WorkerMaker = Callable[..., WorkerProcess]


# Round attempts, in a real worker.


@pytest.mark.parametrize("settings", [{}, {"worker.processes": 2}])
async def test_hooks_surround_attempts_and_lives_in_every_executor(
    worker_process: WorkerMaker, database_url: str, settings: dict[str, Any]
) -> None:
    worker = worker_process("tests.apps.hooked:app", wait=False, **settings)
    async with _sender(database_url) as app:
        for kind in KINDS:
            run = await _send(app, kind)
            found = await run.wait(60)
            hooks = [f"first {run.id}", f"second {run.id}"]
            expected = {"seen": hooks, "client": f"client of {found['pid']}", "pool": found["pid"]}
            assert found == expected | {"pid": found["pid"]}
            await eventually(partial(_said, app, run.id))
    worker.terminate()
    worker.wait()
    begun = worker.output.count("lifespan begins")
    assert begun == worker.output.count("lifespan ends") >= 2  # the worker's and its child's


async def _said(app: rota.App, run: int) -> None:
    lines = (await app.logs.show(run)).lines
    assert [line.fields["hook"] for line in lines] == ["second", "first"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_hook_may_replace_an_exception(
    worker_process: WorkerMaker, database_url: str, kind: str
) -> None:
    worker_process("tests.apps.hooked:app")
    async with _sender(database_url) as app:
        run = await _send(app, kind, key="unknown")
        with pytest.raises(rota.RunFailed):
            await run.wait(60)
        info = await app.runs.get(run.id)
        assert (info.state, info.end_reason) == ("cancelled", "cancelled by its handler: by a hook")


async def test_hooks_surround_an_isolated_attempt(
    worker_process: WorkerMaker, database_url: str
) -> None:
    worker_process("tests.apps.hooked:app", wait=False, **{"worker.processes": 2})
    async with _sender(database_url) as app:
        run = await _send(app, "die_once")
        found = await run.wait(60)
        assert found["seen"] == [f"first {run.id}", f"second {run.id}"]
        assert found["client"] == f"client of {found['pid']}"


@asynccontextmanager
async def _sender(url: str) -> AsyncIterator[rota.App]:
    async with rota.App(url, name="tests.apps.hooked") as app:
        yield app


async def _send(app: rota.App, job: str, **payload: Any) -> rota.Run[Any]:
    """By name: the worker has the hooks, and says which jobs there are."""

    async def is_known() -> bool:
        return job in [known.name for known in await app.jobs.list()]

    await eventually(is_known, 60)
    return await app.runs.enqueue(job, payload)


# Their rules, inside this process.


async def test_order_result_and_context_variables(app: rota.App) -> None:
    calls: list[Any] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")

    @app.around_attempt
    async def outer(ctx: rota.Context) -> AsyncIterator[None]:
        token = variable.set(f"{ctx.job} {ctx.attempt}")
        calls.append("outer")
        result = yield
        calls.append(("outer", result))
        variable.reset(token)

    @app.around_attempt
    @contextmanager
    def inner(ctx: rota.Context) -> Iterator[None]:
        calls.append("inner")
        yield
        calls.append("inner left")

    @app.job
    async def asynchronous() -> str:
        return variable.get()

    @app.job
    def synchronous() -> str:
        return variable.get()

    async with app.worker():
        for job in (asynchronous, synchronous):
            calls.clear()
            assert await (await job.enqueue()).wait(30) == f"{job.name} 1"
            assert calls == ["outer", "inner", "inner left", ("outer", f"{job.name} 1")]


async def test_a_hook_that_fails_fails_the_attempt_with_its_writes(
    app: rota.App, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("CREATE TABLE written (n int)")

    @app.around_attempt
    def fails_after(ctx: rota.Context) -> Iterator[None]:
        yield
        raise ValueError("too late")

    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as own:
            await own.execute("INSERT INTO written VALUES (1)")

    @app.job(max_attempts=1)
    def write_in_thread(ctx: rota.Context) -> None:
        with ctx.transaction_sync() as own:
            own.execute("INSERT INTO written VALUES (1)")

    async with app.worker():
        for job in (write, write_in_thread):
            run = await job.enqueue()
            with pytest.raises(rota.RunFailed, match="too late"):
                await run.wait(30)
    assert conn.execute("SELECT count(*) FROM written").fetchone() == (0,)


async def test_a_hook_may_handle_an_exception_or_refuse_to_start(app: rota.App) -> None:
    called = []

    @app.around_attempt
    async def hook(ctx: rota.Context) -> AsyncIterator[None]:
        if ctx.job == "refused":
            raise rota.Cancel("not today")
        try:
            yield
        except KeyError:
            ctx.log.warning("nothing there")

    @app.job
    async def handled() -> int:
        raise KeyError("x")

    @app.job
    async def refused() -> None:
        called.append("refused")

    async with app.worker():
        assert await (await handled.enqueue()).wait(30) is None
        run = await refused.enqueue()
        with pytest.raises(rota.RunFailed, match="not today"):
            await run.wait(30)
    assert called == []


async def test_the_traceback_is_the_handlers(app: rota.App) -> None:
    @app.around_attempt
    def nothing(ctx: rota.Context) -> Iterator[None]:
        yield

    @app.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("here")

    async with app.worker():
        run = await fails.enqueue()
        with pytest.raises(rota.RunFailed):
            await run.wait(30)
    (attempt,) = (await app.runs.details(run.id)).attempts
    assert attempt.traceback is not None
    assert "in fails" in attempt.traceback
    assert "inside.py" not in attempt.traceback
    assert "in nothing" not in attempt.traceback


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_attempt_leaves_its_hooks(app: rota.App, is_async: bool) -> None:
    begun, left = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.around_attempt
    async def hook(ctx: rota.Context) -> AsyncIterator[None]:
        async with asyncio.timeout(60):
            try:
                yield
            finally:
                left.set()

    @app.job
    async def asynchronous() -> None:
        begun.set()
        await asyncio.sleep(60)

    @app.job
    def synchronous(ctx: rota.Context) -> None:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.is_cancelled:
            threading.Event().wait(0.01)

    async with app.worker():
        run = await (asynchronous if is_async else synchronous).enqueue()
        await asyncio.wait_for(begun.wait(), 30)
        await run.cancel()
        with pytest.raises(rota.RunFailed, match="cancelled"):
            await run.wait(30)
        await eventually(left.is_set)


async def test_hooks_that_yield_never_or_twice_are_said(app: rota.App) -> None:
    @app.around_attempt
    def odd(ctx: rota.Context) -> Iterator[None]:
        if ctx.job == "never":
            return
        yield
        if ctx.job == "twice":
            yield

    @app.job(max_attempts=1)
    async def never() -> None: ...

    @app.job(max_attempts=1)
    async def twice() -> None: ...

    async with app.worker():
        for job, words in ((never, "returned without a yield"), (twice, "yielded a second time")):
            run = await job.enqueue()
            with pytest.raises(rota.RunFailed, match=words):
                await run.wait(30)


def test_what_is_no_hook_is_refused(app: rota.App) -> None:
    def no_yield(ctx: rota.Context) -> None: ...
    def too_many(a: Any, b: Any) -> Iterator[None]:
        yield

    with pytest.raises(rota.JobError, match=r"around_attempt must be a function with one yield"):
        app.around_attempt(no_yield)  # type: ignore[type-var]
    with pytest.raises(rota.JobError, match="takes one argument"):
        app.around_attempt(too_many)  # type: ignore[type-var]
    with pytest.raises(rota.JobError, match="takes the application, or nothing"):
        app.lifespan(too_many)  # type: ignore[type-var]
    with pytest.raises(rota.JobError, match="on_failure must be a function of two arguments"):
        app.job(on_failure=no_yield)(lambda: None)  # type: ignore[call-overload]


# Lives.


async def test_a_lifespan_surrounds_everything_that_the_worker_does(app: rota.App) -> None:
    calls: list[str] = []

    class Client:
        is_open = True

    @app.lifespan
    async def client() -> AsyncIterator[dict[str, Any]]:
        async with asyncio.TaskGroup() as group:
            calls.append("begins")
            waiting = group.create_task(asyncio.sleep(60))
            made = Client()
            yield {"client": made}
            made.is_open = False
            waiting.cancel()
            calls.append("ends")

    @app.job
    async def use(ctx: rota.Context) -> bool:
        calls.append("runs")
        return bool(ctx.state["client"].is_open)

    run = await use.enqueue()
    async with app.worker():
        assert await run.wait(30) is True
    assert calls == ["begins", "runs", "ends"]


async def test_a_sync_lifespan_has_one_thread(app: rota.App) -> None:
    threads = []

    @app.lifespan
    def where() -> Iterator[None]:
        threads.append(threading.current_thread())
        yield
        threads.append(threading.current_thread())

    async with app.worker():
        pass
    assert threads[0] is threads[1] is not threading.current_thread()


async def test_a_lifespan_that_fails_stops_the_start(app: rota.App) -> None:
    calls = []

    @app.lifespan
    def first() -> Iterator[None]:
        yield
        calls.append("first left")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        raise ConnectionError("no server")
        yield

    with pytest.raises(ConnectionError, match="no server"):
        async with app.worker():
            pass
    assert calls == []
    assert [worker for worker in await app.workers.list() if worker.status != "gone"] == []


async def test_a_lifespan_that_ends_by_itself_stops_the_worker(app: rota.App) -> None:
    async def fails(when: asyncio.Event) -> None:
        await when.wait()
        raise ConnectionError("lost")

    when = asyncio.Event()

    @app.lifespan
    async def consumer() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails(when))
            yield

    worker = app.worker()
    await worker.start()
    when.set()
    await asyncio.wait_for(worker.wait_stopped(), 30)
    assert worker.exit_code != 0


async def test_an_error_at_the_end_of_a_lifespan_is_logged(
    app: rota.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.lifespan
    def bad() -> Iterator[None]:
        yield
        raise ValueError("at the end")

    async with app.worker():
        pass
    assert "a lifespan failed at the end of the worker" in caplog.text


async def test_a_lifespan_must_yield_a_dict(app: rota.App) -> None:
    @app.lifespan  # type: ignore[type-var]
    def bad() -> Iterator[int]:
        yield 7

    with pytest.raises(rota.JobError, match="yielded int"):
        await app.worker().start()


def test_lifespan_as_an_argument_and_in_tests(database_url: str) -> None:
    @asynccontextmanager
    async def lifespan(app: rota.App) -> AsyncIterator[dict[str, Any]]:
        yield {"name": app.name}

    app = rota.App(database_url, name="mine", lifespan=lifespan)

    @app.job
    def use(ctx: rota.Context) -> str:
        return str(ctx.state["name"])

    use.enqueue_sync()
    (ended,) = run_all_sync(app)
    assert ended.result == "mine"
    assert use(context(state={"name": "unit"})) == "unit"
    app.close_sync()


# Failures.


async def test_on_failure_hears_of_every_failed_attempt(app: rota.App) -> None:
    calls: list[tuple[str, str, str, bool, float | None]] = []

    def note(who: str, ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        kind = type(failure.error).__name__
        calls.append((who, kind, failure.message, failure.is_final, failure.retry_in))

    @app.on_failure
    async def of_app(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        note(f"app {ctx.job} {ctx.attempt}", ctx, failure)

    def of_job(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        note("job", ctx, failure)

    @app.job(max_attempts=2, on_failure=of_job)
    async def fails() -> None:
        raise ValueError("no")

    @app.job(max_attempts=1)
    def in_thread() -> None:
        raise KeyError("x")

    @app.job(max_attempts=1, timeout=0.3)
    async def late() -> None:
        await asyncio.sleep(60)

    @app.job
    async def cancels() -> None:
        raise rota.Cancel("enough")

    async with app.worker():
        for job in (fails, in_thread, late, cancels):
            run = await job.enqueue()
            with pytest.raises(rota.RunFailed):
                await run.wait(30)
    assert calls == [
        ("job", "ValueError", "no", False, 0.0),
        ("app fails 1", "ValueError", "no", False, 0.0),
        ("job", "ValueError", "no", True, None),
        ("app fails 2", "ValueError", "no", True, None),
        ("app in_thread 1", "KeyError", "'x'", True, None),
        ("app late 1", "AttemptTimeout", calls[5][2], True, None),
    ]


async def test_on_failure_hears_of_sql_jobs_and_not_of_refused_payloads(
    app: rota.App, conn: psycopg.Connection[Any]
) -> None:
    calls = []

    @app.on_failure
    def hear(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        calls.append((ctx.job, type(failure.error).__name__, failure.is_final))

    conn.execute(
        "CREATE FUNCTION public.fails() RETURNS jsonb LANGUAGE sql AS "
        "$$ SELECT jsonb_build_object('success', false, 'message', 'no stock') $$"
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, max_attempts)"
        " VALUES ('fails', 'sql', 'public.fails', 1)"
    )

    @app.job
    async def send(n: int) -> None: ...

    async with app.worker():
        run = (await app.runs.enqueue("fails", {})).id
        await eventually(lambda: _has_ended(conn, run))
        await eventually(lambda: bool(calls))
        found = conn.execute("SELECT rota.enqueue('send', '{\"n\": \"many\"}')").fetchone()
        assert found is not None
        await eventually(lambda: _has_ended(conn, found[0]))
    # A refusal is about the worker: what becomes of the run is decided after it.
    assert calls == [("fails", "RotaError", True)]


def _has_ended(conn: psycopg.Connection[Any], run: int) -> bool:
    found = conn.execute("SELECT state FROM rota.runs WHERE id = %s", [run]).fetchone()
    return found is not None and found[0] == "failed"


async def test_a_failure_hook_that_fails_changes_nothing(
    app: rota.App, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @app.on_failure
    async def bad(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        raise asyncio.CancelledError if ctx.attempt == 1 else SystemExit(3)

    @app.on_failure
    def good(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
        calls.append(ctx.attempt)

    @app.job(max_attempts=2)
    async def fails() -> None:
        raise ValueError("no")

    @app.job
    async def works() -> int:
        return 1

    async with app.worker():
        run = await fails.enqueue()
        with pytest.raises(rota.RunFailed, match="no"):
            await run.wait(30)
        assert await (await works.enqueue()).wait(30) == 1
    assert calls == [1, 2]
    assert caplog.text.count("an on_failure hook failed") == 2
