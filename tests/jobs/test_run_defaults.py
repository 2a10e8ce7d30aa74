"""What a declaration says of its runs, and what an enqueue makes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import MakeApp

Connection = psycopg.Connection[Any]


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    app = make_app()

    @app.job(
        delay=60, expires_in=timedelta(minutes=10), key="invoice:{invoice_id}", tenant="acme",
        tags=["money"], metadata={"team": "billing"}, default_payload={"invoice_id": 7},
        events=["invoice.sent"],
    )  # fmt: skip
    async def bill(invoice_id: int, kind: str = "sale") -> None: ...

    @app.job
    async def plain(n: int = 1) -> None: ...

    @app.job
    async def strict(n: int) -> None: ...

    return app


def job(app: rota.App, name: str) -> rota.Job:
    definition = app.registry.get(name)
    return rota.Job(definition, app._enqueuer)


async def test_every_way_of_python_has_what_the_declaration_says(app: rota.App) -> None:
    bill = job(app, "bill")
    first = await bill.enqueue()
    again = [
        await bill.enqueue(invoice_id=7),
        bill.enqueue_sync(7),
        *await app.enqueue_many([bill.call(), bill.call(7, kind="gift")]),
        await app.runs.enqueue("bill"),
        await app.tenant("acme").enqueue(bill, 7),
        *await app.emit("invoice.sent"),
    ]
    assert {(run.id, run.is_duplicate) for run in again} == {(first.id, True)}
    run = await app.runs.get(first.id)
    assert (run.key, run.tenant, run.payload) == ("invoice:7", "acme", {"invoice_id": 7})
    assert (run.tags, run.metadata) == (["money"], {"team": "billing"})
    assert run.run_at - run.created_at == timedelta(seconds=60)
    assert run.expires_at == run.run_at + timedelta(minutes=10)


async def test_options_count_more(app: rota.App) -> None:
    bill, soon = job(app, "bill"), datetime.now(UTC) + timedelta(hours=1)
    options = bill.options(
        run_at=soon, expires_in=5, key="own", tenant="blue", tags=[], metadata={"by": "me"}
    )
    run = await app.runs.get((await options.enqueue(invoice_id=8)).id)
    assert (run.run_at, run.expires_at) == (soon, soon + timedelta(seconds=5))
    assert (run.key, run.tenant, run.tags) == ("own", "blue", [])
    assert run.metadata == {"team": "billing", "by": "me"}
    # The later one of two ways to say the same counts.
    later = options.options(delay=0, expires_at=soon)
    run = await app.runs.get((await later.options(key="other").enqueue(invoice_id=9)).id)
    assert (run.state, run.expires_at) == ("queued", soon)


async def test_a_key_of_the_job_can_be_dealt_with(app: rota.App) -> None:
    bill = job(app, "bill")
    first = await bill.enqueue(1)
    with pytest.raises(rota.DuplicateKey):
        await bill.options(on_conflict="raise").enqueue(1)
    await bill.options(on_conflict="replace").enqueue(1, kind="gift")
    assert (await app.runs.get(first.id)).payload == {"invoice_id": 1, "kind": "gift"}
    with pytest.raises(rota.InputError, match="needs a key"):
        job(app, "plain").options(on_conflict="raise")
    with pytest.raises(rota.InputError, match="on_conflict needs a key"):
        await app.runs.enqueue("plain", on_conflict="raise")


async def test_the_default_payload_is_the_databases(app: rota.App) -> None:
    plain, strict = job(app, "plain"), job(app, "strict")
    with pytest.raises(rota.PayloadError, match="argument n is missing"):
        await strict.enqueue()
    with pytest.raises(rota.PayloadError, match="argument n is missing"):
        await app.runs.enqueue("strict")
    await app.jobs.update("plain", default_payload={"n": 5})
    await app.jobs.update("strict", payload={"n": 6})
    runs = [await plain.enqueue(), await plain.enqueue(n=2), await app.runs.enqueue("plain", {})]
    runs += [await app.runs.enqueue("strict"), await app.runs.enqueue("plain")]
    payloads = [(await run.info()).payload for run in runs]
    assert payloads == [{"n": 5}, {"n": 2}, {}, {"n": 6}, {"n": 5}]
    async with app.worker():
        assert (await app.runs.wait(runs[0].id, 20)).state == "succeeded"


async def test_operators_change_them(app: rota.App) -> None:
    changes: dict[str, Any] = {"delay": 5, "expires_in": 9, "key": "k:{n}", "tenant": "blue"}
    found = await app.jobs.update("plain", **changes)
    assert (found.delay_seconds, found.expires_in_seconds) == (5, 9)
    assert (found.key, found.tenant) == ("k:{n}", "blue")
    run = await app.runs.get((await job(app, "plain").enqueue(n=3)).id)
    assert (run.key, run.tenant, run.state) == ("k:3", "blue", "scheduled")
    assert (await job(app, "plain").enqueue(n=3)).is_duplicate
    many = await app.enqueue_many([job(app, "plain").call(n=3)] * 2)
    assert [one.is_duplicate for one in many] == [True, True]
    found = await app.jobs.update("plain", reset=["delay_seconds", "key"], tenant=None)
    assert (found.delay_seconds, found.key, found.tenant) == (None, None, None)
    for bad in ({"key": "{"}, {"tenant": "a/b"}, {"delay": -1}, {"expires_in": 0}):
        with pytest.raises((rota.JobError, rota.InputError)):
            await app.jobs.update("plain", **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"key": "{colour}"}, "names colour, which is not an argument; the job takes n"),
        ({"key": "{nn}"}, "did you mean n"),
        ({"key": "a{"}, "a brace that does not enclose the name"),
        ({"key": "{n}", "schedules": [rota.every(60)]}, "key and schedules cannot be combined"),
        (
            {"key": "{n}", "event_delivery": rota.throttle(5)},
            "key and event_delivery cannot be combined",
        ),
        ({"delay": -1}, "delay must be from 0"),
        ({"expires_in": 0}, "expires_in must be from 0.001"),
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"timeout": 1, "timeout_seconds": 2}, "are the same option; pass only one of them"),
        ({"metadata": {"a": float("nan")}}, "metadata cannot be stored as JSON"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    make_app: MakeApp, arguments: Any, words: str
) -> None:
    with pytest.raises(rota.JobError, match=words):

        @make_app().job(**arguments)
        def one(n: int = 1) -> None: ...


async def test_names_of_columns_are_taken_too(make_app: MakeApp) -> None:
    app = make_app()

    @app.job(timeout_seconds=5, payload={"n": 2}, delay_seconds=3, is_enabled=False)  # type: ignore[call-arg]
    async def one(n: int) -> None: ...

    found = await app.jobs.get("one")
    assert (found.timeout_seconds, found.default_payload) == (5, {"n": 2})
    assert (found.delay_seconds, found.is_enabled) == (3, False)
    options: Any = {"delay_seconds": 7, "timeout_seconds": 8, "key": "k", "key_seconds": 9}
    run = await app.runs.get((await one.options(**options).enqueue(1)).id)
    assert run.run_at - run.created_at == timedelta(seconds=7)
    with pytest.raises(rota.InputError, match="delay and delay_seconds are the same"):
        one.options(delay=1, delay_seconds=2)  # type: ignore[call-arg]
    app.schedule("s", one, interval_seconds=60, is_shadow=True, jitter_seconds=1)  # type: ignore[call-arg]
    stored = await app.schedules.get("s")
    assert (stored.interval_seconds, stored.is_shadow, stored.jitter_seconds) == (60, True, 1)
    with pytest.raises(rota.TimingError, match="are the same"):
        app.schedule("s", one, every=60, interval_seconds=60)  # type: ignore[call-arg]
    assert [it.id for it in await app.runs.list(state="scheduled")] == [run.id]
    with pytest.raises(rota.FilterError, match="state and states"):
        await app.runs.list(state="queued", states=["queued"])


async def test_an_event_carries_metadata(app: rota.App) -> None:
    (run,) = await app.emit("invoice.sent", {"invoice_id": 3}, metadata={"by": "me"})
    assert (await run.info()).metadata == {"team": "billing", "by": "me"}
    (run,) = app.emit_sync("invoice.sent", {"invoice_id": 4}, metadata={"by": "you"})
    assert (await run.info()).metadata == {"team": "billing", "by": "you"}
    acme = app.tenant("acme")
    (run,) = await acme.emit("invoice.sent", {"invoice_id": 5}, metadata={"by": "acme"})
    assert (await run.info()).metadata["by"] == "acme"
    (run,) = await app.events.emit("invoice.sent", {"invoice_id": 6}, metadata={"by": "ops"})
    assert (await run.info()).metadata["by"] == "ops"
    with pytest.raises(rota.InputError, match="metadata must be a mapping"):
        await app.emit("invoice.sent", metadata=7)  # type: ignore[arg-type]


async def test_a_whole_application_is_forced(app: rota.App) -> None:
    await app.jobs.update("plain", priority=1)
    await app.jobs.update("strict", priority=1)
    assert (await app.jobs.sync_definitions()).written == []
    assert (await app.jobs.sync_definitions(force=["plain"])).written == ["plain"]
    assert (await app.jobs.get("strict")).priority == 1
    assert set((await app.jobs.sync_definitions(force=True)).written) == {"bill", "plain", "strict"}
    assert (await app.jobs.get("strict")).priority == 5
    with pytest.raises(rota.JobError, match="force must be True or a list of job names"):
        await app.jobs.sync_definitions(force="plain")
    with pytest.raises(rota.UnknownJob):
        await app.jobs.sync_definitions(force=["nobody"])


def test_names_of_other_programs_are_answered(app: rota.App) -> None:
    plain: Any = job(app, "plain")
    anything: Any = app
    for words, look in {
        r"use await job.enqueue": lambda: plain.delay(1),
        r"use job.options": lambda: plain.apply_async(args=[1]),
        r"use @app.job": lambda: anything.task,
        r"use await app.runs.enqueue": lambda: anything.jobs.trigger("plain"),
        r"app.jobs.sync_definitions": lambda: anything.jobs.sync.register,
        r"use rota.on_start": lambda: rota.init,  # type: ignore[attr-defined]
    }.items():
        with pytest.raises(AttributeError, match=words):
            look()
    for owner in (plain, app, app.jobs):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            _ = owner.nothing
