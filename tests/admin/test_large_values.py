"""A page of large values is small: they are left out, and the single item has them."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

import rota
from rota.model.page import LISTED_BYTES

OMITTED = {"$omitted": f"larger than {LISTED_BYTES} bytes"}
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
        assert shown == {run.id: OMITTED, small.id: {"text": "a"}}
    assert (await app.runs.get(run.id)).payload == payload
    assert {one.id: one.payload for one in await app.runs.list()}[run.id] == payload


async def test_what_else_a_run_says(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    run = await app.runs.enqueue("load", {"text": "a"}, metadata=LARGE)
    conn.execute("UPDATE rota.open_runs SET last_error = %(text)s, message = %(text)s", LARGE)
    for order in ("newest", "oldest"):
        (found,) = (await app.runs.page(order=order)).runs  # type: ignore[arg-type]
        assert found.metadata == OMITTED
        assert found.last_error == found.message == "a" * LISTED_BYTES + "…"
    whole = await app.runs.get(run.id)
    assert (whole.metadata, whole.last_error) == (LARGE, LARGE["text"])


async def test_results(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    run = await app.runs.enqueue("load", {"text": "a"})
    await app.runs.cancel(run.id)
    conn.execute("UPDATE rota.ended_runs SET result = %s", [json.dumps(LARGE)])
    (found,) = (await app.runs.page()).runs
    assert found.result == OMITTED
    assert (await app.runs.get(run.id)).result == LARGE


async def test_events(app: rota.App) -> None:
    started = await app.emit("told", LARGE, metadata=LARGE)
    for named in ({}, {"name": "told"}):
        for order in ("newest", "oldest"):
            (found,) = (await app.events.page(order=order, **named)).items  # type: ignore[arg-type]
            assert found.payload == found.metadata == OMITTED
    assert started.event_id is not None
    assert (await app.events.get(started.event_id)).payload == LARGE


async def test_audit(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    await app.queues.pause("mail")
    conn.execute("UPDATE rota.audit SET after = %s", [json.dumps(LARGE)])
    for order in ("newest", "oldest"):
        (found,) = (await app.audit.page(order=order)).items  # type: ignore[arg-type]
        assert found.after == OMITTED
    assert (await app.audit.get(found.id)).after == LARGE
