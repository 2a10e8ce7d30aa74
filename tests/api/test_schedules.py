"""Schedules, calendars and timings over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

from tests.api.conftest import problem

SCHEDULES = "/api/v1/schedules"
DIGEST = f"{SCHEDULES}/digest"


@pytest.fixture
async def digest(api: httpx.AsyncClient) -> dict[str, Any]:
    body = {"name": "digest", "job": "clean", "cron": "0 8 * * 1-5", "timezone": "Europe/Berlin"}
    response = await api.post(SCHEDULES, json=body)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def test_make_read_change_and_remove(
    api: httpx.AsyncClient, digest: dict[str, Any], conn: psycopg.Connection[Any]
) -> None:
    assert (digest["state"], digest["cron"]) == ("active", "0 8 * * 1-5")
    assert digest["next_run_at"] is not None
    body = {"interval_seconds": 60, "jitter_seconds": 5, "is_enabled": False}
    changed = (await api.patch(DIGEST, json=body)).json()
    assert (changed["cron"], changed["interval_seconds"], changed["jitter_seconds"]) == (
        None,
        60,
        5,
    )
    assert changed["state"] == "disabled"
    assert (await api.patch(DIGEST, json={"jitter_seconds": None})).json()["jitter_seconds"] == 0
    listed = (await api.get(SCHEDULES, params={"state": "disabled", "job": "clean"})).json()
    assert [one["name"] for one in listed["items"]] == ["digest"]
    assert (await api.delete(DIGEST)).json() == {"name": "digest", "cancelled_runs": 0}
    problem(await api.get(DIGEST), 404, "schedule_not_found")
    assert {"api:admin"} == {row[0] for row in conn.execute("SELECT actor FROM rota.audit")}


async def test_what_cannot_be_followed_is_refused(api: httpx.AsyncClient, digest: Any) -> None:
    other = {"name": "other", "job": "clean"}
    problem(await api.post(SCHEDULES, json=other), 422, "timing_error")
    problem(await api.post(SCHEDULES, json=other | {"cron": "nonsense"}), 422, "timing_error")
    problem(
        await api.post(SCHEDULES, json=other | {"cron": "@daily", "timezon": "UTC"}), 422, "invalid"
    )
    problem(await api.post(SCHEDULES, json=other | {"interval_seconds": 0}), 422, "invalid")
    ignored = {"interval_seconds": 60, "gap": "skip"}
    problem(await api.post(SCHEDULES, json=other | ignored), 422, "timing_error")
    problem(await api.patch(DIGEST, json=ignored), 422, "timing_error")
    problem(
        await api.post(SCHEDULES, json={"name": "x", "job": "no", "cron": "@daily"}),
        404,
        "unknown_job",
    )
    again = {"name": "digest", "job": "clean", "cron": "@daily"}
    problem(await api.post(SCHEDULES, json=again), 409, "wrong_state")
    problem(await api.patch(DIGEST, json={"cron": "61 * * * *"}), 422, "timing_error")


async def test_two_operators_do_not_overwrite_each_other(
    api: httpx.AsyncClient, digest: Any
) -> None:
    seen = (await api.get(DIGEST)).headers["etag"]
    first = await api.patch(DIGEST, json={"priority": 1}, headers={"If-Match": seen})
    assert first.status_code == 200
    assert first.headers["etag"] != seen
    second = await api.patch(DIGEST, json={"priority": 2}, headers={"If-Match": seen})
    problem(second, 412, "version_conflict")
    for tag in ('W/"1"', "1", '"x"'):
        late = await api.patch(DIGEST, json={"priority": 2}, headers={"If-Match": tag})
        problem(late, 412, "version_conflict")
    assert (await api.get(DIGEST)).json()["priority"] == 1
    for tag in ("*", first.headers["etag"]):
        late = await api.patch(DIGEST, json={"priority": 3}, headers={"If-Match": tag})
        assert late.status_code == 200, tag
        break


async def test_backfill_preview_and_history(api: httpx.AsyncClient, digest: Any) -> None:
    week = {"from_at": "2026-01-05T00:00:00Z", "until_at": "2026-01-10T00:00:00Z"}
    dry = (await api.post(f"{DIGEST}/backfill", json=week | {"dry_run": True})).json()
    assert (len(dry["times"]), dry["run_ids"], dry["is_dry_run"]) == (5, [], True)
    done = (await api.post(f"{DIGEST}/backfill", json=week | {"reason": "lost"})).json()
    assert len(done["run_ids"]) == 5
    turned = {"from_at": week["until_at"], "until_at": week["from_at"]}
    problem(await api.post(f"{DIGEST}/backfill", json=turned), 422, "timing_error")
    query = {"count": 3, "after": "2026-01-05T00:00:00Z", "viewer_zone": "America/New_York"}
    coming = (await api.get(f"{DIGEST}/preview", params=query)).json()
    assert [one["at"][:10] for one in coming] == ["2026-01-05", "2026-01-06", "2026-01-07"]
    assert coming[0]["viewer_local"] == "2026-01-05T02:00:00-05:00"
    problem(await api.get(f"{DIGEST}/preview", params={"viewer_zone": "Mars"}), 422, "timing_error")
    assert (await api.get(f"{DIGEST}/occurrences")).json()["next_cursor"] is None
    problem(await api.get(f"{DIGEST}/occurrences", params={"decision": "no"}), 422, "invalid")


async def test_names_with_slashes_tenants_and_pages(api: httpx.AsyncClient) -> None:
    for name in ("a/b", "a%2Fb", "ä b", "c"):
        body = {"name": name, "job": "clean", "cron": "@daily", "tenant": "acme"}
        assert (await api.post(SCHEDULES, json=body)).status_code == 201
    found = await api.get(f"{SCHEDULES}/a%2Fb", params={"tenant": "acme"})
    assert found.json()["name"] == "a/b"
    found = await api.get(f"{SCHEDULES}/a%252Fb", params={"tenant": "acme"})
    assert found.json()["name"] == "a%2Fb"
    triggered = await api.post(f"{SCHEDULES}/a%2Fb/trigger", params={"tenant": "acme"})
    assert triggered.json()["schedule"] == "a/b"
    problem(await api.get(f"{SCHEDULES}/a%2Fb"), 404, "schedule_not_found")
    names, cursor = [], None
    while True:
        query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(SCHEDULES, params=query)).json()
        names += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(names) == sorted(["a/b", "a%2Fb", "ä b", "c"])


async def test_timings_that_nobody_saved(api: httpx.AsyncClient, digest: Any) -> None:
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "after": "2026-03-28T00:00:00Z"}
    rows = (await api.post("/api/v1/timings/preview", json=body | {"count": 2})).json()
    assert len(rows) == 2
    assert "clocks go forward" in rows[1]["note"]
    problem(await api.post("/api/v1/timings/preview", json={}), 422, "timing_error")
    closed = await api.post("/api/v1/timings/preview", json=body | {"calendar": "none"})
    problem(closed, 404, "calendar_not_found")
    load = (await api.get("/api/v1/simulation", params={"days": 7})).json()
    assert load["total"] == 5
    problem(await api.get("/api/v1/simulation", params={"days": 32}), 422, "invalid")
    problem(await api.get("/api/v1/simulation", params={"timezone": "Mars"}), 422, "timing_error")


async def test_templates(api: httpx.AsyncClient) -> None:
    templates = "/api/v1/templates"
    known = (await api.get(templates)).json()["items"]
    assert "Hourly" in [one["name"] for one in known]
    put = await api.put(f"{templates}/Mine", json={"cron": "5 5 * * *"})
    assert put.json() == {"name": "Mine", "cron": "5 5 * * *", "description": "", "version": 1}
    changed = {"cron": "6 6 * * *"}
    seen = {"If-Match": put.headers["etag"]}
    assert (await api.put(f"{templates}/Mine", json=changed, headers=seen)).json()["version"] == 2
    late = await api.put(f"{templates}/Mine", json=changed, headers=seen)
    problem(late, 412, "version_conflict")
    problem(await api.put(f"{templates}/Mine", json={"cron": "no"}), 422, "timing_error")
    made = await api.post(SCHEDULES, json={"name": "t", "job": "clean", "template": "Mine"})
    assert made.json()["cron"] == "6 6 * * *"
    assert (await api.delete(f"{templates}/Mine")).status_code == 200
    problem(await api.delete(f"{templates}/Mine"), 404, "template_not_found")


async def test_edits_and_taking_one_back(api: httpx.AsyncClient, digest: dict[str, Any]) -> None:
    await api.patch(DIGEST, json={"cron": "0 9 * * *", "reason": "later"})
    page = (await api.get(f"{DIGEST}/edits")).json()
    edit, created = page["items"]
    assert edit["changes"] == [{"field": "cron", "before": "0 8 * * 1-5", "after": "0 9 * * *"}]
    assert (edit["reason"], page["next_cursor"]) == ("later", None)
    first = (await api.get(f"{DIGEST}/edits?limit=1")).json()
    rest = await api.get(f"{DIGEST}/edits", params={"cursor": first["next_cursor"]})
    assert rest.json()["items"] == [created]

    body = {"entry_id": edit["id"]}
    refused = await api.post(f"{DIGEST}/revert", json=body, headers={"If-Match": '"1"'})
    assert refused.status_code == 412
    assert (await api.post(f"{DIGEST}/revert", json={"entry_id": created["id"]})).status_code == 409
    assert (await api.post(f"{DIGEST}/revert", json={"entry_id": 999_999})).status_code == 404
    assert (await api.post(f"{DIGEST}/revert", json={"entry_id": "x"})).status_code == 422
    done = await api.post(f"{DIGEST}/revert", json=body)
    assert (done.status_code, done.json()["cron"]) == (200, "0 8 * * 1-5")
    assert (await api.get(f"{SCHEDULES}/nope/edits")).status_code == 404


async def test_what_was_run_by_hand(api: httpx.AsyncClient, digest: dict[str, Any]) -> None:
    made = (await api.post(f"{DIGEST}/trigger", json={"reason": "asked for"})).json()
    (found,) = (await api.get(f"{DIGEST}/manual")).json()["items"]
    assert (found["run_id"], found["kind"]) == (made["run_id"], "triggered")
    assert (found["reason"], found["state"]) == ("asked for", "queued")
    again = (await api.post(f"{DIGEST}/trigger")).json()
    first = (await api.get(f"{DIGEST}/manual?limit=1")).json()
    assert [one["run_id"] for one in first["items"]] == [again["run_id"]]
    rest = (await api.get(f"{DIGEST}/manual", params={"cursor": first["next_cursor"]})).json()
    assert ([one["run_id"] for one in rest["items"]], rest["next_cursor"]) == (
        [made["run_id"]],
        None,
    )
    problem(await api.get(f"{DIGEST}/manual?cursor=odd"), 422, "invalid")
    assert (await api.get(f"{SCHEDULES}/nope/manual")).status_code == 404


async def test_lists_by_text_and_exceptions(api: httpx.AsyncClient, digest: dict[str, Any]) -> None:
    assert len((await api.get(SCHEDULES, params={"text": "DIG"})).json()["items"]) == 1
    assert (await api.get(SCHEDULES, params={"calendar": "at"})).json()["items"] == []
    found = await api.get(f"{DIGEST}/occurrences", params={"only": "exceptions"})
    assert found.json()["items"] == []
    assert (await api.get(f"{DIGEST}/occurrences", params={"only": "x"})).status_code == 422
