"""Enqueues and events that carry the caller's trace context."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rota.jobs.batch import Call, refuse_others
from rota.jobs.emit import Emitter, Started
from rota.jobs.enqueue import Enqueuer
from rota.jobs.handle import R, Run
from rota.jobs.options import Options
from rota.telemetry import otel

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


class TracedEnqueuer(Enqueuer):
    """An enqueuer that creates a span for each enqueue, stored with its runs, once OpenTelemetry is
    imported. Without a provider, a context received from elsewhere is passed on."""

    def send(self, call: Call[R]) -> Coroutine[Any, Any, Run[R]]:
        return self._send_traced(call) if otel.is_loaded() else super().send(call)

    def send_sync(self, call: Call[R]) -> Run[R]:
        tracer = otel.tracer()
        if tracer is None:
            return super().send_sync(_carrying([call])[0])
        with _span(tracer, [call]) as span:
            return _told(span, super().send_sync(_carrying([call])[0]))

    async def _send_traced(self, call: Call[R]) -> Run[R]:
        tracer = otel.tracer()
        if tracer is None:
            return await super().send(_carrying([call])[0])
        with _span(tracer, [call]) as span:
            return _told(span, await super().send(_carrying([call])[0]))

    def send_many(
        self, calls: Iterable[Call[R]], connection: Any = None
    ) -> Coroutine[Any, Any, list[Run[R]]]:
        if otel.is_loaded():
            return self._send_many_traced(list(calls), connection)
        return super().send_many(calls, connection)

    async def _send_many_traced(self, calls: list[Call[R]], connection: Any) -> list[Run[R]]:
        refuse_others(calls)
        tracer = otel.tracer()
        if tracer is None or not calls:
            return await super().send_many(_carrying(calls), connection)
        with _span(tracer, calls):
            return await super().send_many(_carrying(calls), connection)

    def send_many_sync(self, calls: Iterable[Call[R]], connection: Any = None) -> list[Run[R]]:
        if not otel.is_loaded():
            return super().send_many_sync(calls, connection)
        wanted = list(calls)
        refuse_others(wanted)
        tracer = otel.tracer()
        if tracer is None or not wanted:
            return super().send_many_sync(_carrying(wanted), connection)
        with _span(tracer, wanted):
            return super().send_many_sync(_carrying(wanted), connection)


class TracedEmitter(Emitter):
    """Creates a span for each event, the parent of the attempts that it leads to."""

    async def send(
        self, event: str, payload: Mapping[str, Any] | None, connection: Any, **options: Any
    ) -> Started:
        with _emitting(event) as started:
            options["metadata"] = with_carrier(options.get("metadata"))
            runs = await super().send(event, payload, connection, **options)
            started += runs
        return runs

    def send_sync(
        self, event: str, payload: Mapping[str, Any] | None, connection: Any, **options: Any
    ) -> Started:
        with _emitting(event) as started:
            options["metadata"] = with_carrier(options.get("metadata"))
            runs = super().send_sync(event, payload, connection, **options)
            started += runs
        return runs


def with_carrier(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Add the trace context to metadata. Invalid metadata is returned unchanged; the emitter
    reports it."""
    fields = otel.carrier()
    if fields is None or (metadata is not None and not isinstance(metadata, Mapping)):
        return metadata
    return {**fields, **(metadata or {})}


@contextmanager
def _emitting(event: str) -> Iterator[list[Run]]:
    """Create the span of an event; the yielded list is to be filled with its runs."""
    tracer, runs = otel.tracer(), list[Run]()
    if tracer is None:
        yield runs
        return
    with otel.event_span(tracer, str(event)) as span:
        yield runs
        span.set_attribute("messaging.batch.message_count", len(runs))


def carrying(options: Options) -> Options:
    """Return these options with the current trace context in their metadata."""
    fields = otel.carrier()
    return options if fields is None else _with_fields(options, fields)


def _with_fields(options: Options, fields: Mapping[str, str]) -> Options:
    return replace(options, metadata={**fields, **(options.metadata or {})})


def _span(tracer: Tracer, calls: Sequence[Call]) -> AbstractContextManager[Span]:
    jobs = {call.job for call in calls}
    name = calls[0].job if len(jobs) == 1 else f"{len(jobs)} jobs"
    return otel.enqueue_span(tracer, name, len(calls), calls[0].options.queue)


def _told(span: Span, run: Run[R]) -> Run[R]:
    span.set_attribute("rota.run_id", run.id)
    span.set_attribute("messaging.message.id", str(run.id))
    span.set_attribute("rota.is_duplicate", run.is_duplicate)
    return run


def _carrying(calls: list[Call[R]]) -> list[Call[R]]:
    """Return the calls with the current trace context in their metadata. Calls that share their
    options still do, because a batch of such calls is a cheaper statement."""
    fields = otel.carrier()
    if fields is None:
        return calls
    made: dict[int, Options] = {}
    found = []
    for call in calls:
        options = made.get(id(call.options))
        if options is None:
            options = made[id(call.options)] = _with_fields(call.options, fields)
        found.append(call._replace(options=options))
    return found
