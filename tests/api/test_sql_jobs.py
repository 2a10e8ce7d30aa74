"""SQL jobs by the API."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg

from tests.api.conftest import problem

V1 = "/api/v1"
DONE = (
    """RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"success": true, "message": "done"}'::jsonb $$"""
)


async def test_made_changed_and_deleted(
    api: httpx.AsyncClient, conn: psycopg.Connection[tuple[Any, ...]]
) -> None:
    for name in ("tidy", "tidy_all"):
        conn.execute(f"CREATE FUNCTION public.{name}(payload jsonb) {DONE}")
    found = (await api.get(f"{V1}/functions", params={"text": "tidy"})).json()
    assert [one["function_name"] for one in found] == ["public.tidy", "public.tidy_all"]
    body = {"name": "tidy", "function_name": "public.tidy", "timeout_seconds": 5}
    made = await api.post(f"{V1}/jobs", json=body)
    assert made.status_code == 201
    assert (made.json()["kind"], made.json()["timeout_seconds"]) == ("sql", 5)
    assert made.headers["etag"]
    problem(await api.post(f"{V1}/jobs", json=body), 409, "wrong_state")
    changed = await api.patch(f"{V1}/jobs/tidy", json={"function_name": "public.tidy_all"})
    assert changed.json()["function_name"] == "public.tidy_all"
    for bad in ("public.nope", "pg_catalog.jsonb_strip_nulls"):
        answer = await api.post(f"{V1}/jobs", json={"name": "x", "function_name": bad})
        assert answer.status_code == 422
    assert (await api.delete(f"{V1}/jobs/tidy")).status_code == 200
