"""Cleanups over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.conftest import problem

CLEANUPS = "/api/v1/cleanup"
RECIPES = "/api/v1/cleanup-recipes"
BODY = {"table": "sessions", "column": "expires_at", "older_than_seconds": 86_400}


@pytest.fixture
def sessions(conn: Any) -> Any:
    conn.execute("CREATE TABLE public.sessions (expires_at timestamptz, note text)")
    conn.execute("INSERT INTO public.sessions VALUES (rota.now() - interval '2 days')")
    return conn


async def test_the_life_of_a_cleanup(api: httpx.AsyncClient, sessions: Any) -> None:
    made = await api.post(CLEANUPS, json=BODY | {"where": "note is null", "reason": "full"})
    assert made.status_code == 201, made.text
    name = made.json()["name"]
    assert (name, made.json()["rules"][0]["where"]) == ("cleanup_sessions", "note is null")
    assert [one["name"] for one in (await api.get(CLEANUPS)).json()] == [name]
    assert (await api.get(f"{CLEANUPS}/{name}")).json()["state"] == "active"
    (count,) = (await api.get(f"{CLEANUPS}/{name}/plan")).json()
    assert count["matching"] == 1
    done = await api.post(f"{CLEANUPS}/{name}/run")
    assert (done.status_code, done.json()["schedule"]) == (201, name)
    problem(await api.post(CLEANUPS, json=BODY), 409, "wrong_state")
    assert (await api.get("/api/v1/cleanup-tables")).json() == [
        {"name": "public.sessions", "times": ["expires_at"]}
    ]
    assert (await api.delete(f"{CLEANUPS}/{name}")).json() == {"name": name}
    for path in ("", "/plan"):
        problem(await api.get(f"{CLEANUPS}/{name}{path}"), 404, "schedule_not_found")


async def test_recipes(api: httpx.AsyncClient, sessions: Any) -> None:
    (one,) = (await api.get(RECIPES)).json()
    assert (one["name"], one["prefix"]) == ("stale_session_cleanup", "public.")
    add, recipe = f"{CLEANUPS}/add-recipe", {"recipe": "stale_session_cleanup"}
    assert (await api.post(add, json=recipe)).status_code == 201
    problem(await api.post(add, json=recipe), 409, "wrong_state")
    problem(await api.post(add, json={"recipe": "nothing"}), 404, "template_not_found")


@pytest.mark.parametrize(
    "change",
    [
        {"table": "nowhere"}, {"column": "note"}, {"where": "note = (select 1)"},
        {"older_than_seconds": -1}, {"cron": "never"}, {"timezone": "PST"}, {"table": "rota.jobs"},
    ],
)  # fmt: skip
async def test_what_does_not_fit(
    api: httpx.AsyncClient, sessions: Any, change: dict[str, Any]
) -> None:
    assert (await api.post(CLEANUPS, json=BODY | change)).status_code == 422
    assert (await api.get(CLEANUPS)).json() == []
