"""Traces from the enqueue to the attempt, wherever its body runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import rota
from rota.engine.loops.scheduler import Scheduler
from rota.telemetry import otel
from rota.testing import run_due
from tests.conftest import MakeApp
from tests.engine.executors import handlers

Conn = psycopg.Connection[Any]


class Spans:
    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.all(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """A provider for this test; afterwards there is none again."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter)
    provider.shutdown()


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    assert span.context is not None
    assert span.parent is not None
    return (span.context.trace_id, span.parent.span_id) == ids(of)


async def test_an_attempt_is_a_child_of_its_enqueue_and_that_of_the_caller(
    app: rota.App, spans: Spans
) -> None:
    @app.job(queue="mail")
    async def send() -> None:
        with trace.get_tracer("mine").start_as_current_span("inside"):
            pass

    with trace.get_tracer("mine").start_as_current_span("request"):
        run = await send.enqueue()
    await run_due(app)

    enqueue, attempt = spans.one("enqueue send"), spans.one("run send")
    assert is_child(enqueue, spans.one("request"))
    assert is_child(attempt, enqueue)
    assert is_child(spans.one("inside"), attempt)
    assert (enqueue.kind, attempt.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    attributes = dict(attempt.attributes or {})
    assert (attributes["rota.job"], attributes["rota.queue"], attributes["rota.run_id"]) == (
        "send",
        "mail",
        run.id,
    )
    assert (attributes["rota.attempt"], attributes["rota.outcome"]) == (1, "succeeded")
    assert (enqueue.attributes or {})["rota.run_id"] == run.id
    assert attempt.status.status_code is StatusCode.UNSET


async def test_each_attempt_is_a_span_and_a_failure_is_recorded(
    app: rota.App, spans: Spans
) -> None:
    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0, "jitter": 0})
    async def fail() -> None:
        raise ValueError("no such user")

    await fail.enqueue()
    await run_due(app)

    first, second = spans.all("run fail")
    assert ids(first)[0] == ids(second)[0]
    assert [dict(it.attributes or {})["rota.attempt"] for it in (first, second)] == [1, 2]
    assert first.status.status_code is StatusCode.ERROR
    (event,) = first.events
    attributes = dict(event.attributes or {})
    assert event.name == "exception"
    assert (attributes["exception.type"], attributes["exception.message"]) == (
        "ValueError",
        "no such user",
    )
    assert "raise ValueError" in str(attributes["exception.stacktrace"])


async def test_a_snooze_is_no_error(app: rota.App, spans: Spans) -> None:
    @app.job
    async def later() -> None:
        raise rota.Snooze(3600)

    await later.enqueue()
    await run_due(app)
    span = spans.one("run later")
    assert (span.attributes or {})["rota.outcome"] == "snoozed"
    assert span.status.status_code is StatusCode.UNSET


async def test_threads_have_the_span_of_their_attempt(app: rota.App, spans: Spans) -> None:
    @app.job
    def work() -> None:
        with trace.get_tracer("mine").start_as_current_span("in a thread"):
            pass

    await work.enqueue()
    await run_due(app)
    assert is_child(spans.one("in a thread"), spans.one("run work"))


async def test_children_have_the_span_of_their_attempt(make_app: MakeApp, spans: Spans) -> None:
    app = make_app()
    job = app.job(executor="process")(handlers.current_traceparent)

    run = await job.enqueue()
    await run_due(app)
    attempt = spans.one("run current_traceparent")
    assert attempt.context is not None
    info = await app.runs.get(run.id)
    trace_id, span_id = ids(attempt)
    assert info.result.rpartition("-")[0] == f"00-{trace_id:032x}-{span_id:016x}"


async def test_sql_jobs_and_sql_enqueues(app: rota.App, conn: Conn, spans: Spans) -> None:
    conn.execute(
        """CREATE FUNCTION public.clean() RETURNS jsonb LANGUAGE sql AS
           $$ SELECT '{"success": false, "message": "disk is full"}'::jsonb $$"""
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, max_attempts)"
        " VALUES ('clean', 'sql', 'public.clean', 1)"
    )
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    conn.execute(
        "SELECT rota.enqueue('clean', metadata => %s)", [json.dumps({"traceparent": parent})]
    )
    await run_due(app)

    span = spans.one("run clean")
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == parent.split("-")[1]
    assert f"{span.parent.span_id:016x}" == parent.split("-")[2]
    assert (span.attributes or {})["rota.outcome"] == "failed"
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


@pytest.mark.parametrize("value", ["nonsense", 7, None, {"a": 1}])
async def test_a_bad_context_begins_a_trace_of_its_own(
    app: rota.App, spans: Spans, value: Any
) -> None:
    @app.job
    async def work() -> None: ...

    await work.options(metadata={"traceparent": value}).enqueue()
    await run_due(app)
    assert spans.one("run work").parent is None


async def test_a_batch_is_one_span_and_keeps_the_metadata_of_each(
    app: rota.App, spans: Spans
) -> None:
    @app.job
    async def work() -> None: ...

    runs = await app.enqueue_many(
        [work.call(), work.options(metadata={"team": "growth"}).call(), work.call()]
    )
    await run_due(app)
    batch = spans.one("enqueue work")
    assert (batch.attributes or {})["messaging.batch.message_count"] == 3
    assert all(is_child(span, batch) for span in spans.all("run work"))
    assert len(spans.all("run work")) == 3
    metadata = (await app.runs.get(runs[1].id)).metadata
    assert (metadata["team"], "traceparent" in metadata) == ("growth", True)


def test_sync_enqueues_are_spans_too(app: rota.App, spans: Spans) -> None:
    @app.job
    async def work() -> None: ...

    run = work.enqueue_sync()
    app.enqueue_many_sync([work.call(), work.call()])
    names = [(span.attributes or {}).get("rota.run_id") for span in spans.all("enqueue work")]
    assert names == [run.id, None]
    assert "traceparent" in app.runs.sync.get(run.id).metadata


async def test_an_event_is_the_parent_of_what_it_starts(app: rota.App, spans: Spans) -> None:
    @app.job(events=["order.paid"])
    async def bill() -> None: ...

    @app.job(events=["order.paid"])
    async def ship() -> None: ...

    with trace.get_tracer("mine").start_as_current_span("request"):
        runs = await app.emit("order.paid")
    await run_due(app)
    assert len(runs) == 2
    event = spans.one("emit order.paid")
    assert is_child(event, spans.one("request"))
    assert is_child(spans.one("run bill"), event)
    assert is_child(spans.one("run ship"), event)
    attributes = dict(event.attributes or {})
    assert (attributes["rota.event"], attributes["messaging.batch.message_count"]) == (
        "order.paid",
        2,
    )
    assert (spans.one("run bill").attributes or {})["rota.triggered_by"] == "event"


def test_a_sync_event_and_one_in_a_callers_transaction(
    app: rota.App, conn: Conn, spans: Spans
) -> None:
    @app.job(events=["paid"])
    async def bill() -> None: ...

    (first,) = app.emit_sync("paid")
    with conn.transaction():
        (second,) = app.emit_sync("paid", connection=conn)
    for run, span in zip((first, second), spans.all("emit paid"), strict=True):
        carried = app.runs.sync.get(run.id).metadata["traceparent"]
        assert carried.split("-")[2] == f"{ids(span)[1]:016x}"


async def test_what_an_operator_asks_for_belongs_to_the_callers_trace(
    app: rota.App, spans: Spans
) -> None:
    @app.job
    async def work() -> None: ...

    with trace.get_tracer("mine").start_as_current_span("request"):
        run = await app.runs.by("ada").enqueue("work", metadata={"team": "growth"})
    await run_due(app)
    assert is_child(spans.one("run work"), spans.one("request"))
    assert (await app.runs.get(run.id)).metadata["team"] == "growth"


@pytest.mark.parametrize("metadata", [None, {"team": "growth"}])
async def test_what_an_operator_triggers_belongs_to_the_callers_trace(
    app: rota.App, spans: Spans, metadata: dict[str, str] | None
) -> None:
    @app.job
    async def work() -> None: ...

    await app.schedules.create("often", "work", every=3600, run_metadata=metadata)
    with trace.get_tracer("mine").start_as_current_span("request"):
        made = await app.schedules.by("ada").trigger("often")
    await run_due(app)
    assert is_child(spans.one("run work"), spans.one("request"))
    assert (await app.runs.get(made.run_id)).metadata.items() >= (metadata or {}).items()


async def test_a_schedules_run_begins_a_trace_and_names_the_schedule(
    app: rota.App, conn: Conn, spans: Spans
) -> None:
    @app.job
    async def work() -> None: ...

    with trace.get_tracer("mine").start_as_current_span("request"):
        await app.schedules.create("often", "work", every=3600, start_at=datetime.now(UTC))
        await Scheduler(app.database, tick_seconds=15).tick()
    await run_due(app)
    span = spans.one("run work")
    assert span.parent is None
    attributes = dict(span.attributes or {})
    assert (attributes["rota.schedule"], attributes["rota.triggered_by"]) == ("often", "scheduler")
    (nominal,) = conn.execute("SELECT nominal_at FROM rota.occurrences").fetchone() or ()
    assert datetime.fromisoformat(str(attributes["rota.scheduled_for"])) == nominal


async def test_without_a_provider_nothing_is_written_and_a_context_is_passed_on(
    app: rota.App,
) -> None:
    @app.job
    async def work() -> None: ...

    assert otel.tracer() is None
    plain = await work.enqueue()
    assert (await app.runs.get(plain.id)).metadata == {}
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    otel.attach({"traceparent": parent})
    carried = await work.enqueue()
    assert (await app.runs.get(carried.id)).metadata == {"traceparent": parent}
    await run_due(app)


def test_until_somebody_imports_the_api_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert (otel.is_loaded(), otel.tracer(), otel.carrier()) == (False, None, None)
    monkeypatch.setattr(otel, "_IS_ASKED_FOR", True)
    assert otel.is_loaded()
