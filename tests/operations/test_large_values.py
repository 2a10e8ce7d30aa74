"""A page of large values is small: they are left out, and the single item has them."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

import rota
from rota.model.page import LISTED_BYTES


def omitted(whole: str) -> dict[str, str]:
    return {"$omitted": f"larger than {LISTED_BYTES} bytes", "$whole": whole}


OF_RUN = omitted("/runs/{run_id}")
_ATTEMPTS = """
INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_spent,
    job, tenant, details, traceback)
SELECT %s, n, 'failed', 1, now(), now() + interval '1 second', true, 'load', '', %s, %s
FROM generate_series(1, 3) n
"""
# Compressible, and not: one is measured by its text, the other by what is stored.
LARGE = {"text": "a" * 500_000}
NOISE = {"text": [f"{n * 7919:x}" for n in range(20_000)]}


@pytest.fixture
def app(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def load(text: Any) -> None: ...

    return app


@pytest.mark.parametrize("payload", [LARGE, NOISE], ids=["compressible", "noise"])
async def test_runs(app: rota.App, payload: dict[str, Any]) -> None:
    run = await app.runs.enqueue("load", payload)
    small = await app.runs.enqueue("load", {"text": "a"})
    for order in ("newest", "oldest"):
        found = await app.runs.page(order=order)
        shown = {one.id: one.payload for one in found.runs}
        assert shown == {run.id: OF_RUN, small.id: {"text": "a"}}
    assert (await app.runs.get(run.id)).payload == payload
    assert {one.id: one.payload for one in await app.runs.list()}[run.id] == payload


async def test_what_else_a_run_says(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    run = await app.runs.enqueue("load", {"text": "a"}, metadata=LARGE)
    conn.execute("UPDATE rota.open_runs SET last_error = %(text)s, message = %(text)s", LARGE)
    for order in ("newest", "oldest"):
        (found,) = (await app.runs.page(order=order)).runs  # type: ignore[arg-type]
        assert found.metadata == OF_RUN
        assert found.last_error == found.message == "a" * LISTED_BYTES + "…"
    whole = await app.runs.get(run.id)
    assert (whole.metadata, whole.last_error) == (LARGE, LARGE["text"])


async def test_results(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    run = await app.runs.enqueue("load", {"text": "a"})
    await app.runs.cancel(run.id)
    conn.execute("UPDATE rota.ended_runs SET result = %s", [json.dumps(LARGE)])
    (found,) = (await app.runs.page()).runs
    assert found.result == OF_RUN
    assert (await app.runs.get(run.id)).result == LARGE


async def test_events(app: rota.App) -> None:
    started = await app.emit("told", LARGE, metadata=LARGE)
    for named in ({}, {"name": "told"}):
        for order in ("newest", "oldest"):
            (found,) = (await app.events.page(order=order, **named)).items  # type: ignore[arg-type]
            assert found.payload == found.metadata == omitted("/events/{event_id}")
    assert started.event_id is not None
    assert (await app.events.get(started.event_id)).payload == LARGE


async def test_audit(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    await app.queues.pause("mail")
    conn.execute("UPDATE rota.audit SET after = %s", [json.dumps(LARGE)])
    for order in ("newest", "oldest"):
        (found,) = (await app.audit.page(order=order)).items  # type: ignore[arg-type]
        assert found.after == omitted("/audit/{entry_id}")
    assert (await app.audit.get(found.id)).after == LARGE


async def test_jobs(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    await app.jobs.sync_definitions()
    conn.execute(
        "UPDATE rota.jobs SET description = %s, metadata = %s WHERE name = 'load'",
        [LARGE["text"][:10_000], json.dumps(LARGE)],
    )
    (found,) = (await app.jobs.page(text="load")).items
    assert found.metadata == omitted("/jobs/{name}")
    assert found.description == "a" * LISTED_BYTES + "…"
    assert (await app.jobs.get("load")).metadata == LARGE
    assert [one.metadata for one in await app.jobs.list()] == [LARGE]


@pytest.mark.parametrize("order", ["name", "next"])
async def test_schedules_and_their_edits(app: rota.App, order: Any) -> None:
    await app.jobs.sync_definitions()
    await app.schedules.create("nightly", job="load", cron="0 3 * * *", payload={"text": "a"})
    await app.schedules.update("nightly", payload=LARGE, metadata=LARGE)
    (found,) = (await app.schedules.page(order=order)).items
    assert found.payload == found.metadata == omitted("/schedules/{name}")
    assert (await app.schedules.get("nightly")).payload == LARGE
    edit = (await app.schedules.edits("nightly")).items[0]
    after = {one.field: one.after for one in edit.changes}
    assert after["payload"] == after["metadata"] == omitted("/audit/{entry_id}")
    await app.schedules.revert("nightly", edit.id)
    assert (await app.schedules.get("nightly")).payload == {"text": "a"}


async def test_attempts(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    run = await app.runs.enqueue("load", {"text": "a"})
    conn.execute(_ATTEMPTS.encode(), [run.id, json.dumps(LARGE), LARGE["text"]])
    first = await app.runs.attempts(run.id, limit=2)
    rest = await app.runs.attempts(run.id, limit=2, cursor=first.cursor)
    assert [one.attempt for one in [*first.items, *rest.items]] == [1, 2, 3]
    assert rest.cursor is None
    assert first.items[0].details == omitted("/runs/{run_id}/attempts/{attempt}")
    assert first.items[0].traceback == "a" * LISTED_BYTES + "…"
    whole = await app.runs.attempt(run.id, 3)
    assert (whole.details, whole.traceback) == (LARGE, LARGE["text"])
    with pytest.raises(rota.RunNotFound, match="has no attempt 4"):
        await app.runs.attempt(run.id, 4)
