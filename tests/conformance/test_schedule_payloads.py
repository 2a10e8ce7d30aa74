"""A payload that the job would not take is refused where it is written: by whoever declares,
creates, edits or triggers a schedule, or enqueues a run by the name of a job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID

import psycopg
import pytest

import rota
from rota.api import create_api
from rota.cli.main import run as run_command
from rota.web import create_site
from tests.api.conftest import client_of
from tests.conftest import MakeApp
from tests.web.conftest import browser_of

Connection = psycopg.Connection[tuple[Any, ...]]
TOKEN = "a token for tests"
V1 = "/api/v1"
BAD = [
    None,
    {},
    {"user_id": "seven"},
    {"user_id": [7]},
    {"user_id": None},
    {"user_id": 7.5},
    {"user_id": 7, "locale": 3},
    {"user_id": 7, "colour": "red"},
]


def declare(app: rota.App) -> Any:
    @app.job
    async def send(user_id: int, locale: str = "en") -> None: ...

    @app.job(payload={"days": 7})
    async def clean(days: int) -> None: ...

    return send


@pytest.fixture
async def stored(make_app: MakeApp, conn: Connection) -> None:
    """Another application has registered the jobs, with a schedule."""
    app = make_app()
    app.schedule("old", declare(app), every=3600, payload={"user_id": 1})
    await app.database.open()
    await app.close()


@pytest.fixture
def stranger(make_app: MakeApp, stored: None) -> rota.App:
    """Knows no job."""
    return make_app(**{"server.token": TOKEN})


# Declared.


@pytest.mark.parametrize("payload", BAD)
def test_app_schedule(app: rota.App, payload: Any) -> None:
    send = declare(app)
    with pytest.raises(rota.PayloadError, match='schedule "s": job "send": ') as caught:
        app.schedule("s", send, every=60, payload=payload)
    assert caught.value.hint or payload not in (None, {})
    assert not app.database.is_open


@pytest.mark.parametrize("payload", BAD)
def test_decorators(app: rota.App, payload: Any) -> None:
    async def send(user_id: int, locale: str = "en") -> None: ...

    with pytest.raises(rota.JobError, match='its schedule "send": job "send": '):
        app.job(schedules=[rota.every(60, payload=payload)])(send)


def test_what_fits_is_taken(app: rota.App) -> None:
    declare(app)
    app.schedule("s", "send", every=60, payload={"user_id": 7})
    app.schedule("c", "clean", every=60)

    async def one(user_id: int) -> None: ...

    app.job(payload={"user_id": 1}, schedules=[rota.every(60)])(one)


# Written: by those who do not know the types.


async def by_python(app: rota.App, payload: Any) -> None:
    await app.schedules.create("s", "send", every=60, payload=payload)


async def by_put(app: rota.App, payload: Any) -> None:
    await app.schedules.put("s", "send", every=60, payload=payload)


async def by_app_schedule(app: rota.App, payload: Any) -> None:
    await app.database.open()
    await asyncio.to_thread(lambda: app.schedule("s", "send", every=60, payload=payload))


async def by_update(app: rota.App, payload: Any) -> None:
    await app.schedules.update("old", payload=payload)


async def by_another_job(app: rota.App, payload: Any) -> None:
    await app.schedules.put("s", "clean", every=60)
    await app.schedules.update("s", job="send", payload=payload)


EDITS = [by_python, by_put, by_app_schedule, by_update, by_another_job]


@pytest.mark.parametrize("way", EDITS)
async def test_python(
    stranger: rota.App, conn: Connection, way: Callable[..., Awaitable[None]]
) -> None:
    for payload in BAD:
        with pytest.raises(rota.PayloadError, match='does not fit job "send": '):
            await way(stranger, payload)
    found = conn.execute("SELECT name, payload FROM rota.schedules WHERE job = 'send'").fetchall()
    assert found == [("old", {"user_id": 1})]


async def test_sql(stored: None, conn: Connection) -> None:
    queries = (
        "INSERT INTO rota.schedules (name, job, interval_seconds, payload)"
        " VALUES ('s', 'send', 60, %s)",
        "UPDATE rota.schedules SET payload = %s WHERE name = 'old'",
    )
    for query, payload in product(queries, BAD):
        text = None if payload is None else json.dumps(payload)
        with pytest.raises(psycopg.Error, match='does not fit job "send"') as caught:
            conn.execute(query, [text])
        assert caught.value.sqlstate == "RO018"
    conn.execute("UPDATE rota.schedules SET payload = '{\"user_id\": 8}' WHERE name = 'old'")


async def test_api_command_and_page(
    stranger: rota.App,
    app_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", app_url)
    bad = {"user": 7}
    said = "argument user_id is missing"
    async with client_of(create_api(stranger), Authorization=f"Bearer {TOKEN}") as api:
        body = {"name": "s", "job": "send", "interval_seconds": 60, "payload": bad}
        for answer in (
            await api.post(f"{V1}/schedules", json=body),
            await api.patch(f"{V1}/schedules/old", json={"payload": bad}),
            await api.post(f"{V1}/schedules/old/trigger", json={"payload": bad}),
            await api.post(f"{V1}/runs", json={"job": "send", "payload": bad}),
        ):
            assert answer.status_code == 422
            assert answer.json()["code"] in ("no_payload", "payload_mismatch", "payload_error")
            assert said in answer.json()["detail"]
    given = json.dumps(bad)
    for command in (
        [
            "schedules",
            "create",
            "s",
            "send",
            "--interval",
            "1m",
            "--payload",
            given,
        ],
        ["schedules", "update", "old", "--payload", given],
        ["schedules", "trigger", "old", "--payload", given],
        ["runs", "enqueue", "send", given],
    ):
        assert await asyncio.to_thread(run_command, command) == 2
        assert said in capsys.readouterr().err
    web = browser_of(create_site(stranger))
    async with web.client:
        await web.get("/sign-in")
        await web.post("/sign-in", token=TOKEN, next="/queues")
        await web.get("/schedules/new")
        form = {
            "name": "s",
            "job": "send",
            "when": "interval_seconds",
            "interval_seconds": "1m",
            "payload": given,
        }
        await web.post("/schedules/new", 422, **form)
        assert said in web.text
        await web.get("/schedules/old/trigger")
        await web.post("/schedules/old/trigger", 422, payload=given)
        assert said in web.text
        await web.get("/runs/new?job=send")
        await web.post("/runs/new", 422, job="send", payload=given)
        assert said in web.text
    assert await stranger.runs.list() == []
    assert [one.name for one in await stranger.schedules.list(job="send")] == ["old"]


async def test_a_trigger_in_sql(stored: None, conn: Connection) -> None:
    with pytest.raises(psycopg.Error, match="argument user_id is missing"):
        conn.execute("SELECT rota.trigger_schedule('old', '{}')")
    conn.execute("SELECT rota.trigger_schedule('old')")
    conn.execute("SELECT rota.trigger_schedule('old', '{\"user_id\": \"9\"}')")


async def test_an_older_build_starts_although_the_job_has_changed(
    make_app: MakeApp, stored: None, conn: Connection
) -> None:
    """What code declares is measured by its own types: a roll-out has both for a while."""
    new = make_app()

    @new.job
    async def send(user_id: int, region: str) -> None: ...

    new.schedule("old", send, every=3600, payload={"user_id": 1, "region": "eu"})
    async with new.worker():
        before = make_app()
        before.schedule("old", declare(before), every=3600, payload={"user_id": 1})
        await before.database.open()
        await before.close()
    await new.close()


# Whatever the types of a handler take, the database does not refuse.


async def test_every_type_that_is_taken_is_stored(make_app: MakeApp, conn: Connection) -> None:
    app = make_app()

    @app.job
    async def odd(
        at: datetime,
        number: Decimal,
        key: UUID,
        many: set[int],
        pair: tuple[int, str],
        raw: bytes,
        flag: bool,
        maybe: int | None = None,
        either: int | list[str] = 0,
        anything: Any = None,
        table: dict[str, float] | None = None,
    ) -> None: ...

    payload = {
        "at": "2026-03-08T09:00:00Z", "number": "1.50", "key": str(UUID(int=7)), "many": [1, 2],
        "pair": [1, "x"], "raw": "aGVsbG8=", "flag": "yes", "maybe": None, "either": ["a"],
        "anything": {"x": [None]}, "table": {"a": 1},
    }  # fmt: skip
    await app.schedules.create("typed", "odd", every=60, payload=payload)
    lax = payload | {"at": 1772960400, "number": 1.5, "maybe": "12", "flag": 1, "either": "3"}
    conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds, payload)"
        " VALUES ('plain', 'odd', 60, %s)",
        [json.dumps(lax)],
    )
    schema = app.registry.get("odd").schema
    assert schema.decode(json.dumps(lax).encode(), False)["maybe"] == 12


async def test_a_sql_job_takes_any_object(conn: Connection, app: rota.App) -> None:
    await app.database.open()
    conn.execute(
        "CREATE FUNCTION public.tidy() RETURNS jsonb LANGUAGE sql AS"
        ' $$ SELECT \'{"success": true, "message": ""}\'::jsonb $$'
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('tidy', 'sql', 'public.tidy')"
    )
    conn.execute("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('t', 'tidy', 9)")
    conn.execute("UPDATE rota.schedules SET payload = '{\"a\": [1]}' WHERE name = 't'")
