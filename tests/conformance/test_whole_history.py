"""The history of a schedule: the decisions about its times, and what people ran beside them, in the
order of time, page by page, on every interface."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.api import create_api
from rota.cli.main import run as run_command
from rota.model.occurrence import OccurrenceInfo
from rota.web import create_site
from tests.api.conftest import client_of, problem
from tests.conftest import MakeApp
from tests.web.conftest import browser_of

Connection = psycopg.Connection[tuple[Any, ...]]
TOKEN = "a token for tests"
V1 = "/api/v1"
START = datetime(2026, 3, 1, tzinfo=UTC)


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


@pytest.fixture
async def app(make_app: MakeApp, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> rota.App:
    made = make_app(**{"server.token": TOKEN})
    monkeypatch.setenv("ROTA_DATABASE_URL", str(made.config.database_url))

    @made.job
    async def work(n: int = 1) -> None: ...

    await made.schedules.create("s", "work", every=3600, start_at=START)
    return made


def ledger(conn: Connection, at: datetime, through: datetime | None = None, count: int = 1) -> None:
    conn.execute("SELECT rota.ensure_ledger(ARRAY[%s])", [at])
    conn.execute(
        "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason,"
        " tenant, schedule, claimed_at, decided_at)"
        " SELECT id, %(at)s, %(through)s, %(count)s, 'missed', 'window', '', 's', %(at)s, %(at)s"
        " FROM rota.schedules WHERE name = 's'",
        {"at": at, "through": through or at, "count": count},
    )


async def trigger(app: rota.App, conn: Connection, at: datetime) -> int:
    """As if somebody had asked then."""
    done = await app.schedules.by("ada").trigger("s", reason="asked for")
    conn.execute(
        "UPDATE rota.audit SET at = %s WHERE after ->> 'run_id' = %s", [at, str(done.run_id)]
    )
    return done.run_id


def told(found: Any) -> list[tuple[str, datetime]]:
    return [(one.decision, one.nominal_at) for one in found]


@pytest.fixture
async def mixed(app: rota.App, conn: Connection) -> list[tuple[str, datetime]]:
    """Times and triggers by turns, two of them at one instant; the newest first."""
    for n in range(4):
        ledger(conn, hour(n))
    for n in (0.5, 2, 2, 9):
        await trigger(app, conn, hour(n))
    return [
        ("triggered", hour(9)), ("missed", hour(3)), ("triggered", hour(2)), ("triggered", hour(2)),
        ("missed", hour(2)), ("missed", hour(1)), ("triggered", hour(0.5)), ("missed", hour(0)),
    ]  # fmt: skip


async def pages(app: rota.App, limit: int, **asked: Any) -> list[OccurrenceInfo]:
    seen: list[OccurrenceInfo] = []
    cursor = None
    for _ in range(20):
        page = await app.schedules.history_page("s", limit=limit, cursor=cursor, **asked)
        assert len(page.items) <= limit
        seen += page.items
        cursor = page.cursor
        if cursor is None:
            return seen
    raise AssertionError("the pages do not end")


async def test_without_being_asked_the_ledger_alone(
    app: rota.App, mixed: list[tuple[str, datetime]]
) -> None:
    found = await app.schedules.history("s")
    assert told(found) == [one for one in mixed if one[0] == "missed"]


@pytest.mark.parametrize("limit", [1, 2, 3, 8, 50])
async def test_both_in_the_order_of_time(
    app: rota.App, mixed: list[tuple[str, datetime]], limit: int
) -> None:
    newest = await pages(app, limit, manual=True)
    assert told(newest) == mixed
    oldest = await pages(app, limit, manual=True, order="oldest")
    assert oldest == newest[::-1]


async def test_narrowed(app: rota.App, mixed: list[tuple[str, datetime]]) -> None:
    both: Any = {"since": hour(1), "before": hour(3), "manual": True}
    assert told(await app.schedules.history("s", **both)) == mixed[2:6]
    missed = await app.schedules.history("s", decision="missed", manual=True)
    assert told(missed) == [one for one in mixed if one[0] == "missed"]
    triggered = await pages(app, 3, decision="triggered")
    assert told(triggered) == [one for one in mixed if one[0] == "triggered"]
    with pytest.raises(rota.FilterError, match="only cannot be combined"):
        await app.schedules.history("s", only="exceptions", manual=True)
    with pytest.raises(rota.TimingError, match="decision must be one of"):
        await app.schedules.history("s", decision="eaten")


async def test_what_a_trigger_tells(app: rota.App, conn: Connection) -> None:
    number = await trigger(app, conn, hour(1))
    (one,) = await app.schedules.history("s", manual=True)
    assert (one.run_id, one.state, one.success, one.count) == (number, "queued", None, 1)
    assert (one.reason, one.details) == ("asked for", {"actor": "ada"})
    await app.runs.cancel(number)
    (one,) = await app.schedules.history("s", manual=True)
    assert (one.state, one.success) == ("cancelled", False)


async def test_a_span_says_how_many_of_its_times_were_backfilled(
    app: rota.App, conn: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger(conn, hour(0), hour(9), 10)
    done = await app.schedules.by("ada").backfill("s", hour(0), hour(5), reason="lost")
    assert len(done.run_ids) == 6
    await app.schedules.backfill("s", hour(0), hour(0), again=True)
    await app.runs.cancel(done.run_ids[1])
    (one,) = await app.schedules.history("s")
    assert (one.count, one.backfill_count) == (10, 6)
    assert one.backfill_states == {"queued": 5, "cancelled": 1}
    for other in ({"order": "oldest"}, {"only": "backfilled"}, {"only": "exceptions"}):
        asked: Any = other
        assert await app.schedules.history("s", **asked) == [one]
    row = conn.execute("SELECT backfill_count, backfill_states FROM rota.occurrences").fetchone()
    assert row == (6, {"queued": 5, "cancelled": 1})

    capsys.readouterr()
    await asyncio.to_thread(run_command, ["schedules", "history", "s"])
    lines = capsys.readouterr().out
    assert "6 of 10 backfilled (5 queued, 1 cancelled)" in lines
    (backfill,) = (line for line in lines.splitlines() if "by ada: lost" in line)
    assert backfill.split()[3:5] == ["6", "backfilled"]
    async with client_of(create_api(app), Authorization=f"Bearer {TOKEN}") as api:
        (shown,) = (await api.get(f"{V1}/schedules/s/occurrences")).json()["items"]
        assert (shown["backfill_count"], shown["backfill_states"]) == (6, one.backfill_states)
    web = browser_of(create_site(app))
    async with web.client:
        await web.get("/sign-in")
        await web.post("/sign-in", token=TOKEN, next="/queues")
        await web.get("/schedules/s")
        assert "6 of 10 backfilled 5 queued 1 cancelled" in web.text


async def test_the_command(
    app: rota.App, mixed: list[tuple[str, datetime]], capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*flags: str) -> tuple[list[str], str]:
        capsys.readouterr()
        assert await asyncio.to_thread(run_command, ["schedules", "history", "s", *flags]) == 0
        out, err = capsys.readouterr()
        return [line for line in out.splitlines()[1:] if line], err

    lines, _ = await run()
    assert [line.split()[4] for line in lines] == [decision for decision, _ in mixed]
    assert "by ada: asked for" in lines[0]
    first, err = await run("--limit", "3")
    rest, none = await run("--after", err.split()[-1])
    assert none == ""
    assert [it.split()[:8] for it in (*first, *rest)] == [it.split()[:8] for it in lines]
    alone, err = await run("--no-manual", "--limit", "2")
    assert {line.split()[4] for line in alone} == {"missed"}
    refused = await asyncio.to_thread(
        run_command, ["schedules", "history", "s", "--after", err.split()[-1]]
    )
    assert refused == 2, "a cursor holds for its list alone"
    assert len((await run("--decision", "triggered"))[0]) == 4
    assert len((await run("--only", "exceptions"))[0]) == 4


async def test_the_api(app: rota.App, mixed: list[tuple[str, datetime]]) -> None:
    path = f"{V1}/schedules/s/occurrences"
    async with client_of(create_api(app), Authorization=f"Bearer {TOKEN}") as api:
        assert len((await api.get(path)).json()["items"]) == 4
        first = (await api.get(f"{path}?manual=true&limit=3")).json()
        asked = {"manual": "true", "cursor": first["next_cursor"]}
        rest = (await api.get(path, params=asked)).json()
        found = [*first["items"], *rest["items"]]
        assert [one["decision"] for one in found] == [decision for decision, _ in mixed]
        assert rest["next_cursor"] is None
        problem(await api.get(path, params={"cursor": first["next_cursor"]}), 422, "invalid")
        only = (await api.get(f"{path}?decision=triggered")).json()["items"]
        assert [one["decision"] for one in only] == ["triggered"] * 4
