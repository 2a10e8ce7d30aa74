"""Attempts as spans, in workers that start when a tracer provider is installed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from rota.engine.attempts.attempt import RunningAttempt
from rota.model.outcome import Outcome
from rota.telemetry import otel

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


def find_spans() -> AttemptSpans | None:
    """Called once, when a worker starts: without a provider, attempts pay nothing for tracing."""
    tracer = otel.tracer()
    return None if tracer is None else AttemptSpans(tracer)


class AttemptSpans:
    """A span for each attempt, a child of the span that enqueued the run, and current in its slot
    while it runs. Observes attempts."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[int, tuple[Span, ExitStack]] = {}

    def began(self, attempt: RunningAttempt) -> None:
        claim = attempt.claim
        extras = msgspec.json.decode(claim.extras) if claim.extras else {}
        leaving = ExitStack()
        span = leaving.enter_context(otel.attempt_span(self._tracer, claim, extras))
        self._open[claim.id] = span, leaving

    def ended(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        span, leaving = self._open.pop(attempt.claim.id)
        with leaving:
            if outcome is not None and outcome.failure is not None:
                otel.record_failure(span, outcome.failure)
            otel.end_attempt(span, "lost" if outcome is None else outcome.attempt_state)
