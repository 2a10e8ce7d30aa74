"""Two releases of an application side by side: payloads of the one that the other does not take."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import pytest

import rota
from rota.testing import Clock, eventually, run_due
from tests.conftest import MakeApp
from tests.engine import bodies
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_servers


class Release(NamedTuple):
    app: rota.App
    ping: Any


class MakeRelease(Protocol):
    def __call__(
        self, function: Callable[..., Any], settings: dict[str, Any] | None = None, **options: Any
    ) -> Release: ...


@pytest.fixture
def release(make_app: MakeApp) -> MakeRelease:
    """An application whose job `ping` is this function."""

    def make(
        function: Callable[..., Any], settings: dict[str, Any] | None = None, **options: Any
    ) -> Release:
        app = make_app(**settings or {})
        return Release(app, app.job(name="ping", **options)(function))

    return make


async def first(n: int) -> str:
    return f"first {n}"


async def with_optional(n: int, mode: str = "plain") -> str:
    return f"optional {n} {mode}"


async def with_required(n: int, mode: str) -> str:
    return f"required {n} {mode}"


def add_mode(old: dict[str, Any]) -> dict[str, Any]:
    return {"mode": "old", **old}


async def until_held(engine: Engine, run_id: int) -> dict[str, Any]:
    await eventually(lambda: engine.run(run_id)["held_by"] == "payload", 30)
    return engine.run(run_id)


async def test_an_old_worker_leaves_a_new_argument_to_a_new_worker(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_optional)
    async with old.app.worker():
        run = await new.ping.enqueue(n=2, mode="x")
        held = await until_held(engine, run.id)
        assert (held["state"], held["attempts_used"], held["attempt"]) == ("queued", 0, 1)
        assert "unknown argument mode" in held["last_error"]
        assert [it["is_spent"] for it in engine.attempts(run.id)] == [False]
        async with new.app.worker():
            assert await run.wait(30) == "optional 2 x"
    ended = engine.run(run.id)
    assert (ended["attempts_used"], ended["attempt"]) == (1, 2)
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0


async def test_a_live_old_worker_runs_what_a_new_one_does_not_take(
    release: MakeRelease, engine: Engine
) -> None:
    """The new worker is the only one that is called for it first."""
    old, new = release(first), release(with_required)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        async with old.app.worker():
            assert await run.wait(30) == "first 1"
            # Both live: whoever claims it first, the old one runs it.
            more = [await old.ping.enqueue(n=n) for n in range(20)]
            assert [await it.wait(30) for it in more] == [f"first {n}" for n in range(20)]
    assert {it["attempts_used"] for it in engine.rows("SELECT * FROM rota.runs")} == {1}


@pytest.mark.parametrize("executor", ["async", "thread", "process"])
async def test_every_executor_refuses_before_the_body(
    release: MakeRelease, engine: Engine, executor: str
) -> None:
    functions: dict[str, tuple[Any, Any]] = {
        "async": (first, with_required),
        "thread": (bodies.first, bodies.with_required),
        "process": (bodies.first, bodies.with_required),
    }
    old_body, new_body = functions[executor]
    old, new = release(old_body, executor=executor), release(new_body, executor=executor)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        assert "argument mode is missing" in (await until_held(engine, run.id))["last_error"]
        async with old.app.worker():
            assert await run.wait(60) == "first 1"


async def test_a_payload_that_no_signature_takes_fails_at_once(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_required)
    await old.app.database.open()
    await run_due(old.app)
    await run_due(new.app)
    run = engine.one('SELECT rota.enqueue(\'ping\', \'{"n": "many", "mode": "x"}\')')
    # Valid for the signature of before, which the job no longer had when it was enqueued.
    late = engine.one("SELECT rota.enqueue('ping', '{\"n\": 1}')")
    await run_due(new.app)
    for refused in (run, late):
        ended = engine.run(refused)
        assert (ended["state"], ended["end_reason"]) == ("failed", "payload refused")
        assert (ended["attempts_used"], engine.attempt_states(refused)) == (1, ["failed"])


async def test_an_unchecked_payload_of_the_release_before_waits(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_required)
    await run_due(old.app)
    run = engine.one("SELECT rota.enqueue('ping', '{\"n\": 1}')")
    async with new.app.worker():
        await until_held(engine, run)
        async with old.app.worker():
            await eventually(lambda: engine.state(run) == "succeeded", 30)


async def test_a_validator_that_changes_its_mind_fails_the_run(
    release: MakeRelease, engine: Engine
) -> None:
    """The very signature that accepted it refuses it: no release will do better."""
    known = release(bodies.moody)
    run = await known.ping.enqueue(mood=bodies.Mood(good=True))
    engine.conn.execute('UPDATE rota.open_runs SET payload = \'{"mood": {"good": false}}\'')
    await run_due(known.app)
    assert engine.run(run.id)["end_reason"] == "payload refused"


async def test_what_nobody_takes_fails_after_its_time(release: MakeRelease, engine: Engine) -> None:
    old, new = release(first), release(with_required)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        Clock(new.app).advance(timedelta(seconds=86_000))
        await run_due(new.app)
        assert engine.state(run.id) == "queued"
        Clock(new.app).advance(timedelta(seconds=500))
        await eventually(lambda: engine.state(run.id) == "failed", 30)
    ended = engine.run(run.id)
    assert ended["end_reason"] == "payload refused"
    assert ended["last_error"].startswith("no live worker took the payload for 86400 s: payload ")


async def test_for_how_long_is_configured(release: MakeRelease, engine: Engine) -> None:
    old, new = release(first), release(with_required, {"worker.refused_payload_seconds": 60})
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        Clock(new.app).advance(timedelta(seconds=70))
        await eventually(lambda: engine.state(run.id) == "failed", 30)
    assert "for 60 s" in engine.run(run.id)["last_error"]


async def test_what_waits_for_a_worker_that_leaves_is_held(
    release: MakeRelease, engine: Engine
) -> None:
    """The old worker is draining when it would have to take it, and is then resumed."""
    old, new = release(first), release(with_required)
    async with old.app.worker() as worker, new.app.worker():
        await old.app.workers.drain(worker.id)
        run = await old.ping.enqueue(n=1)
        await until_held(engine, run.id)
        await old.app.workers.resume(worker.id)
        assert await run.wait(30) == "first 1"


async def test_an_operator_gives_a_held_run_another_payload(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_required)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        with pytest.raises(rota.PayloadError, match="argument mode is missing"):
            await new.app.runs.retry(run.id, payload={"n": 3})
        await new.app.runs.retry(run.id, payload={"n": 3, "mode": "edited"}, reason="new release")
        assert await run.wait(30) == "required 3 edited"
    (entry,) = engine.audit(run.id)
    assert (entry["action"], entry["reason"]) == ("run.retried", "new release")


async def test_a_replaced_payload_is_looked_at_anew(release: MakeRelease, engine: Engine) -> None:
    old, new = release(first), release(with_required)
    run = await old.ping.options(key="k").enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        again = await new.ping.options(key="k", on_conflict="replace").enqueue(n=2, mode="x")
        assert again.id == run.id
        assert await run.wait(30) == "required 2 x"


async def test_a_held_run_gives_its_slot_to_others(release: MakeRelease, engine: Engine) -> None:
    old = release(first, limits=rota.concurrency(1))
    new = release(with_required, limits=rota.concurrency(1))
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        assert await (await new.ping.enqueue(n=2, mode="x")).wait(30) == "required 2 x"
        async with old.app.worker():
            assert await run.wait(30) == "first 1"


async def test_a_refused_run_waits_for_its_limit_again(
    release: MakeRelease, engine: Engine
) -> None:
    """It had a slot when it was refused, and starts under one."""
    old = release(first, limits=rota.concurrency(1))
    new = release(with_required, limits=rota.concurrency(1))
    async with old.app.worker(), new.app.worker():
        runs = [await old.ping.enqueue(n=n) for n in range(10)]
        assert [await it.wait(60) for it in runs] == [f"first {n}" for n in range(10)]


async def test_tenants_share_a_queue_with_a_refused_run(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_required)
    refused = [await old.ping.options(tenant=it).enqueue(n=1) for it in ("acme", "globex")]
    async with new.app.worker():
        for it in refused:
            await until_held(engine, it.id)
        async with old.app.worker():
            others = [await new.ping.options(tenant=it).enqueue(n=2, mode="x") for it in ("a", "b")]
            assert [await it.wait(30) for it in refused] == ["first 1"] * 2
            assert [await it.wait(30) for it in others] == ["required 2 x"] * 2


async def test_a_refused_run_can_be_cancelled(release: MakeRelease, engine: Engine) -> None:
    old, new = release(first), release(with_required)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        await new.app.runs.cancel(run.id)
    assert engine.state(run.id) == "cancelled"


# Upgrades.


async def test_an_upgrade_makes_old_payloads_new(release: MakeRelease, engine: Engine) -> None:
    old, new = release(first), release(with_required, upgrade=add_mode)
    checked = await old.ping.enqueue(n=1)
    plain = engine.one("SELECT rota.enqueue('ping', '{\"n\": 2}')")
    fresh = await new.ping.enqueue(n=3, mode="new")
    await run_due(new.app)
    assert await checked.wait(1) == "required 1 old"
    assert await fresh.wait(1) == "required 3 new"
    assert engine.run(plain)["result"] == "required 2 old"
    assert engine.run(checked.id)["payload"] == {"n": 1}


async def test_an_upgrade_is_called_for_an_old_payload_that_would_fit(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_optional, upgrade=add_mode)
    run = await old.ping.enqueue(n=1)
    await run_due(new.app)
    assert await run.wait(1) == "optional 1 old"


async def test_an_upgrade_never_sees_a_newer_payload(release: MakeRelease, engine: Engine) -> None:
    """It would make an old payload of a new one, and nobody would know."""

    def only_n(old: dict[str, Any]) -> dict[str, Any]:
        return {"n": old["n"]}

    old, new = release(first, upgrade=only_n), release(with_optional)
    await run_due(old.app)
    async with old.app.worker():
        run = await new.ping.enqueue(n=1, mode="x")
        await until_held(engine, run.id)
        # One that the old code takes as it is, it may run.
        both = await new.ping.enqueue(n=2)
        assert await both.wait(30) == "first 2"


@pytest.mark.parametrize(
    ("upgrade", "words"),
    [
        (lambda old: {"n": old["m"]}, "the upgrade of its payload failed: KeyError: 'm'"),
        (lambda old: None, "it must return a dict, not None"),
        (lambda old: {"n": 1}, "argument mode is missing"),
        (lambda old: {"n": 1, "mode": object()}, "cannot be stored as JSON"),
    ],
)
async def test_an_upgrade_that_fails_says_how(
    release: MakeRelease, engine: Engine, upgrade: Any, words: str
) -> None:
    old, new = release(first), release(with_required, upgrade=upgrade)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        assert words in (await until_held(engine, run.id))["last_error"]


async def test_a_new_upgrade_is_tried_at_once(release: MakeRelease, engine: Engine) -> None:
    """The signature is the same: what differs is which payloads the code takes."""
    old, new = release(first), release(with_required)
    better = release(with_required, upgrade=add_mode)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        async with better.app.worker():
            assert await run.wait(30) == "required 1 old"


async def test_a_new_release_of_the_same_signature_is_tried(
    release: MakeRelease, engine: Engine
) -> None:
    old, new = release(first), release(with_required, {"release": "1"})
    again = release(with_required, {"release": "2"})
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        await until_held(engine, run.id)
        async with again.app.worker():
            await eventually(lambda: len(engine.attempts(run.id)) == 2, 30)
            held = await until_held(engine, run.id)
    assert "(release 1)" in held["last_error"]
    assert "(release 2)" in held["last_error"]


async def test_a_child_process_gets_the_upgraded_payload(
    release: MakeRelease, engine: Engine
) -> None:
    old = release(bodies.first, executor="process")
    new = release(bodies.with_required, executor="process", upgrade=add_mode)
    run = await old.ping.enqueue(n=1)
    async with new.app.worker():
        assert await run.wait(60) == "required 1 old"


def test_an_upgrade_is_a_function(app: rota.App) -> None:
    async def later(old: dict[str, Any]) -> dict[str, Any]:
        return old

    wrong: Any
    for wrong in ("old", later):
        with pytest.raises(rota.JobError, match=r"upgrade must be a function \(def\)"):
            app.job(name="ping", upgrade=wrong)(first)
