"""Runs are found by what went wrong, who ran them, what they were given, and when they ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.model.run_filter import RunFilter
from rota.testing import Clock, run_due
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(max_attempts=1)
    async def call(customer: dict[str, int], text: str = "100% refused") -> None:
        raise ConnectionError(text)

    @app.job
    async def fine(customer: dict[str, int]) -> None: ...

    @app.job(max_attempts=9, give_up_on=(KeyError,))
    async def hopeless() -> None:
        raise KeyError("gone")

    return app


async def found(app: rota.App, **filters: Any) -> list[int]:
    return [run.id for run in await app.runs.list(**filters)]


async def put(app: rota.App, job: str, **payload: Any) -> int:
    run = await app.runs.enqueue(job, payload)
    await run_due(app)
    return run.id


async def test_by_error_text_type_and_group(jobs: rota.App) -> None:
    first = await put(jobs, "call", customer={"id": 1})
    other = await put(jobs, "call", customer={"id": 1}, text="another_word")
    await put(jobs, "fine", customer={"id": 1})
    assert await found(jobs, error="100% REF") == [first]
    assert await found(jobs, error="r_w") == [other]
    assert await found(jobs, error="rXw") == []
    assert await found(jobs, error="ConnectionErr") == [other, first]
    group = (await jobs.runs.get(first)).error_group
    assert await found(jobs, error_group=group) == [first]
    assert await found(jobs, error_group=group, states=["failed"], order="oldest") == [first]
    assert await found(jobs, error_group="nothing") == []


async def test_what_waits_for_another_attempt_is_found_by_its_error(
    jobs: rota.App, conn: Connection
) -> None:
    engine = Engine(conn)
    engine.job(max_attempts=5)
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim(worker)
    engine.one(
        "SELECT count(*) FROM rota.requeue_runs(%s, %s, '{1}', '{5}', '{failed}', '{60}', '{t}',"
        " NULL, '{KeyError}', '{nothing}', NULL)",
        worker, [run],
    )  # fmt: skip
    group = (await jobs.runs.get(run)).error_group
    assert await found(jobs, error="keyerr") == [run]
    assert await found(jobs, error_group=group, states=["scheduled"]) == [run]


async def test_by_fields_of_the_payload(jobs: rota.App) -> None:
    first = await put(jobs, "fine", customer={"id": 9007199254740993})
    await put(jobs, "fine", customer={"id": 9007199254740992})
    assert await found(jobs, payload_fields={"customer.id": 9007199254740993}) == [first]
    assert await found(jobs, payload_fields={"customer.id": "9007199254740993"}) == [first]
    assert await found(jobs, payload_fields={"customer.nothing": "x"}) == []
    with pytest.raises(rota.FilterError, match="payload_fields must map fields"):
        await jobs.runs.list(payload_fields=["a"])  # type: ignore[arg-type]


async def test_by_text_of_the_payload_or_the_error(jobs: rota.App) -> None:
    quoted = await put(jobs, "fine", customer={'Zoë "the 50%" \\o/': 1})
    failed = await put(jobs, "call", customer={}, text="refused by Zoë")
    plain = await put(jobs, "fine", customer={"anna": 7})
    assert await found(jobs, text="zoë") == [failed, quoted]
    assert await found(jobs, text='"the 50%" \\O/') == [quoted]
    assert await found(jobs, text='"anna": 7') == []
    assert await found(jobs, text="ANNA") == [plain]
    assert await found(jobs, text="ConnectionErr") == [failed]
    assert await found(jobs, text="zoë", error="refused") == [failed]
    assert await found(jobs, text="zoë", job="fine", order="oldest") == [quoted]


async def test_by_worker(jobs: rota.App) -> None:
    run = await put(jobs, "fine", customer={})
    worker = (await jobs.runs.get(run)).worker
    assert worker is not None
    assert await found(jobs, worker=worker) == [run]
    assert await found(jobs, worker=worker + 99) == []


async def test_by_time_of_the_end(jobs: rota.App, clock: Clock) -> None:
    old = await put(jobs, "fine", customer={})
    late = await jobs.runs.enqueue("fine", {"customer": {}}, delay=7200)
    clock.advance(7201)
    await run_due(jobs)
    waiting = await jobs.runs.enqueue("fine", {"customer": {}}, delay=60)
    assert await found(jobs, ended_since=timedelta(hours=1)) == [late.id]
    assert await found(jobs, ended_until=timedelta(hours=1)) == [old]
    assert await found(jobs, ended_since=timedelta(hours=3)) == [late.id, old]
    assert await found(jobs, since=timedelta(hours=1)) == [waiting.id]
    end = (await jobs.runs.get(late.id)).finished_at
    assert await found(jobs, ended_since=end) == [late.id]
    assert await found(jobs, ended_until=end) == [old]


async def test_dead_is_every_final_failure(jobs: rota.App, conn: Connection) -> None:
    used_up = await put(jobs, "call", customer={})
    gave_up = await put(jobs, "hopeless")
    assert await found(jobs, dead=True) == [gave_up, used_up]
    letters = conn.execute("SELECT id FROM rota.dead_letters ORDER BY id").fetchall()
    assert letters == [(used_up,), (gave_up,)]


async def test_handled_or_not(jobs: rota.App) -> None:
    first = await put(jobs, "call", customer={})
    second = await put(jobs, "hopeless")
    fine = await put(jobs, "fine", customer={})
    await jobs.runs.handle(first)
    assert await found(jobs, handled=True) == [first]
    assert await found(jobs, handled=False) == [second]
    group = (await jobs.runs.get(second)).error_group
    assert group is not None
    await jobs.errors.handle(group)
    assert await found(jobs, handled=True) == [second, first]
    assert await found(jobs, handled=False) == []
    assert fine in await found(jobs)


def test_a_filter_survives_being_written_down() -> None:
    wanted = RunFilter.of(
        {
            "handled": False,
            "payload_fields": {"a.b": 7},
            "worker": 3,
            "error": "x",
            "text": "y",
            "states": ["failed"],
        }
    )
    assert RunFilter.from_json(wanted.as_json()) == wanted
    assert wanted.as_json()["handled"] is False
