"""Spans of OpenTelemetry: for each enqueue and event, and for each attempt as a child of it.

Everything here does nothing until the program has installed a tracer provider, and costs next to
nothing until the API has been imported. The context is stored in the run's metadata, under the W3C
names `traceparent` and `tracestate`, so that plain SQL can pass it too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rota.model.outcome import Failure
from rota.model.run import Claim
from rota.model.states import FAILED_ATTEMPT_STATES

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

FIELDS = ("traceparent", "tracestate")
_API = "opentelemetry.trace"
# Read once: reading the environment takes longer than everything else here.
_IS_ASKED_FOR = (
    "OTEL_PYTHON_TRACER_PROVIDER" in os.environ and find_spec("opentelemetry") is not None
)
_ORIGIN = ("schedule", "scheduled_for")
_known: tuple[Any, Tracer] | None = None


def is_loaded() -> bool:
    """Return whether code in this process could have started a span."""
    return _API in sys.modules or _IS_ASKED_FOR


def tracer() -> Tracer | None:
    """Return None while no provider is installed."""
    global _known
    if not is_loaded():
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    if _known is None or _known[0] is not provider:
        _known = provider, provider.get_tracer("rota")
    return _known[1]


def carrier() -> dict[str, str] | None:
    """Return the context of the current span, to be sent elsewhere; None without one."""
    if not is_loaded():
        return None
    found: dict[str, str] = {}
    _propagator().inject(found)
    return found or None


def attach(fields: Mapping[str, str] | None) -> None:
    """Make a received context the current one, until the end of this contextvars context."""
    if fields:
        from opentelemetry import context

        context.attach(_propagator().extract(fields))


@contextmanager
def enqueue_span(tracer: Tracer, jobs: str, runs: int, queue: str | None) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {
        "messaging.system": "rota",
        "messaging.operation.type": "send",
        "rota.job": jobs,
    }
    if queue is not None:
        attributes["messaging.destination.name"] = attributes["rota.queue"] = queue
    if runs != 1:
        attributes["messaging.batch.message_count"] = runs
    with tracer.start_as_current_span(
        f"enqueue {jobs}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        yield span


@contextmanager
def event_span(tracer: Tracer, event: str) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind

    attributes = {
        "messaging.system": "rota",
        "messaging.operation.type": "send",
        "rota.event": event,
    }
    with tracer.start_as_current_span(
        f"emit {event}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        yield span


@contextmanager
def attempt_span(tracer: Tracer, claim: Claim, rest: Mapping[str, Any]) -> Iterator[Span]:
    """The span is current while the body runs. The runner records exceptions of the body. `rest`
    contains fields that few runs have: a run started by a schedule begins a trace of its own, with
    the schedule as an attribute."""
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {
        "messaging.system": "rota",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": str(claim.id),
        "rota.job": claim.job,
        "rota.queue": claim.queue,
        "rota.run_id": claim.id,
        "rota.attempt": claim.attempt,
        "rota.max_attempts": claim.max_attempts,
    }
    attributes |= {f"rota.{name}": rest[name] for name in _ORIGIN if rest.get(name)}
    if claim.tenant:
        attributes["rota.tenant"] = claim.tenant
    if kind := (rest.get("triggered_by") or {}).get("type"):
        attributes["rota.triggered_by"] = kind
    with tracer.start_as_current_span(
        f"run {claim.job}",
        context=_parent(rest.get("metadata") or {}),
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def end_attempt(span: Span, outcome: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("rota.outcome", outcome)
    if outcome in FAILED_ATTEMPT_STATES:
        span.set_status(Status(StatusCode.ERROR, outcome))


def record_failure(span: Span, failure: Failure) -> None:
    """Record an exception as `Span.record_exception` does, also if it came from another process."""
    attributes = {
        "exception.type": failure.error_type,
        "exception.message": failure.error,
        "exception.stacktrace": failure.traceback or "",
    }
    span.add_event("exception", attributes)


def _parent(metadata: Mapping[str, Any]) -> Context:
    """Return the context in the metadata; without one a new trace begins, whatever span is current
    here."""
    from opentelemetry.context import Context

    fields = {name: metadata[name] for name in FIELDS if isinstance(metadata.get(name), str)}
    return _propagator().extract(fields, context=Context())


def _propagator() -> TraceContextTextMapPropagator:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
