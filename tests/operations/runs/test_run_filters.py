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


async def test_several_words_must_all_be_there_wherever_they_are(jobs: rota.App) -> None:
    first = await put(jobs, "call", customer={"id": 98}, text='order "98" is lost')
    await put(jobs, "call", customer={"id": 7}, text="order 7 is lost")
    assert await found(jobs, text=["order", "98"]) == [first]
    assert await found(jobs, text=["ConnectionErr", "id", "98"]) == [first]
    assert await found(jobs, text=["order", "nowhere"]) == []
    assert await found(jobs, text='"98"') == [first]


async def test_what_is_left_out(jobs: rota.App) -> None:
    bad = await put(jobs, "call", customer={"id": 1})
    good = await put(jobs, "fine", customer={"id": 2})
    waits = (await jobs.runs.enqueue("fine", {"customer": {"id": 3}}, key="k", tags=["vip"])).id
    group = (await jobs.runs.get(bad)).error_group
    for exclude, expected in (
        ("state:failed", [waits, good]), ("job:fine", [bad]), ("queue:default", []),
        ("tenant:x", [waits, good, bad]), ("tag:vip", [good, bad]), ("key:k", [good, bad]),
        ("schedule:x", [waits, good, bad]), ("worker:99", [waits, good, bad]),
        (f"group:{group}", [waits, good]), ("payload:customer.id:2", [waits, bad]),
        ("error:refused", [waits, good]), ("error:ConnectionError", [waits, good]),
        ("text:REFUSED", [waits, good]), ("text:customer", []),
        (["state:failed", "key:k"], [good]), (["job:call", "job:fine"], []),
    ):  # fmt: skip
        assert await found(jobs, exclude=exclude) == expected, exclude
    assert await found(jobs, job="fine", exclude=["state:succeeded"]) == [waits]
    for exclude in ("state:failed,queued", "state: failed , queued", "states:failed\nqueued"):
        assert await found(jobs, exclude=exclude) == [good], exclude
        assert (await jobs.bulk.preview("delete", exclude=exclude)).runs == 1, exclude
    assert await found(jobs, exclude="payload:none:1\ncustomer.id=2") == [waits, bad]
    preview = await jobs.bulk.preview("retry", exclude="job:fine")
    assert preview.runs == 1
    action = await jobs.bulk.start("retry", job="call", exclude="payload:customer.id:9")
    assert action.filter == {"job": "call", "exclude": ["payload:customer.id:9"]}
    assert (await jobs.bulk.carry_out(action.id)).done == 1


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"exclude": "job"}, "exclude"), ({"exclude": "colour:red"}, "exclude"),
        ({"exclude": "since:2h"}, "exclude"), ({"exclude": "state:nope"}, "exclude"),
        ({"exclude": "worker:x"}, "exclude"), ({"exclude": 3}, "exclude"),
        ({"exclude": "state:,"}, "exclude"), ({"exclude": "payload: "}, "exclude"),
        ({"exclude": "text: "}, "exclude"), ({"exclude": "job: "}, "exclude"),
        ({"states": ["nope"]}, "states"), ({"worker": -1}, "worker"), ({"since": "x"}, "since"),
        ({"text": ""}, "text"), ({"payload_fields": [1]}, "payload_fields"), ({"job": 3}, "job"),
    ],
)  # fmt: skip
async def test_a_value_that_no_run_can_have(app: rota.App, filters: Any, field: str) -> None:
    with pytest.raises(rota.FilterError) as caught:
        await app.runs.list(**filters)
    assert caught.value.field == field
