"""Measured while fifty dashboards are open on the overview and on the list of runs, against none.

They are served by `rota server` and do what the script of a page does: listen to the stream, and
ask for the parts that its news concerns, each as often as it may be. Their own program reads
answers without looking at them, so that it takes little from those who are measured.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice

from bench.cpu import cpu_seconds
from bench.phases.base import Case, Phase, Sizes, figures_of, only_rota
from bench.server import Conn
from bench.systems.base import ROOT, System
from bench.visitor import PAGES, Visitor, cookies_of

_TOKEN = "known-to-the-bench-alone"
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


@contextmanager
def serving(system: System) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`rota server`, and the port that it listens on."""
    env = system.environment(
        {
            "ROTA_DATABASE_URL": system.server.url_of(system.database),
            "ROTA_SERVER_TOKEN": _TOKEN,
            "ROTA_SERVER_PORT": "0",
        }
    )
    command = [sys.executable, "-m", "rota", "server"]
    with subprocess.Popen(command, env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            said = re.search(r"http://[^ ]+:(\d+)", program.stderr.readline())
            assert said is not None
            port = int(said[1])
            threading.Thread(target=program.stderr.read, daemon=True).start()
            yield port, program
        finally:
            program.terminate()


@contextmanager
def looking(port: int, count: int) -> Iterator[list[Visitor]]:
    """So many, half of them on each page, in a thread with a loop of its own."""
    ready, done = threading.Event(), threading.Event()
    visitors: list[Visitor] = []

    async def look() -> None:
        pages = islice(cycle(PAGES), count)
        visitors.extend(Visitor(port, cookies_of(_TOKEN), page) for page in pages)
        tasks = [asyncio.create_task(one.run()) for one in visitors]
        await asyncio.gather(*(one.opened.wait() for one in visitors))
        ready.set()
        await asyncio.to_thread(done.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(look(),), daemon=True)
    thread.start()
    if not ready.wait(60):
        raise RuntimeError("the dashboards did not open")
    try:
        yield visitors
    finally:
        done.set()
        thread.join(10)


class _Cost:
    """What open dashboards take, from now on."""

    def __init__(self, system: System, pid: int, visitors: list[Visitor], conn: Conn) -> None:
        self._system, self._pid, self._visitors, self._conn = system, pid, visitors, conn
        self._started, self._before = time.monotonic(), self._look()

    def _look(self) -> dict[str, float]:
        row = self._conn.execute(_COMMITS).fetchone()
        return {
            "server process: CPU %": cpu_seconds(self._pid) * 100,
            "Postgres: CPU %": (self._system.server.cpu_seconds() or 0.0) * 100,
            "Postgres: commits/s": float(row[0]) if row else 0.0,
            "renewed parts/s": float(sum(one.renewed for one in self._visitors)),
        }

    def figures(self, when: str) -> dict[str, float]:
        seconds, now = time.monotonic() - self._started, self._look()
        return {
            f"{name}, {when}": (now[name] - before) / seconds
            for name, before in self._before.items()
        }


def cases(sizes: Sizes) -> Sequence[Case]:
    def throughput(system: System) -> dict[str, float]:
        with system.workers(1) as workers:
            return figures_of(workers.work_off(max(sizes.backlogs)))

    def alone(system: System) -> Mapping[str, float]:
        system.fresh()
        with serving(system):
            return throughput(system)

    def beside(system: System) -> Mapping[str, float]:
        system.fresh()
        with (
            serving(system) as (port, program),
            looking(port, sizes.dashboards) as visitors,
            system.server.connect(system.database) as conn,
        ):
            time.sleep(sizes.rest_seconds)
            at_rest = _Cost(system, program.pid, visitors, conn)
            time.sleep(sizes.rest_seconds)
            found = at_rest.figures("at rest")
            busy = _Cost(system, program.pid, visitors, conn)
            found |= throughput(system)
            shown = busy.figures("while it works")
        return found | {key: value for key, value in shown.items() if "Postgres" not in key}

    name = f"{sizes.dashboards} dashboards"
    return [Case("none", alone, only_rota), Case(name, beside, only_rota, base="none")]


PHASE = Phase("dashboards", cases)
