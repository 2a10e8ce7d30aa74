"""A request sent twice is carried out once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import psycopg

import rota
from rota.api import create_api
from rota.engine.loops.upkeep import Upkeep
from rota.testing import Clock, eventually
from tests.api.conftest import HEADERS, client_of, problem

RUNS = "/api/v1/runs"
BODY = {"job": "send", "payload": {"user_id": 7}}
KEY = {"Idempotency-Key": "one"}


def count(conn: psycopg.Connection[Any], table: str = "runs") -> int:
    (found,) = conn.execute(f"SELECT count(*) FROM rota.{table}").fetchone() or (0,)
    return int(found)


async def test_the_second_one_gets_the_answer_of_the_first(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any]
) -> None:
    first = await api.post(RUNS, json=BODY, headers=KEY)
    again = await api.post(RUNS, json=BODY, headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert count(conn) == 1
    await api.post(RUNS, json=BODY, headers={"Idempotency-Key": "two"})
    await api.post(RUNS, json=BODY)
    assert count(conn) == 3


async def test_another_request_under_the_same_key_is_refused(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any]
) -> None:
    await api.post(RUNS, json=BODY, headers=KEY)
    other = await api.post(RUNS, json=BODY | {"priority": 1}, headers=KEY)
    assert problem(other, 422, "idempotency_key_reused")["field"] == "Idempotency-Key"
    path = await api.post("/api/v1/runs/1/cancel", json=BODY, headers=KEY)
    problem(path, 422, "idempotency_key_reused")
    assert count(conn) == 1


async def test_keys_belong_to_their_callers(shop: rota.App, conn: psycopg.Connection[Any]) -> None:
    def by_header(request: Any) -> str | None:
        found: str | None = request.headers.get("x-user")
        return found

    made = create_api(shop, authenticate=by_header)
    for user in ("ada", "bob", "ada"):
        async with client_of(made, **{"x-user": user}) as client:
            assert (await client.post(RUNS, json=BODY, headers=KEY)).status_code == 201
    assert count(conn) == 2


async def test_what_was_refused_may_be_mended_under_the_same_key(api: httpx.AsyncClient) -> None:
    problem(await api.post(RUNS, json={"job": "nothing"}, headers=KEY), 404, "unknown_job")
    problem(await api.post(RUNS, json=BODY | {"priority": 10}, headers=KEY), 422, "invalid")
    assert (await api.post(RUNS, json=BODY, headers=KEY)).status_code == 201


async def test_a_bad_key_is_refused(api: httpx.AsyncClient) -> None:
    for bad in ("", " ", "a b", "x" * 256):
        response = await api.post(RUNS, json=BODY, headers={"Idempotency-Key": bad})
        problem(response, 422, "invalid")


async def test_one_at_a_time(shop: rota.App, conn: psycopg.Connection[Any]) -> None:
    """While the first is under way the second is told to come again."""
    api = create_api(shop)
    blocker = psycopg.connect(shop.database.url)
    blocker.execute("LOCK TABLE rota.open_runs IN ACCESS EXCLUSIVE MODE")
    async with client_of(api, **HEADERS) as client:
        first = asyncio.create_task(client.post(RUNS, json=BODY, headers=KEY))
        await eventually(lambda: count(conn, "api_responses") == 1)
        second = await client.post(RUNS, json=BODY, headers=KEY)
        problem(second, 409, "request_under_way")
        assert second.headers["retry-after"] == "1"
        blocker.rollback()
        blocker.close()
        assert (await first).status_code == 201
        third = await client.post(RUNS, json=BODY, headers=KEY)
        assert third.json() == (await first).json()
    assert count(conn) == 1


async def test_a_claim_whose_server_died_is_taken_over(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any], clock: Clock
) -> None:
    await api.post(RUNS, json=BODY, headers=KEY)
    conn.execute("UPDATE rota.api_responses SET status = NULL, headers = NULL, body = NULL")
    problem(await api.post(RUNS, json=BODY, headers=KEY), 409, "request_under_way")
    clock.advance(120)
    assert (await api.post(RUNS, json=BODY, headers=KEY)).status_code == 201
    assert count(conn) == 2


async def test_answers_are_kept_for_a_day_and_swept(
    api: httpx.AsyncClient, shop: rota.App, conn: psycopg.Connection[Any], clock: Clock
) -> None:
    await api.post(RUNS, json=BODY, headers=KEY)
    clock.advance(23 * 3600)
    await Upkeep(shop.database, unknown_job_seconds=3600, refused_payload_seconds=60).run_once()
    assert count(conn, "api_responses") == 1
    clock.advance(2 * 3600)
    await Upkeep(shop.database, unknown_job_seconds=3600, refused_payload_seconds=60).run_once()
    assert count(conn, "api_responses") == 0
    assert (await api.post(RUNS, json=BODY, headers=KEY)).status_code == 201
    assert count(conn) == 2
