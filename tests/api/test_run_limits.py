"""Limits of runs over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

from tests.api.conftest import problem
from tests.sql_engine import Engine

LIMITS = "/api/v1/limits"


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)


def admit(engine: Engine) -> None:
    engine.one("SELECT admitted FROM rota.admit_runs()")


async def test_one_is_set_read_and_removed(api: httpx.AsyncClient, engine: Engine) -> None:
    body = {"jobs": ["send"], "cap": 1, "reason": "they asked for it"}
    made = await api.put(f"{LIMITS}/few", json=body)
    assert made.status_code == 200, made.text
    assert (made.json()["cap"], made.json()["kind"]) == (1, "concurrency")
    for _ in range(2):
        await api.post("/api/v1/runs", json={"job": "send", "payload": {"user_id": 1}})
    admit(engine)
    found = (await api.get(f"{LIMITS}/few")).json()
    assert (found["limit"]["in_use"], found["limit"]["waiting"]) == (1, 1)
    assert len(found["holders"]) == len(found["waiters"]) == 1
    raised = await api.put(f"{LIMITS}/few", json={"cap": 2})
    assert (raised.json()["cap"], raised.json()["jobs"]) == (2, ["send"])
    wide = await api.put(f"{LIMITS}/few", json={"jobs": None})
    assert wide.json()["jobs"] is None
    assert engine.audit("few")[0]["reason"] == "they asked for it"
    assert (await api.delete(f"{LIMITS}/few")).json() == {
        "name": "few",
        "result": "removed",
    }
    problem(await api.get(f"{LIMITS}/few"), 404, "limit_not_found")


async def test_a_list_in_pages(api: httpx.AsyncClient) -> None:
    for name in ("a/b", "c"):
        await api.put(f"{LIMITS}/{name.replace('/', '%2F')}", json={"cap": 1})
    first = (await api.get(LIMITS, params={"limit": 1})).json()
    assert [one["name"] for one in first["items"]] == ["a/b"]
    rest = await api.get(LIMITS, params={"limit": 1, "cursor": first["next_cursor"]})
    assert [one["name"] for one in rest.json()["items"]] == ["c"]
    assert (await api.get(f"{LIMITS}/a%2Fb")).json()["limit"]["name"] == "a/b"
    assert (await api.get(LIMITS, params={"kind": "rate"})).json()["items"] == []


async def test_what_is_wrong(api: httpx.AsyncClient) -> None:
    problem(await api.put(f"{LIMITS}/few", json={"cap": -1}), 422, "invalid")
    problem(await api.put(f"{LIMITS}/few", json={"kind": "rate", "cap": 1}), 422, "limit_error")
    problem(await api.put(f"{LIMITS}/few", json={"colour": 1}), 422, "invalid")
    problem(await api.delete(f"{LIMITS}/few"), 404, "limit_not_found")
    problem(await api.post(f"{LIMITS}/few/unblock"), 404, "limit_not_found")
    await api.put(f"{LIMITS}/few", json={"cap": 1})
    problem(await api.post(f"{LIMITS}/few/unblock"), 409, "wrong_state")
