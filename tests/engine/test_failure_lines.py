"""The exception of a failed attempt is a line of its log."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import psycopg
import pytest

import rota
from rota.telemetry import logging as console
from rota.testing import Clock, run_due

log = logging.getLogger("shop")


@pytest.fixture
def jobs(make_app: Any) -> rota.App:
    app: rota.App = make_app(**{"logs.capture": True})

    @app.job(max_attempts=2)
    async def fail(text: str) -> None:
        raise ConnectionError(text)

    @app.job(max_attempts=1)
    async def tell(text: str) -> None:
        try:
            raise ConnectionError(text)
        except ConnectionError:
            log.exception("the supplier is away")
            raise

    @app.job(max_attempts=1)
    def thread(text: str) -> None:
        raise ConnectionError(text)

    @app.job(max_attempts=1, timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(30)

    @app.job(max_attempts=1, log_level="critical")
    async def quiet() -> None:
        raise ConnectionError("unheard")

    @app.job
    async def fine() -> None: ...

    return app


async def lines(app: rota.App, job: str, **payload: Any) -> list[Any]:
    run = await app.runs.enqueue(job, payload)
    await run_due(app)
    return list((await app.logs.show(run.id)).lines)


async def test_the_exception_is_an_error_line_with_its_traceback(
    jobs: rota.App, clock: Clock
) -> None:
    (line,) = await lines(jobs, "fail", text="503 from the supplier")
    assert (line.level, line.attempt) == ("error", 1)
    assert line.message == "ConnectionError: 503 from the supplier"
    assert line.fields is not None
    assert line.fields["error_type"] == "ConnectionError"
    assert "raise ConnectionError(text)" in line.fields["exception"]
    clock.advance(3600)
    await run_due(jobs)
    assert [it.attempt for it in (await jobs.logs.show(line.run_id)).lines] == [1, 2]
    found = (await jobs.logs.search("503 supplier")).lines
    assert len(found) == 2
    found = (await jobs.logs.search("error_type:ConnectionError", level="error")).lines
    assert len(found) == 2


async def test_what_the_handler_has_logged_is_not_doubled(jobs: rota.App) -> None:
    (line,) = await lines(jobs, "tell", text="503")
    assert line.message == "the supplier is away"
    assert "ConnectionError: 503" in (line.fields or {})["exception"]


async def test_threads_and_timeouts_leave_a_line_too(jobs: rota.App) -> None:
    (line,) = await lines(jobs, "thread", text="in a thread")
    assert line.message == "ConnectionError: in a thread"
    (line,) = await lines(jobs, "slow")
    assert line.message == "AttemptTimeout: attempt exceeded its timeout of 0.05 s"
    assert "asyncio.sleep(30)" in (line.fields or {})["exception"]


async def test_success_leaves_none_and_the_level_of_a_job_holds(jobs: rota.App) -> None:
    assert await lines(jobs, "fine") == []
    assert await lines(jobs, "quiet") == []


async def test_hostile_and_long_errors_are_stored(jobs: rota.App) -> None:
    (line,) = await lines(jobs, "fail", text="<script>\n" + "x" * 100_000)
    assert line.message.startswith("ConnectionError: <script>\nxxx")
    assert len(line.message) < 20_000
    assert (line.fields or {})["exception"].rstrip().endswith("x")


async def test_sql_jobs_leave_a_line(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "CREATE FUNCTION public.purge() RETURNS jsonb LANGUAGE sql AS"
        ' $$SELECT \'{"success": false, "message": "3 are in use"}\'::jsonb$$'
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, max_attempts)"
        " VALUES ('purge', 'sql', 'public.purge', 1)"
    )
    (line,) = await lines(app, "purge")
    assert (line.level, line.message) == ("error", "ReportedFailure: 3 are in use")
    (group,) = await app.errors.list()
    assert (group.error_type, group.jobs, group.place) == ("ReportedFailure", ["purge"], None)


async def test_developers_see_tracebacks(
    jobs: rota.App, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_is_showing_tracebacks", True)
    monkeypatch.setattr(console, "_console", console._Console(sys.stderr))
    monkeypatch.setattr(console._Console, "is_alone", lambda *_: True)
    await lines(jobs, "fail", text="503")
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert "raise ConnectionError(text)" in shown
