"""Lists, stats and metrics of the API over a long history: p50 and p99 of each address, from the
request to the last byte of the answer, through the whole application in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

import rota
from bench.past import Past, lay_out_past
from bench.phases.base import Case, Phase, Sizes, only_rota
from bench.systems.base import System
from rota.api import create_api
from rota.engine.processes.event_loop import keep_what_is_there, run

_DATABASE = "rota_api"
_TOKEN = "of the bench"


@dataclass(frozen=True, slots=True)
class Address:
    """`since`: how many hours ago the range begins, where it has one."""

    path: str
    since: float | None = None

    def __str__(self) -> str:
        shown = self.path.removeprefix("/api/v1")
        return shown if self.since is None else f"{shown} of {self.since:g} h"

    def params(self) -> dict[str, str]:
        if self.since is None:
            return {}
        begin = datetime.now(UTC) - timedelta(hours=self.since)
        return {"since": begin.isoformat()}


def addresses(ended: int) -> list[Address]:
    runs = [
        "", "order=oldest", "state=failed", "state=succeeded", "state=cancelled", "state=queued",
        "state=running", "state=scheduled", "dead=true", "job=job7", "job=job7&state=failed",
        "job=none", "queue=queue3", "tag=rare", "tag=none", "tenant=tenant3",
        f"key=key{ended // 100 * 50}", "schedule=schedule7", "system=true", "limit=1000",
    ]  # fmt: skip
    others = [
        "jobs", "jobs/job7", "schedules", "schedules/schedule7", "schedules/schedule7/occurrences",
        "queues", "queues/queue3", "workers", "workers?include_gone=true",
        "audit", "audit?actor=user7",
        "audit?actor=nobody", f"audit?object_type=run&object_id={1000}", "calendars",
        "logs", "logs?job=job7", "logs?text=sending", "logs?text=nothing", "logs?level=error",
        f"runs/{ended // 2}", f"runs/{ended // 2 // 200 * 200}/details",
        f"runs/{ended // 200 * 200}/logs", "clock", "overview", "retention/plan",
        f"why?subject={ended // 2}", "why?subject=schedule7", "why?subject=job7",
        "why?subject=queue3",
    ]  # fmt: skip
    found = [Address(f"/api/v1/runs?{query}".rstrip("?")) for query in runs]
    found.append(Address("/api/v1/runs", 24))
    found += [Address(f"/api/v1/{path}") for path in others]
    found += [Address("/api/v1/stats", hours) for hours in (1, 24, 24 * 7, 24 * 90)]
    found += [
        Address("/api/v1/stats?step_seconds=60", 24),
        Address("/api/v1/stats?step_seconds=60&job=job7", 24),
        Address("/api/v1/stats?step_seconds=60&queue=queue3", 24),
        Address("/metrics"),
    ]
    return found


async def _call(url: str, wanted: Sequence[Address], calls: int) -> dict[str, list[float]]:
    """Seconds of so many calls of each; the first tenth is warm-up."""
    app = rota.App(
        config=rota.Config.load(
            env={},
            database_url=url,
            unchecked={"server.token": _TOKEN, "server.failures_per_second": 1_000_000},
        )
    )
    transport = httpx.ASGITransport(create_api(app))
    keep_what_is_there()  # as `rota server` does
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    found = {}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://bench", headers=headers
    ) as client:
        for one in wanted:
            took = [await _time(client, one) for _ in range(calls + calls // 10)]
            found[str(one)] = sorted(took[calls // 10 :])
    await app.close()
    return found


async def _time(client: httpx.AsyncClient, address: Address) -> float:
    params: Any = address.params() or None
    path = address.path
    if params and "?" in path:
        path, _, query = path.partition("?")
        params |= dict(pair.split("=") for pair in query.split("&"))
    started = time.perf_counter()
    answer = await client.get(path, params=params)
    seconds = time.perf_counter() - started
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:500]}")
    return seconds


def cases(sizes: Sizes) -> Sequence[Case]:
    def lay_out(system: System) -> None:
        lay_out_past(system, _DATABASE, Past(sizes.ended))

    def measure(system: System) -> Mapping[str, float]:
        url = system.server.url_of(_DATABASE)
        found = run(_call(url, addresses(sizes.ended), sizes.calls))
        figures: dict[str, float] = {}
        for address, took in found.items():
            figures[f"{address}: p50 ms"] = took[len(took) // 2] * 1000
            figures[f"{address}: p99 ms"] = took[int(len(took) * 0.99)] * 1000
        return figures

    return [Case(f"{sizes.ended:,} ended", measure, only_rota, setup=lay_out)]


PHASE = Phase("api", cases)
