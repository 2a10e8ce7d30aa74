"""A job under a new name: by its code (`aliases`) and by an operator (`rename`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rota
from rota.testing import eventually, run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine

LIMIT = {"kind": "concurrency", "cap": 3, "jobs": ["greet"]}


async def greet(n: int) -> str:
    return f"hello {n}"


def declare(make_app: MakeApp, name: str, **options: Any) -> tuple[rota.App, Any]:
    app = make_app()
    return app, app.job(name=name, **options)(greet)


async def test_runs_under_the_old_name_go_on(make_app: MakeApp, engine: Engine) -> None:
    old, before = declare(make_app, "greet")
    new, _after = declare(make_app, "welcome", aliases=["greet"])
    waiting = await before.enqueue(n=1)
    later = await before.options(delay=3600).enqueue(n=2)
    await run_due(new)
    assert await waiting.wait(1) == "hello 1"
    # Whoever has not been deployed yet, and SQL, still name the old one.
    again = await before.enqueue(n=3)
    plain = engine.one("SELECT rota.enqueue('greet', '{\"n\": 4}')")
    many = engine.rows("SELECT * FROM rota.enqueue_many('{greet}', ARRAY['{\"n\": 5}'::jsonb])")
    batch = engine.one("SELECT rota.enqueue_batch('greet', '[{\"n\": 6}]')")
    by_name = await new.runs.enqueue("greet", {"n": 7})
    ids = [again.id, plain, many[0]["run_id"], batch[0], by_name.id]
    assert {engine.run(it)["job"] for it in [*ids, later.id]} == {"welcome"}
    await run_due(new)
    assert {engine.state(it) for it in ids} == {"succeeded"}
    assert engine.one("SELECT count(*) FROM rota.jobs WHERE name = 'greet'") == 0
    # Code of before does not make it again, while the new one works.
    async with new.worker():
        await run_due(old)
    assert engine.one("SELECT count(*) FROM rota.jobs WHERE name = 'greet'") == 0
    for name in ("greet", "welcome"):
        assert len(await new.runs.list(job=name, limit=50)) == 7, name


async def test_what_operators_changed_goes_with_it(make_app: MakeApp, engine: Engine) -> None:
    old, _ = declare(make_app, "greet", schedules=[rota.every(3600, payload={"n": 1})])
    new, _ = declare(
        make_app, "welcome", aliases=["greet"], schedules=[rota.every(3600, payload={"n": 1})]
    )
    await run_due(old)
    await old.jobs.update("greet", priority=2, queue="mail", reason="urgent")
    await old.schedules.update("greet", every=60)
    await old.schedules.create("nightly", "greet", cron="0 3 * * *", payload={"n": 2})
    engine.one("SELECT rota.set_limit(%s, %s)", "few", json.dumps(LIMIT))
    schedule = engine.one("SELECT id FROM rota.schedules WHERE name = 'greet'")
    await run_due(new)
    job = await new.jobs.get("welcome")
    assert (job.priority, job.queue, sorted(job.edited)) == (2, "mail", ["priority", "queue"])
    found = engine.rows(
        "SELECT * FROM rota.schedules WHERE job IN ('greet', 'welcome') ORDER BY name"
    )
    assert [(it["name"], it["job"]) for it in found] == [
        ("nightly", "welcome"),
        ("welcome", "welcome"),
    ]
    assert (found[1]["id"], found[1]["interval_seconds"]) == (schedule, 60)
    assert engine.one("SELECT jobs FROM rota.limits WHERE name = 'few'") == ["welcome"]
    actions = [it["action"] for it in engine.audit("welcome")]
    assert "job.renamed" in actions
    assert "job.deleted" not in [it["action"] for it in engine.audit("greet")]


async def test_a_key_is_one_key_under_both_names(make_app: MakeApp, engine: Engine) -> None:
    _, before = declare(make_app, "greet")
    new, after = declare(make_app, "welcome", aliases=["greet"])
    first = await before.options(key="k", delay=3600).enqueue(n=1)
    async with new.worker():
        await eventually(lambda: engine.run(first.id)["job"] == "welcome", 20)
        assert (await before.options(key="k").enqueue(n=2)).id == first.id
        assert (await after.options(key="k").enqueue(n=2)).id == first.id
        await first.cancel()
        third = await after.options(key="k").enqueue(n=3)
        assert third.id != first.id
        assert await third.wait(20) == "hello 3"
    assert engine.one("SELECT count(*) FROM rota.keys") == 0


async def test_a_new_web_process_comes_before_its_worker(make_app: MakeApp, engine: Engine) -> None:
    """The old workers go on with the old name until a new one is there."""
    old, before = declare(make_app, "greet")
    new, after = declare(make_app, "welcome", aliases=["greet"])
    async with old.worker():
        early = await after.enqueue(n=1)
        assert await (await before.enqueue(n=2)).wait(20) == "hello 2"
        async with new.worker():
            assert await early.wait(20) == "hello 1"
            assert await (await before.enqueue(n=3)).wait(20) == "hello 3"
    assert engine.one("SELECT array_agg(name) FROM rota.jobs WHERE NOT is_system") == ["welcome"]


async def test_a_roll_back_has_the_old_name_again(make_app: MakeApp, engine: Engine) -> None:
    old, _before = declare(make_app, "greet")
    new, after = declare(make_app, "welcome", aliases=["greet"])
    await run_due(old)
    await old.jobs.update("greet", priority=2)
    await run_due(new)
    waiting = await after.enqueue(n=1)
    async with old.worker():
        assert await waiting.wait(30) == "hello 1"
    job = await old.jobs.get("greet")
    assert (job.priority, job.deleted_from_code_at) == (2, None)
    assert engine.one("SELECT count(*) FROM rota.jobs WHERE name = 'welcome'") == 0


async def test_releases_go_back_and_forth(make_app: MakeApp, engine: Engine) -> None:
    """A roll-back, the new release again, and one with a third name: each keeps what waits."""
    fields: dict[str, Any] = {"schedules": [rota.every(3600, payload={"n": 1})]}
    old, before = declare(make_app, "greet", **fields)
    new, _ = declare(make_app, "welcome", aliases=["greet"], **fields)
    third, _ = declare(make_app, "hello", aliases=["welcome", "greet"], **fields)
    await run_due(old)
    schedule = engine.one("SELECT id FROM rota.schedules WHERE name = 'greet'")
    waiting = await before.options(delay=3600).enqueue(n=1)
    for app, name in [
        (new, "welcome"), (old, "greet"), (new, "welcome"), (third, "hello"), (new, "welcome"),
        (third, "hello"), (old, "greet"), (third, "hello"), (old, "greet"), (new, "welcome"),
    ]:  # fmt: skip
        await run_due(app)
        own = "SELECT array_agg(name) FROM rota.jobs WHERE NOT is_system"
        assert engine.one(own) == [name]
        assert engine.run(waiting.id)["job"] == name
        found = "SELECT array_agg(id) FROM rota.schedules WHERE NOT is_system AND job = %s"
        assert engine.one(found, name) == [schedule]
    assert len(await new.runs.list(job="hello")) == 1


async def test_an_operator_renames_what_no_code_has_any_more(
    make_app: MakeApp, engine: Engine
) -> None:
    """The release forgot to name the old one."""
    _old, before = declare(make_app, "greet")
    new, _ = declare(make_app, "welcome")
    waiting = await before.options(key="k").enqueue(n=1)
    await run_due(new)
    assert await new.jobs.rename("greet", "welcome", reason="forgotten") == 1
    await run_due(new)
    assert await waiting.wait(1) == "hello 1"
    entry = engine.audit("welcome")[-1]
    assert (entry["action"], entry["reason"]) == ("job.renamed", "forgotten")
    assert entry["before"] == {"name": "greet"}
    assert [it.id for it in await new.runs.list(job="greet")] == [waiting.id]


async def test_what_failed_under_the_old_name_is_retried_under_the_new(
    app: rota.App, engine: Engine
) -> None:
    """A retry takes back the end that was counted, and the key is that of the new name."""
    engine.job("greet", max_attempts=1)
    run, worker = engine.enqueue("greet", key="k"), engine.worker()
    engine.fail(worker, engine.claim_one(worker, jobs=["greet"]))
    assert await app.jobs.rename("greet", "welcome") == 0
    holder = engine.enqueue("welcome", key="k")
    assert "key_held" in {one.code for one in (await app.why(run)).reasons}
    engine.cancel(holder)
    engine.retry(run)
    found = engine.one("SELECT total_runs FROM rota.job_status WHERE name = 'welcome'")
    assert found == 1, "the holder of the key"


@pytest.mark.parametrize("name", ["greet", "welcome"])
async def test_the_history_is_found_under_both_names(
    make_app: MakeApp, engine: Engine, name: str
) -> None:
    """Runs, lines, figures and errors from before the rename belong to the job."""
    old, _ = declare_loud(make_app, "greet")
    for n in (1, 0):
        await old.runs.enqueue("greet", {"n": n})
    await run_due(old)
    new, _ = declare_loud(make_app, "welcome", aliases=["greet"])
    await new.runs.enqueue("greet", {"n": 2})
    await run_due(new)
    await new.runs.enqueue("welcome", {"n": 3})
    await run_due(new)
    states = [it.state for it in await new.runs.list(job=name)]
    assert sorted(states) == ["failed", *["succeeded"] * 3]
    assert len((await new.logs.search(job=name)).lines) == 4  # with that of the error
    assert len((await new.logs.search("there", job=name)).lines) == 3
    assert (await new.logs.volume(job=name)).levels["info"] == 3
    stats = await new.stats.get(job=name)
    assert (stats.total.attempts, stats.states.succeeded, stats.states.failed) == (4, 3, 1)
    assert [(it.job, it.activity.attempts) for it in stats.jobs] == [("welcome", 4)]
    assert len(await new.errors.list(job=name)) == 1


async def test_the_policy_of_retention_is_for_both_names(make_app: MakeApp, engine: Engine) -> None:
    """What an operator keeps longer, or shorter, does not change its time with the name."""
    old, before = declare(make_app, "greet", retention={"count": 2})
    for n in range(3):
        await before.enqueue(n=n)
    await run_due(old)
    new, after = declare(make_app, "welcome", aliases=["greet"], retention={"count": 2})
    await run_due(new)
    await after.enqueue(n=4)
    await run_due(new)
    await new.retention.run()
    assert engine.one("SELECT count(*) FROM rota.runs WHERE job = 'greet'") == 2
    assert engine.one("SELECT count(*) FROM rota.runs WHERE job = 'welcome'") == 1


def declare_loud(make_app: MakeApp, name: str, **options: Any) -> tuple[rota.App, Any]:
    app = make_app()

    @app.job(name=name, max_attempts=1, **options)
    async def loud(ctx: rota.Context, n: int) -> None:
        if not n:
            raise ValueError("no")
        ctx.log.info("hello there")

    return app, loud


async def test_a_rename_that_live_workers_do_not_know_is_refused(make_app: MakeApp) -> None:
    app, _ = declare(make_app, "greet")
    async with app.worker():
        with pytest.raises(rota.WrongState, match="but not under the name") as found:
            await app.jobs.rename("greet", "welcome")
        assert 'aliases=["greet"]' in (found.value.hint or "")
    for wrong in ("", "greet", "x" * 201):
        with pytest.raises(rota.RotaError):
            await app.jobs.rename("greet", wrong)
    with pytest.raises(rota.UnknownJob):
        await app.jobs.rename("nobody", "welcome")


async def test_a_sql_job_is_renamed(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(
        "CREATE FUNCTION public.tidy(payload jsonb) RETURNS jsonb LANGUAGE sql AS "
        '$$ SELECT \'{"success": true, "message": "done"}\'::jsonb $$'
    )
    engine.job("tidy", kind="sql", function_name="public.tidy")
    run = engine.enqueue("tidy")
    assert engine.one("SELECT rota.rename_job('tidy', 'clean')") == 1
    await run_due(app)
    assert (engine.run(run)["job"], engine.state(run)) == ("clean", "succeeded")


async def test_a_run_that_somebody_holds_follows_later(
    make_app: MakeApp, engine: Engine, connect: Any
) -> None:
    _, before = declare(make_app, "greet")
    new, _ = declare(make_app, "welcome")
    run = await before.enqueue(n=1)
    other = connect(autocommit=False)
    other.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [run.id])
    await run_due(new)
    assert await new.jobs.rename("greet", "welcome") == 0
    other.rollback()
    async with new.worker():
        assert await run.wait(60) == "hello 1"


def test_an_alias_is_no_other_job(app: rota.App) -> None:
    app.job(name="welcome", aliases=["greet"])(greet)
    with pytest.raises(rota.JobError, match='the name or the alias "greet"'):

        @app.job(name="greet")
        async def other() -> None: ...

    with pytest.raises(rota.JobError, match="one of its aliases"):

        @app.job(name="third", aliases=["third"])
        async def third() -> None: ...

    wrong: Any = {"greet"}
    with pytest.raises(rota.JobError, match="aliases must be a list of earlier names"):

        @app.job(name="fourth", aliases=wrong)
        async def fourth() -> None: ...
