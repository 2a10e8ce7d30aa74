"""`GET /api/v1/doctor`."""

from __future__ import annotations

import httpx

from tests.api.conftest import problem


async def test_findings_with_their_verdicts(api: httpx.AsyncClient) -> None:
    found = (await api.get("/api/v1/doctor")).json()
    by_check = {it["check"]: it for it in found["findings"]}
    assert by_check["workers"]["verdict"] == "bad"
    assert by_check["schema"]["verdict"] == "ok"
    assert found["ok"] + found["warn"] + found["bad"] == len(found["findings"])


async def test_it_takes_no_parameter(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/v1/doctor", params={"x": "1"})
    problem(answer, 422, "unknown_parameter")
