"""Rota's own statements, with nothing executed and no product round them."""

from __future__ import annotations

import time
from typing import Any

from rota.app import App
from rota.postgres.pipeline.claims import ClaimRequest
from rota.postgres.pipeline.ends import Ends
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.runs.enqueue import EnqueueStatements
from rota.postgres.workers import life

_BATCH = 500


async def enqueue_one_by_one(app: App, job: str, runs: int) -> float:
    """Runs a second."""
    sql = EnqueueStatements(app.database.statements).plain.sql
    names = ("queue", "priority", "triggered_by", "validated_by")
    plain: dict[str, Any] = dict.fromkeys(names) | {"job": job}
    async with app.database.connection() as conn:
        started = time.perf_counter()
        for n in range(runs):
            params = plain | {"payload": f'{{"n": {n}}}'}
            await (await conn.execute(sql, params)).fetchone()
        return runs / (time.perf_counter() - started)


async def claim_and_finish_all(app: App, job: str, runs: int) -> float:
    """Returns the throughput in runs per second."""
    feed = Exchange(app.database, await _register(app, job), [job])
    hints = [0] * 10
    ends = Ends()
    started = time.perf_counter()
    try:
        while True:
            request = ClaimRequest(_BATCH, ["default"], _BATCH, hints, None, None)
            _, claims = await feed.exchange(ends, request)
            if not claims:
                return runs / (time.perf_counter() - started)
            ends = Ends()
            for claim in claims:
                ends.succeeded(claim.id, claim.attempt, 0.0, None, is_plain=True)
            hints[5] = max(claim.seq for claim in claims)
    finally:
        await feed.fetch(life.set_state(feed.worker, "gone"))
        await feed.close()


async def _register(app: App, job: str) -> int:
    query = life.register_worker(
        name="floor",
        host="",
        pid=0,
        version="",
        queues=[],
        jobs=[job],
        concurrency=1,
        lease_seconds=300.0,
    )
    return await app.database.fetch(query)
