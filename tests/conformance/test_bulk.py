"""enqueue_many: all or none, in the order given."""

from __future__ import annotations

import psycopg
import pytest

import rota
from rota.jobs.batch import Call
from tests.sql_engine import Engine


async def test_ids_come_in_the_order_given(app: rota.App) -> None:
    @app.job
    async def one(n: int) -> None: ...

    @app.job(queue="mail", priority=1)
    async def two(n: int) -> None: ...

    calls: list[Call] = []
    for n in range(50):
        job = one if n % 2 else two
        calls.append(job.options(key=f"k{99 - n}").call(n=n) if n % 3 == 0 else job.call(n=n))
    runs = await app.enqueue_many(calls)
    for n, run in enumerate(runs):
        info = await run.info()
        assert info.payload == {"n": n}
        assert info.job == run.job == ("one" if n % 2 else "two")
        assert info.key == (f"k{99 - n}" if n % 3 == 0 else None)
        assert info.queue == ("default" if n % 2 else "mail")
    assert len({run.id for run in runs}) == 50


async def test_taken_keys_are_marked(app: rota.App) -> None:
    @app.job
    async def one(n: int) -> None: ...

    first = await one.options(key="b").enqueue(n=0)
    runs = await app.enqueue_many(
        [one.options(key=key).call(n=n) for n, key in enumerate(["b", "a", "a"], 1)]
    )
    assert [run.is_duplicate for run in runs] == [True, False, True]
    assert runs[0].id == first.id
    assert runs[1].id == runs[2].id
    assert (await runs[1].info()).payload == {"n": 2}


async def test_claims_follow_the_order_of_a_bulk(app: rota.App, conn: psycopg.Connection) -> None:
    @app.job(name="work")
    async def work(n: int) -> None: ...

    await app.enqueue_many(work.call(n=n) for n in range(200))
    engine = Engine(conn)
    claims = engine.claim(engine.worker(), 200)
    assert [claim["payload"]["n"] for claim in claims] == list(range(200))


async def test_one_bad_call_and_nothing_is_stored(app: rota.App, conn: psycopg.Connection) -> None:
    @app.job
    async def one(n: int) -> None: ...

    good = one.call(n=1)
    unknown = Call("nobody", "{}", 0, good.options)
    with pytest.raises(rota.UnknownJob, match="nobody"):
        await app.enqueue_many([good, unknown])
    await one.options(key="a").enqueue(n=1)
    taken = one.options(key="a", on_conflict="raise").call(n=2)
    with pytest.raises(rota.DuplicateKey):
        await app.enqueue_many([good, taken])
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (1,)


async def test_none_at_all(app: rota.App) -> None:
    assert await app.enqueue_many([]) == []


async def test_sizes_are_checked_in_bulk_too(app: rota.App, conn: psycopg.Connection) -> None:
    @app.job
    async def one(text: str) -> None: ...

    with pytest.raises(rota.PayloadError):
        await app.enqueue_many([one.call(text="x"), one.call(text="x" * 2_000_000)])
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (0,)


def test_bulk_by_plain_sql(engine: Engine) -> None:
    rows = engine.rows(
        "SELECT * FROM rota.enqueue_many(ARRAY['work'], ARRAY['{\"n\": 1}', '{\"n\": 2}']::jsonb[],"
        " priorities => ARRAY[3], keys => ARRAY[NULL, 'k'])"
    )
    first, second = (engine.run(row["run_id"]) for row in rows)
    assert (first["payload"], first["priority"], first["key"]) == ({"n": 1}, 3, None)
    assert (second["payload"], second["priority"], second["key"]) == ({"n": 2}, 5, "k")
    for bad in ("'[]'", "NULL"):
        with pytest.raises(psycopg.Error, match="must be a JSON object") as caught:
            engine.rows(f"SELECT * FROM rota.enqueue_many(ARRAY['work'], ARRAY[{bad}]::jsonb[])")
        assert caught.value.sqlstate == "RO018"
    with pytest.raises(psycopg.Error, match="no job is named") as caught:
        engine.rows("SELECT * FROM rota.enqueue_many(ARRAY['x'], ARRAY['{}']::jsonb[])")
    assert caught.value.sqlstate == "RO001"


def test_a_batch_by_plain_sql(engine: Engine) -> None:
    ids = engine.one(
        """SELECT rota.enqueue_batch('work', '[{"n": 1}, {"n": 2}]', queue => 'mail', priority => 3,
           delay => '1 hour', tags => ARRAY['a'], metadata => '{"by": "me"}')"""
    )
    runs = [engine.run(run_id) for run_id in ids]
    assert [run["payload"] for run in runs] == [{"n": 1}, {"n": 2}]
    for run in runs:
        assert (run["state"], run["queue"], run["priority"]) == ("scheduled", "mail", 3)
        assert (run["tags"], run["metadata"]) == (["a"], {"by": "me"})
        assert run["triggered_by"] == {"type": "sql"}
    assert engine.one("SELECT rota.enqueue_batch('work', '[]')") == []


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ("'nobody', '[{}]'", "no job is named", "RO001"),
        ("NULL, '[{}]'", "no job is named", "RO001"),
        ("'work', '{}'", "must be a JSON array", "RO002"),
        ("'work', NULL", "must be a JSON array", "RO002"),
        ("'work', '[{}, 7]'", "must be a JSON object", "RO018"),
        ("'work', '[{}]', priority => 12", "priority 12", "RO002"),
        ("'work', '[{}]', queue => ''", "the queue name of job", "RO002"),
        ("'work', '[{}]', run_at => now(), delay => '1 s'", "cannot be combined", "RO002"),
        (
            "'work', jsonb_build_array('{}'::jsonb, jsonb_build_object('x', repeat('x', 2000000)))",
            "the limit is",
            "RO018",
        ),
    ],
)
def test_a_bad_batch_leaves_nothing(
    engine: Engine, arguments: str, message: str, code: str
) -> None:
    with pytest.raises(psycopg.Error, match=message) as caught:
        engine.rows(f"SELECT rota.enqueue_batch({arguments})")
    assert caught.value.sqlstate == code
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0


async def test_options_hold_for_a_whole_batch(app: rota.App) -> None:
    @app.job
    async def one(n: int) -> None: ...

    later = one.options(delay=60, priority=2, tags=["x"], tenant="acme", max_attempts=7)
    runs = await app.enqueue_many(later.call(n=n) for n in range(3))
    for n, run in enumerate(runs):
        info = await run.info()
        assert (info.payload, info.state, info.priority) == ({"n": n}, "scheduled", 2)
        assert (info.tags, info.tenant, info.max_attempts) == (["x"], "acme", 7)
        assert info.triggered_by == {"type": "code"}
