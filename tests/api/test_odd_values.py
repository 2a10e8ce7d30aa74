"""What no reader could hold is refused on its way in, and one odd thing leaves the rest whole."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

import rota
from tests.api.conftest import problem

LATE = "9999-12-31T23:59:59-14:00"
EARLY = "0001-01-01T00:00:00+14:00"
DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize("at", [LATE, EARLY])
@pytest.mark.parametrize("field", ["run_at", "expires_at"])
async def test_a_run_at_no_instant_is_refused(api: httpx.AsyncClient, at: str, field: str) -> None:
    body = {"job": "send", "payload": {"user_id": 1}, field: at}
    said = problem(await api.post("/api/v1/runs", json=body), 422, "invalid")
    assert "years 1 to 9999" in said["detail"]
    assert said["field"].startswith(field)
    assert (await api.get("/api/v1/runs")).json()["items"] == []


@pytest.mark.parametrize(
    ("text", "word"), [("1e5000", "1.7976931348623157e308"), (DEEP, "100 levels")]
)
@pytest.mark.parametrize("field", ["payload", "metadata"])
async def test_json_that_no_reader_holds_is_refused(
    api: httpx.AsyncClient, text: str, word: str, field: str
) -> None:
    body = f'{{"job": "send", "payload": {{"user_id": 1}}, "{field}": {{"user_id": {text}}}}}'
    answer = await api.post(
        "/api/v1/runs", content=body, headers={"Content-Type": "application/json"}
    )
    assert word in problem(answer, 400, "malformed")["detail"]


async def test_pauses_and_moves_to_no_instant_are_refused(
    api: httpx.AsyncClient, shop: rota.App
) -> None:
    await shop.schedules.create("nightly", "clean", cron="0 3 * * *")
    for action, field in (("pause", "until"), ("reschedule", "at")):
        answer = await api.post(f"/api/v1/schedules/nightly/{action}", json={field: LATE})
        assert "years 1 to 9999" in problem(answer, 422, "invalid")["detail"]
    assert (await api.get("/api/v1/schedules")).status_code == 200


async def test_the_audit_outlives_what_was_odd(
    api: httpx.AsyncClient, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    """As older releases have written it."""
    await shop.database.open()
    conn.execute(
        "INSERT INTO rota.audit (actor, action, object_type, object_id, at, before, after) VALUES"
        " ('me', 'schedule.paused', 'schedule', 'gone', 'infinity', '{\"n\": 1e5000}', %s::jsonb)",
        [f'{{"n": {DEEP}}}'],
    )
    answer = await api.get("/api/v1/audit")
    assert answer.status_code == 200, answer.text
    odd = next(one for one in answer.json()["items"] if one["object_id"] == "gone")
    assert odd["at"] == "unreadable: infinity"
    assert odd["before"]["n"].startswith("unreadable: 1000")
    assert odd["after"] == {"unreadable": "unreadable: nested deeper than 100 levels"}
    one = await api.get(f"/api/v1/audit/{odd['id']}")
    assert one.json()["at"] == "unreadable: infinity"


async def test_a_bad_calendar_leaves_out_its_own_schedules_only(
    api: httpx.AsyncClient, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    await shop.calendars.create("holidays", {"timezone": "UTC"})
    await shop.schedules.create("closed", "clean", cron="0 3 * * *", calendar="holidays")
    await shop.schedules.create("open", "clean", cron="0 4 * * *")
    conn.execute("UPDATE rota.calendars SET definition = '{\"timezone\": 7}'")
    conn.execute("UPDATE rota.schedules SET next_run_at = rota.now() + interval '1 hour'")
    load = (await api.get("/api/v1/simulation")).json()
    assert load["total"] == 7
    (left,) = load["left_out"]
    assert left["schedule"] == "closed"
    assert "timezone must be a string" in left["reason"]
