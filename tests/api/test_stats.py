"""`GET /api/v1/stats` and `GET /metrics`."""

from __future__ import annotations

from typing import Any

import httpx

import rota
from rota.api import create_api
from rota.api.shared import Shared
from rota.model.metrics import Metrics
from tests.api.conftest import client_of, problem


async def test_stats_of_all_and_of_one_job(api: httpx.AsyncClient, shop: rota.App) -> None:
    await api.post("/api/v1/runs", json={"job": "send", "payload": {"user_id": 1}})
    found = (await api.get("/api/v1/stats")).json()
    assert found["states"]["queued"] == 1
    assert [queue["queue"] for queue in found["queues"]] == ["mail"]
    assert found["total"]["attempts"] == 0
    of_clean = (await api.get("/api/v1/stats", params={"job": "clean"})).json()
    assert (of_clean["states"]["queued"], of_clean["queues"]) == (0, [])


async def test_metrics_in_both_dialects(api: httpx.AsyncClient) -> None:
    plain = await api.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert "rota_duplicates_total 0.0" in plain.text
    newer = await api.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


async def test_metrics_may_be_opened(make_app: Any) -> None:
    app = make_app(**{"server.token": "sixteen characters", "server.public_metrics": True})
    async with client_of(create_api(app)) as client:
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/api/v1/stats")).status_code == 401


async def test_metrics_are_read_at_most_once_a_second() -> None:
    reads, now = [], [100.0]
    scrapes: Shared[Metrics] = Shared(1.0, now=lambda: now[0])

    async def read() -> Metrics:
        reads.append(now[0])
        return Metrics([], [], [], None)  # type: ignore[arg-type]

    for _ in range(3):
        await scrapes.get(read)
    now[0] += 1
    await scrapes.get(read)
    assert reads == [100.0, 101.0]


async def test_a_trend_beside_the_day_before(api: httpx.AsyncClient, shop: rota.App) -> None:
    await api.post("/api/v1/runs", json={"job": "send", "payload": {"user_id": 1}})
    found = (await api.get("/api/v1/stats/trend", params={"span": "6h", "queue": "mail"})).json()
    assert (found["step_seconds"], len(found["now"]["failed"]), found["queued"]) == (300, 72, 1)
    assert len(found["before"]["pickup_p95_ms"]) == 72
    problem(await api.get("/api/v1/stats/trend", params={"job": "no"}), 404, "unknown_job")
    refused = await api.get("/api/v1/stats/trend", params={"span": "2h"})
    assert problem(refused, 422, "input_error")["field"] == "span"
    ago = await api.get(
        "/api/v1/stats", params={"since": "3d", "until": "1d", "step_seconds": "1h"}
    )
    assert (ago.status_code, ago.json()["step_seconds"]) == (200, 3600)
