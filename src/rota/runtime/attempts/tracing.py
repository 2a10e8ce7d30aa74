"""Attempts as spans, in workers that start when a tracer provider is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from rota.executors.threads import ThreadExecutor
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.runtime.attempts.attempt import RunningAttempt
from rota.runtime.attempts.runner import Runner
from rota.runtime.claiming.feeder import Feeder
from rota.telemetry import otel

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


def make_runner(*, threads: ThreadExecutor, **rest: Any) -> Runner:
    """Asked once, when a worker starts: without a provider no attempt pays for the question."""
    tracer = otel.tracer()
    if tracer is None:
        return Runner(threads=threads, **rest)
    return TracedRunner(tracer, threads=threads, **rest)


class TracedRunner(Runner):
    """A span for each attempt, a child of the one that enqueued the run."""

    def __init__(self, tracer: Tracer, *, threads: ThreadExecutor, **rest: Any) -> None:
        super().__init__(threads=cast(ThreadExecutor, _Threads(threads)), **rest)
        self._tracer = tracer
        self._spans: dict[int, Span] = {}
        self._outcomes: dict[int, str] = {}

    def serve(self, feeder: Feeder) -> None:
        super().serve(cast(Feeder, _Hearing(feeder, self._outcomes)))

    async def run(
        self, claim: Claim, task: asyncio.Task[None], commit: Awaitable[None] | None = None
    ) -> None:
        rest = msgspec.json.decode(claim.extras) if claim.extras else {}
        with otel.attempt_span(self._tracer, claim, rest) as span:
            self._spans[claim.id] = span
            try:
                await super().run(claim, task, commit)
            finally:
                del self._spans[claim.id]
                # Nothing was written: the run belongs to somebody else by now.
                otel.end_attempt(span, self._outcomes.pop(claim.id, "lost"))

    def _say(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        super()._say(attempt, outcome)
        span = self._spans.get(attempt.claim.id)
        if span is not None and outcome.failure is not None:
            otel.record_failure(span, outcome.failure)


class _Threads:
    """A thread has a context of its own: it gets the attempt's span."""

    def __init__(self, threads: ThreadExecutor) -> None:
        self._threads = threads

    def call(self, body: Callable[[], Any]) -> asyncio.Future[Any]:
        fields = otel.carrier()

        def traced() -> Any:
            otel.attach(fields)
            return body()

        return self._threads.call(traced)


class _Hearing:
    """Between runner and feeder: hears how each attempt ended."""

    def __init__(self, feeder: Feeder, outcomes: dict[int, str]) -> None:
        self._feeder = feeder
        self._outcomes = outcomes
        self.wake = feeder.wake

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None:
        self._outcomes[claim.id] = "succeeded"
        self._feeder.succeeded(claim, duration_ms, result)

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None:
        self._outcomes[claim.id] = outcome.attempt_state
        self._feeder.ended(claim, duration_ms, outcome)

    def already_ended(self, claim: Claim, duration_ms: float, state: str = "succeeded") -> None:
        self._outcomes[claim.id] = state
        self._feeder.already_ended(claim, duration_ms, state)
