"""One attempt in its slot: which executor calls the body, and what is reported of its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import rota
from rota.engine.attempts.attempt import RunningAttempt, Stop
from rota.engine.attempts.runner import Runner
from rota.engine.claiming.slots import ClaimCommit
from rota.engine.executors.base import (
    CalledAttempt,
    CallOutcome,
    Executor,
    Lost,
    NotBegun,
    Returned,
)
from rota.model.outcome import CUT_OFF, EXPIRED, SUCCEEDED, Ended, Outcome, Refused, Requeue
from rota.model.run import Claim
from tests.engine.attempts.parts import Sink, claim_of, make_means, make_runner, start


class Jobs:
    """One for each way to be called in this process."""

    def __init__(self, app: rota.App) -> None:
        self.called: list[int] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()

        @app.job
        async def double(n: int) -> int:
            self.called.append(n)
            return 2 * n

        @app.job
        def double_in_thread(n: int) -> int:
            self.called.append(n)
            return 2 * n

        @app.job
        async def fail(n: int) -> None:
            raise ValueError(f"not {n}")

        @app.job
        def fail_in_thread(n: int) -> None:
            raise ValueError(f"not {n}")

        @app.job
        async def hold() -> str:
            self.begun.set()
            await self.gate.wait()
            return "late"

        @app.job
        async def shrug() -> str:
            """Is cancelled, and returns all the same."""
            self.begun.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                return "as if nothing had happened"
            return "late"

        self.by_name: dict[str, Any] = {
            it.name: it for it in (double, double_in_thread, fail, fail_in_thread, hold, shrug)
        }

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]


@pytest.fixture
async def jobs(app: rota.App) -> Jobs:
    return Jobs(app)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def runner(app: rota.App, jobs: Jobs, sink: Sink) -> Runner:
    return make_runner(app, sink)


@pytest.mark.parametrize("job", ["double", "double_in_thread"])
async def test_what_a_body_returns_is_a_success(
    runner: Runner, jobs: Jobs, sink: Sink, job: str
) -> None:
    await start(runner, claim_of(jobs[job], {"n": 4}))
    assert (jobs.called, sink.successes, sink.outcomes) == ([4], ["8"], [])
    assert runner.running == {}


@pytest.mark.parametrize("job", ["fail", "fail_in_thread"])
async def test_what_a_body_raises_is_decided(
    runner: Runner, jobs: Jobs, sink: Sink, job: str
) -> None:
    await start(runner, claim_of(jobs[job], {"n": 4}))
    await start(runner, claim_of(jobs[job], {"n": 4}, attempts_used=2))
    retried, over = sink.outcomes
    assert isinstance(retried, Requeue)
    assert isinstance(over, Ended)
    assert (retried.attempt_state, retried.is_spent) == ("failed", True)
    assert over.end_reason == "attempts used up"
    assert retried.failure is not None
    assert (retried.failure.error_type, retried.failure.error) == ("ValueError", "not 4")
    lines = (retried.failure.traceback or "").splitlines()
    assert f"in {job}" in lines[1], "the traceback begins with the handler"


async def test_a_run_that_has_expired_is_not_called(runner: Runner, jobs: Jobs, sink: Sink) -> None:
    await start(runner, claim_of(jobs["double"], {"n": 4}, is_expired=True))
    assert (jobs.called, sink.outcomes) == ([], [EXPIRED])


@pytest.mark.parametrize("job", ["double", "double_in_thread"])
async def test_a_payload_that_does_not_fit_is_left_to_others(
    runner: Runner, jobs: Jobs, sink: Sink, job: str
) -> None:
    await start(runner, claim_of(jobs[job], {"m": 4}))
    (outcome,) = sink.outcomes
    assert isinstance(outcome, Refused)
    own = jobs[job].definition
    assert (outcome.intake, outcome.signature) == (own.intake, own.schema.hash)
    assert outcome.failure.error_type == "PayloadError"
    assert jobs.called == []


# The commit of the claim.


def _add(claims: Sequence[Claim], commit: ClaimCommit) -> bool:
    return True


@pytest.mark.parametrize("job", ["double", "double_in_thread"])
async def test_a_body_starts_after_its_commit(
    runner: Runner, jobs: Jobs, sink: Sink, job: str
) -> None:
    commit = ClaimCommit(_add)
    task = start(runner, claim_of(jobs[job], {"n": 1}), commit)
    await asyncio.sleep(0)
    (attempt,) = runner.running.values()
    assert (jobs.called, attempt.arguments) == ([], {"n": 1}), "ready, and not begun"
    commit.committed()
    await task
    assert (jobs.called, sink.successes) == ([1], ["2"])


async def test_a_claim_that_broke_off_is_nobodys_failure(
    runner: Runner, jobs: Jobs, sink: Sink
) -> None:
    commit = ClaimCommit(_add)
    task = start(runner, claim_of(jobs["double"], {"n": 1}), commit)
    await asyncio.sleep(0)
    commit.broke_off()
    await task
    assert (jobs.called, sink.is_empty, sink.wakes) == ([], True, 1)


# Stopped.


@pytest.mark.parametrize("job", ["hold", "shrug"])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (Stop("cancel", "ann", "no use"), "cancelled by ann: no use"),
        (Stop("shutdown"), CUT_OFF),
        (Stop("lost"), None),
    ],
    ids=["cancel", "shutdown", "lost"],
)
async def test_why_it_was_stopped_decides(
    runner: Runner, jobs: Jobs, sink: Sink, job: str, stop: Stop, expected: object
) -> None:
    task = start(runner, claim_of(jobs[job]))
    await jobs.begun.wait()
    runner.stop_all(stop)
    await task
    assert not task.cancelling()
    reasons = [
        outcome.end_reason if isinstance(outcome, Ended) else outcome for outcome in sink.outcomes
    ]
    assert reasons == ([] if expected is None else [expected])
    assert sink.successes == []
    assert sink.wakes == (expected is None)


async def test_what_takes_too_long_is_stopped(runner: Runner, jobs: Jobs, sink: Sink) -> None:
    task = start(runner, claim_of(jobs["hold"], timeout_seconds=1e-9))
    await jobs.begun.wait()
    runner.stop_overdue()
    await task
    (outcome,) = sink.outcomes
    assert outcome.attempt_state == "timed_out"
    assert outcome.failure is not None
    assert "exceeded its timeout" in outcome.failure.error


async def test_a_cancel_of_another_attempt_is_not_heard(
    runner: Runner, jobs: Jobs, sink: Sink
) -> None:
    task = start(runner, claim_of(jobs["hold"]))
    await jobs.begun.wait()
    runner.cancel(1, 2, "ann", None)
    jobs.gate.set()
    await task
    assert sink.successes == ['"late"']


async def test_a_thread_is_told_and_asked_for_its_answer(
    app: rota.App, sink: Sink, jobs: Jobs
) -> None:
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    @app.job
    def look(ctx: rota.Context) -> str:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.is_cancelled:
            threading.Event().wait(0.001)
        return "stopped by itself"

    runner = make_runner(app, sink)
    task = start(runner, claim_of(look))
    await begun.wait()
    runner.cancel(1, 1, "ann", None)
    await task
    (outcome,) = sink.outcomes
    assert isinstance(outcome, Ended)
    assert outcome.end_reason == "cancelled by ann"


# Apart.


class Stub(Executor):
    """Says what it was told to."""

    outcome: CallOutcome = Returned('"stub"')

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        return self.outcome


@pytest.fixture
def stub(app: rota.App, runner: Runner) -> Stub:
    stub = Stub(make_means(app))
    runner._executors["isolated"] = stub
    return stub


async def test_a_run_apart_is_called_in_a_process_of_its_own(
    runner: Runner, jobs: Jobs, sink: Sink, stub: Stub
) -> None:
    runner.apart.add(1)
    await start(runner, claim_of(jobs["double"], {"n": 1}))
    await start(runner, claim_of(jobs["double"], {"n": 2}, id=2))
    assert (sink.successes, jobs.called) == (['"stub"', "4"], [2])


async def test_a_kind_that_endangers_nothing_is_called_as_ever(
    app: rota.App, runner: Runner, jobs: Jobs, sink: Sink, stub: Stub
) -> None:
    safe = Stub(make_means(app))
    safe.is_dangerous, safe.outcome = False, Returned('"safe"')
    runner._executors["async"] = safe
    runner.apart.add(1)
    await start(runner, claim_of(jobs["double"], {"n": 1}))
    assert sink.successes == ['"safe"']


async def test_a_run_that_took_its_process_with_it_is_lost(
    runner: Runner, jobs: Jobs, sink: Sink, stub: Stub
) -> None:
    runner.apart.add(1)
    stub.outcome = Lost(RuntimeError("killed"))
    await start(runner, claim_of(jobs["double"], {"n": 1}))
    (outcome,) = sink.outcomes
    assert isinstance(outcome, Requeue)
    assert (outcome.attempt_state, outcome.delay, outcome.is_spent) == ("lost", 0, True)


async def test_a_run_that_was_not_begun_has_its_place_back(
    runner: Runner, jobs: Jobs, sink: Sink, stub: Stub
) -> None:
    runner.apart.add(1)
    stub.outcome = NotBegun("no room")
    await start(runner, claim_of(jobs["double"], {"n": 1}))
    (outcome,) = sink.outcomes
    assert isinstance(outcome, Requeue)
    assert (outcome.delay, outcome.is_spent, outcome.message) == (None, False, "no room")


# Observed.


class Notes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []

    def began(self, attempt: RunningAttempt) -> None:
        self.seen.append(("began", attempt.claim.id))

    def ended(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        self.seen.append(("ended", outcome))


async def test_observers_hear_of_each_attempt(app: rota.App, jobs: Jobs, sink: Sink) -> None:
    notes = Notes()
    runner = make_runner(app, sink, [notes])
    await start(runner, claim_of(jobs["double"], {"n": 1}))
    await start(runner, claim_of(jobs["fail"], {"n": 1}, id=2))
    task = start(runner, claim_of(jobs["hold"], id=3))
    await jobs.begun.wait()
    runner.stop_all(Stop("lost"))
    await task
    (failed,) = sink.outcomes
    assert notes.seen == [
        ("began", 1),
        ("ended", SUCCEEDED),
        ("began", 2),
        ("ended", failed),
        ("began", 3),
        ("ended", None),
    ]
