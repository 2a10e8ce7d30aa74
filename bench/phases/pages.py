"""Pages of the dashboard over a long history: p50 and p99 of the server's time, from the request to
the last byte, through the whole application in this process, and the CPU of a visit, of Python and
of Postgres together; and the bytes of the first page."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import httpx

import rota
from bench.past import Past, lay_out_past
from bench.phases.base import Case, Phase, Sizes, only_rota
from bench.server import Server
from bench.systems.base import System
from rota.engine.processes.event_loop import keep_what_is_there, run
from rota.web import create_site

_DATABASE = "rota_pages"
LINES, SCHEDULES = 10, 10_000


def paths(ended: int) -> list[str]:
    failed = ended // 2 // 200 * 200
    return [
        "/", "/?range=24h", "/?range=7d", "/runs", "/runs?state=failed", "/runs?state=queued",
        "/runs?job=job7&state=failed", "/runs?job=none", "/runs?tag=rare", "/runs?dead=1",
        f"/runs?key=key{ended // 100 * 50}", f"/runs/{ended // 2 + 1}", f"/runs/{failed}",
        f"/runs/{ended // 200 * 200}", f"/runs/{ended + 7}", f"/runs/{failed}/retry", "/runs/new",
        "/bulk", "/schedules", "/schedules?order=next", "/schedules/schedule7",
        "/schedules/schedule7/edit", "/calendar", "/jobs", "/jobs/job7", "/queues",
        "/queues/queue3", "/workers", "/workers/490", "/logs", "/logs?level=error",
        "/logs?job=job7", "/logs?q=sending", "/logs?q=nothing", "/logs/tail", "/errors", "/audit",
        "/audit?actor=nobody", "/settings", "/doctor", "/search?q=job7", f"/search?q={failed}",
        "/api/docs",
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Visits:
    """Of one page: seconds of each, the quickest first, and CPU of all. None where the server is
    somebody else's."""

    seconds: list[float]
    cpu: float | None

    def figures(self, path: str) -> dict[str, float]:
        count = len(self.seconds)
        found = {
            f"{path}: p50 ms": self.seconds[count // 2] * 1000,
            f"{path}: p99 ms": self.seconds[int(count * 0.99)] * 1000,
        }
        return found if self.cpu is None else found | {f"{path}: CPU ms": self.cpu / count * 1000}


async def visit(server: Server, wanted: Sequence[str], calls: int) -> dict[str, Visits]:
    """So many of each page, after a tenth as many to warm up."""
    app = rota.App(config=rota.Config.load(env={}, database_url=server.url_of(_DATABASE)))
    site = create_site(app, authenticate=lambda request: "bench")
    keep_what_is_there()  # as `rota server` does
    found = {}
    transport = httpx.ASGITransport(site)
    async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
        for one in wanted:
            for _ in range(max(calls // 10, 1)):
                await _time(client, one)
            before = _cpu(server)
            took = sorted([await _time(client, one) for _ in range(calls)])
            after = _cpu(server)
            found[one] = Visits(took, None if before is None or after is None else after - before)
    await app.close()
    return found


def _cpu(server: Server) -> float | None:
    used = server.cpu_seconds()
    return None if used is None else used + time.process_time()


async def _time(client: httpx.AsyncClient, path: str) -> float:
    started = time.perf_counter()
    answer = await client.get(path)
    seconds = time.perf_counter() - started
    if answer.status_code not in (200, 404):
        raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:500]}")
    return seconds


async def weigh(url: str, path: str = "/") -> tuple[int, int]:
    """Bytes of a first visit, page and files: plain, and as they travel to a browser."""
    app = rota.App(config=rota.Config.load(env={}, database_url=url))
    transport = httpx.ASGITransport(create_site(app, authenticate=lambda request: "bench"))
    headers = {"Accept-Encoding": "gzip"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://bench", headers=headers
    ) as client:
        names = [path]
        names += re.findall(r'(?:src|href)="(/static/[^"]+)"', (await client.get(path)).text)
        plain = sent = 0
        for name in dict.fromkeys(names):
            async with client.stream("GET", name) as answer:
                raw = b"".join([part async for part in answer.aiter_raw()])
            is_packed = answer.headers.get("content-encoding") == "gzip"
            plain += len(gzip.decompress(raw) if is_packed else raw)
            sent += len(raw)
    await app.close()
    return plain, sent


def lay_out(system: System, sizes: Sizes) -> None:
    many = SCHEDULES if sizes.ended > 1_000_000 else 200
    lay_out_past(system, _DATABASE, Past(sizes.ended, sizes.ended, LINES, many))


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for path, visits in run(visit(system.server, paths(sizes.ended), sizes.calls)).items():
            figures |= visits.figures(path)
        plain, sent = run(weigh(system.server.url_of(_DATABASE)))
        return figures | {"first visit: kB": plain / 1000, "first visit, sent: kB": sent / 1000}

    setup = partial(lay_out, sizes=sizes)
    return [Case(f"{sizes.ended:,} ended", measure, only_rota, setup=setup)]


PHASE = Phase("pages", cases)
