"""A SQL job that is made in the dashboard."""

from __future__ import annotations

from typing import Any

import psycopg

import rota
from tests.web.conftest import Browser

DONE = (
    """RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"success": true, "message": "done"}'::jsonb $$"""
)


async def test_a_job_is_made(
    web: Browser, shop: rota.App, conn: psycopg.Connection[tuple[Any, ...]]
) -> None:
    await web.get("/jobs/new")
    assert "No function that a job can call" in web.text
    conn.execute(f"CREATE FUNCTION public.tidy(payload jsonb) {DONE}")
    conn.execute("COMMENT ON FUNCTION public.tidy IS '<script>alert(1)</script>'")
    await web.get("/jobs")
    assert "New SQL job" in web.text
    await web.get("/jobs/new")
    assert "public.tidy(payload jsonb)" in web.text
    assert "<script>alert(1)" not in web.page
    await web.post("/jobs/new", 422)
    assert "Enter a name." in web.text
    assert "Choose a function." in web.text
    await web.post("/jobs/new", 422, name="x", function_name="public.tidy", priority="many")
    assert "must be a whole number" in web.text
    await web.post("/jobs/new", 422, name="x", function_name="public.nope")
    assert "here is no function" in web.text
    await web.post(
        "/jobs/new", name="tidy", function_name="public.tidy", queue="night", reason="asked for"
    )
    made = await shop.jobs.get("tidy")
    assert (made.function_name, made.queue) == ("public.tidy", "night")
    await web.get("/jobs/new")
    await web.post("/jobs/new", 422, name="tidy", function_name="public.tidy")
    assert "already exists" in web.text


async def test_its_function_is_changed(
    web: Browser, shop: rota.App, conn: psycopg.Connection[tuple[Any, ...]]
) -> None:
    for name in ("tidy", "tidy_all"):
        conn.execute(f"CREATE FUNCTION public.{name}(payload jsonb) {DONE}")
    await shop.jobs.create("tidy", "public.tidy")
    await web.get("/jobs/tidy/edit")
    await web.post("/jobs/tidy/edit", function_name="public.tidy_all")
    assert (await shop.jobs.get("tidy")).function_name == "public.tidy_all"
    await web.get("/jobs/send/edit")
    assert "Runs as" not in web.text
