"""The pages of cleanup."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.web.conftest import Browser

FIELDS = {
    "table": "public.sessions", "column": "expires_at", "older_than_seconds": "2d",
    "cron": "0 3 * * *", "timezone": "UTC", "where": "note is null",
}  # fmt: skip


@pytest.fixture
def sessions(shop: rota.App, conn: Any) -> Any:
    conn.execute("CREATE TABLE public.sessions (expires_at timestamptz, note text)")
    conn.execute(
        "INSERT INTO public.sessions SELECT rota.now() - n * interval '1 day'"
        " FROM generate_series(0, 4) n"
    )
    return conn


async def test_one_is_added_counted_run_and_removed(web: Browser, sessions: Any) -> None:
    await web.get("/cleanup")
    assert "No cleanups yet" in web.text
    await web.get("/cleanup/add")
    assert "public.sessions" in web.page
    await web.post("/cleanup/add", 422, **FIELDS)
    assert "Enter a reason" in web.text
    assert 'value="note is null"' in web.page, "what was typed stays"
    for change, words in (
        ({"older_than_seconds": "soon"}, "must be a duration"),
        ({"where": "note = now()"}, "cannot be read"),
        ({"table": "nowhere"}, "here is no table"),
        ({"column": "note"}, "not a time"),
        ({"cron": "never"}, "as 1 field"),
    ):
        await web.post("/cleanup/add", 422, **FIELDS | change, reason="full")
        assert words in web.text
    await web.post("/cleanup/add", **FIELDS, reason="full")
    assert '"cleanup_sessions" is added' in web.text
    await web.get("/cleanup/cleanup_sessions")
    assert "Would delete" not in web.text
    await web.get("/cleanup/cleanup_sessions?count=1")
    assert "nothing was deleted" in web.text
    assert "100,000 3" in web.text
    await web.get("/cleanup/cleanup_sessions/run")
    assert "whose expires_at is older than 2 days and note is null" in web.text
    await web.post("/cleanup/cleanup_sessions/run", reason="now")
    assert "Cleanup cleanup_sessions is enqueued as run" in web.text
    await web.get("/cleanup")
    assert "public.sessions: expires_at older than 2 days and note is null" in web.text
    await web.get("/cleanup/cleanup_sessions/remove")
    await web.post("/cleanup/cleanup_sessions/remove", reason="enough")
    assert "Cleanup cleanup_sessions is removed" in web.text
    await web.get("/cleanup/cleanup_sessions", 404)
    deeds = sessions.execute("SELECT action, actor, reason FROM rota.audit ORDER BY id").fetchall()
    assert ("schedule.created", "web:admin", "full") in deeds
    assert ("schedule.deleted", "web:admin", "enough") in deeds


async def test_a_recipe(web: Browser, sessions: Any) -> None:
    await web.get("/cleanup")
    assert "Recipes for your tables" in web.text
    recipe = {"recipe": "stale_session_cleanup", "prefix": "public."}
    await web.get("/cleanup/add-recipe?recipe=stale_session_cleanup&prefix=public.")
    assert 'value="stale_session_cleanup"' in web.page
    await web.post("/cleanup/add-recipe", 422, **recipe, reason=" ")
    await web.post("/cleanup/add-recipe", **recipe, reason="wanted")
    assert '"stale_session_cleanup" is added' in web.text
    await web.post("/cleanup/add-recipe", 422, recipe="expired_auth_cleanup", reason="wanted")
    assert "needs tables" in web.text


async def test_the_one_of_rota_and_a_table_that_is_gone(web: Browser, sessions: Any) -> None:
    rules = '{"rules": [{"table": "public.sessions", "column": "expires_at", "older_than": 0}]}'
    sessions.execute("UPDATE rota.schedules SET payload = %s WHERE name = 'rota.cleanup'", [rules])
    await web.post("/cleanup/rota.cleanup/remove", 422, reason="enough")
    assert "belongs to Rota" in web.text
    sessions.execute("DROP TABLE public.sessions")
    await web.get("/cleanup/rota.cleanup?count=1")
    assert 'here is no table "public.sessions"' in web.text


async def test_names_are_whatever_people_wrote(web: Browser, conn: Any, shop: rota.App) -> None:
    conn.execute('CREATE TABLE public."<b>t" ("<i>" timestamptz, "<u>" text)')
    await shop.cleanup.add(
        'public."<b>t"', column="<i>", older_than_seconds=0, where="\"<u>\" = '<s>'", name="<em>/x"
    )
    for path in ("/cleanup", "/cleanup/add", "/cleanup/%3Cem%3E%2Fx?count=1"):
        await web.get(path)
        for tag in ("<b>", "<i>", "<u>", "<s>", "<em>"):
            assert tag not in web.page
