"""What handlers say through logging and structlog is in the log of their attempt, when asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

import rota
from rota.model.log import LogLine
from rota.testing import eventually
from tests.workers import WorkerProcess

MakeApp = Callable[..., rota.App]
log = logging.getLogger("tests.capture")


@pytest.fixture(autouse=True)
def _all_levels() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(before)


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    return make_app(logs={"capture": True, "stored_level": "debug"})


async def run_one(app: rota.App, job: Any, **arguments: Any) -> list[LogLine]:
    async with app.worker():
        run = await job.enqueue(**arguments)
        await run.wait(20)
    return (await app.logs.show(run.id)).lines


async def test_an_async_handler_and_its_tasks(app: rota.App) -> None:
    quiet = logging.getLogger("tests.capture.quiet")
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())

    async def later() -> None:
        await asyncio.sleep(0)
        log.debug("from a task")

    @app.job
    async def talk(ctx: rota.Context) -> None:
        log.info("hello %s", "world", extra={"order": 7})
        ctx.log.info("own")
        quiet.warning("does not propagate")
        await asyncio.create_task(later())
        await asyncio.to_thread(log.error, "from a thread")
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("failed")
        log.critical("worst")

    lines = await run_one(app, talk)
    assert [(line.seq, line.level, line.message) for line in lines] == [
        (1, "info", "hello world"),
        (2, "info", "own"),
        (3, "warning", "does not propagate"),
        (4, "debug", "from a task"),
        (5, "error", "from a thread"),
        (6, "error", "failed"),
        (7, "critical", "worst"),
    ]
    assert lines[0].fields == {"logger": "tests.capture", "order": 7}
    assert "ValueError: no" in (lines[5].fields or {})["exception"]


async def test_a_thread_handler(app: rota.App) -> None:
    @app.job
    def talk() -> None:
        log.info("in a thread")

    assert [line.message for line in await run_one(app, talk)] == ["in a thread"]


async def test_structlog_however_it_is_set_up(
    app: rota.App, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )  # fmt: skip
    rendered = structlog.wrap_logger(
        logging.getLogger("tests.structlog"), wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
    )  # fmt: skip
    wrapped = structlog.wrap_logger(
        logging.getLogger("tests.structlog"), wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    )  # fmt: skip

    @app.job
    async def talk() -> None:
        plain.bind(user=7).info("plain", n=1)
        plain.debug("filtered")
        await plain.awarning("awaited")
        rendered.info("rendered", n=2)
        wrapped.error("wrapped", n=3)
        try:
            raise ValueError("no")
        except ValueError:
            plain.exception("failed")

    lines = await run_one(app, talk)
    assert [(line.level, line.message) for line in lines] == [
        ("info", "plain"),
        ("warning", "awaited"),
        ("info", "event='rendered' n=2"),
        ("error", "wrapped"),
        ("error", "failed"),
    ]
    assert lines[0].fields == {"user": 7, "n": 1}
    assert (lines[3].fields or {})["n"] == 3
    assert "ValueError: no" in (lines[4].fields or {})["exception"]
    assert '"event": "plain"' in capsys.readouterr().out


async def test_attempts_do_not_hear_each_other(app: rota.App) -> None:
    both = asyncio.Barrier(2)

    @app.job
    async def talk(name: str) -> None:
        log.info("start %s", name)
        await both.wait()
        log.info("end %s", name)

    async with app.worker():
        runs = {name: await talk.enqueue(name=name) for name in ("a", "b")}
        for run in runs.values():
            await run.wait(20)
        log.info("nobody's")
    for name, run in runs.items():
        lines = (await app.logs.show(run.id)).lines
        assert [line.message for line in lines] == [f"start {name}", f"end {name}"]


async def test_not_asked_for(make_app: MakeApp) -> None:
    app = make_app()

    @app.job
    async def silent() -> None:
        log.error("unheard")

    @app.job(capture_logs=True)
    async def heard() -> None:
        log.error("heard")

    assert await run_one(app, silent) == []
    assert [line.message for line in await run_one(app, heard)] == ["heard"]


async def test_a_job_may_be_left_out(app: rota.App) -> None:
    @app.job(capture_logs=False)
    async def silent() -> None:
        log.error("unheard")

    assert await run_one(app, silent) == []
    with pytest.raises(rota.JobError, match="capture_logs must be True or False"):

        @app.job(capture_logs="yes")  # type: ignore[typeddict-item]
        async def bad() -> None: ...


async def test_rotas_own_lines_are_not_captured(app: rota.App) -> None:
    """Else a line about a dropped line would be dropped, and so on."""

    @app.job
    async def talk(ctx: rota.Context) -> None:
        logging.getLogger("rota.worker").error("of the worker")
        logging.getLogger("rota").error("of rota")
        ctx.log.error("once")

    assert [line.message for line in await run_one(app, talk)] == ["once"]


async def test_a_line_that_logs_while_it_is_shown(app: rota.App) -> None:
    class Talkative:
        def __str__(self) -> str:
            log.info("showing %s", "it")
            return "talkative"

    @app.job
    async def talk() -> None:
        log.info("%s", Talkative())

    messages = [line.message for line in await run_one(app, talk)]
    assert messages[0] == "talkative"
    assert set(messages) <= {"talkative", "showing it"}


async def test_levels_apply(make_app: MakeApp) -> None:
    app = make_app(logs={"capture": True})

    @app.job(log_level="warning")
    async def talk() -> None:
        log.info("fine")
        log.warning("bad")

    assert [line.message for line in await run_one(app, talk)] == ["bad"]


@pytest.mark.slow
async def test_child_processes(app: rota.App, worker_process: Callable[..., WorkerProcess]) -> None:
    worker = worker_process("tests.apps.capturing:app")
    runs = {}
    for job in ("talk_apart", "talk_apart_later", "say_nothing"):
        runs[job] = await app.runs.enqueue(job)
        await runs[job].wait(30)

    async def stored() -> None:
        lines = (await app.logs.show(runs["talk_apart"].id)).lines
        assert [(line.level, line.message) for line in lines] == [
            ("info", "by logging"),
            ("warning", "by structlog"),
            ("info", "by the context"),
            ("error", "by a thread"),
        ]
        assert lines[0].fields == {"logger": "tests.capturing", "n": 1}
        assert [line.seq for line in lines] == [1, 2, 3, 4]
        lines = (await app.logs.show(runs["talk_apart_later"].id)).lines
        assert [line.message for line in lines] == ["in a coroutine"]

    await eventually(stored)
    assert (await app.logs.show(runs["say_nothing"].id)).lines == []
    # Where the child has no handlers, the worker prints; structlog has done so itself.
    assert worker.output.count("by logging") == 1
    assert worker.output.count("by structlog") == 1
    assert worker.output.count("by a thread") == 1
