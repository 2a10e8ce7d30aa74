"""The handle alone: what it makes of the answers. The answers themselves are the store's."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from rota.errors import RotaError, RunFailed
from rota.jobs.handle import Run
from rota.model.run import RunEnd, RunInfo


def info(**known: Any) -> RunInfo:
    return RunInfo(**({field.name: None for field in fields(RunInfo)} | {"id": 7} | known))


class Reader:
    """Answers with one RunInfo and notes what it was asked."""

    def __init__(self, answer: RunInfo) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def get_run_sync(self, run_id: int) -> RunInfo:
        self.asked.append(("get", run_id))
        return self.answer

    def wait_run_sync(self, run_id: int, timeout: float | None) -> RunEnd:
        self.asked.append(("wait", run_id, timeout))
        return RunEnd.of(self.answer)

    def cancel_run_sync(self, run_id: int, reason: str | None) -> str:
        self.asked.append(("cancel", run_id, reason))
        return "requested"

    def retry_run_sync(self, run_id: int, reason: str | None) -> None:
        self.asked.append(("retry", run_id, reason))

    async def get_run(self, run_id: int) -> RunInfo:
        return self.get_run_sync(run_id)

    async def wait_run(self, run_id: int, timeout: float | None) -> RunEnd:
        return self.wait_run_sync(run_id, timeout)

    async def cancel_run(self, run_id: int, reason: str | None) -> str:
        return self.cancel_run_sync(run_id, reason)

    async def retry_run(self, run_id: int, reason: str | None) -> None:
        self.retry_run_sync(run_id, reason)


async def test_wait_answers_the_result() -> None:
    reader = Reader(info(state="succeeded", result={"to": "x"}))
    run = Run(7, "job", reader=reader)
    assert await run.wait(timeout=timedelta(seconds=5)) == {"to": "x"}
    assert run.wait_sync() == {"to": "x"}
    assert reader.asked == [("wait", 7, 5.0), ("wait", 7, None)]


async def test_wait_raises_what_became_of_the_run() -> None:
    ended = info(state="failed", end_reason="attempts used up", last_error="boom")
    run = Run(7, "job", reader=Reader(ended))
    with pytest.raises(RunFailed, match="run 7 ended as failed: attempts used up: boom"):
        await run.wait()
    with pytest.raises(RunFailed):
        run.wait_sync()


async def test_the_other_questions_and_commands() -> None:
    reader = Reader(info(state="queued"))
    run = Run(7, "job", is_duplicate=True, reader=reader)
    assert (await run.state(), run.state_sync()) == ("queued", "queued")
    assert await run.info() == run.info_sync() == reader.answer
    reader.asked.clear()
    assert (await run.cancel("why"), run.cancel_sync()) == ("requested", "requested")
    await run.retry()
    run.retry_sync("again")
    assert reader.asked == [
        ("cancel", 7, "why"),
        ("cancel", 7, None),
        ("retry", 7, None),
        ("retry", 7, "again"),
    ]
    assert repr(run) == "<Run 7 of job (duplicate)>"
    assert {run, Run(7, "job")} == {run}


async def test_a_handle_without_an_application_says_so() -> None:
    with pytest.raises(RotaError, match="without an application"):
        await Run(7, "job").info()
