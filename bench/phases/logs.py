"""What log lines cost.

The effect of one line a run: the same job with its context, with `ctx.log.info("done", n=n)` and
without, all settings at their defaults. The console of the worker is a file, as under a service
manager, and every line is on it at once. Five times the usual runs: a busy worker stores lines ten
times a second, and what it stores after the last run must not matter.

Then lines a second: runs of a thousand lines, and how long the last lines take to be stored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_LINES = 1000
_LONGER = 5
_WAIT_SECONDS = 60.0


def cases(sizes: Sizes) -> Sequence[Case]:
    def by(job: str, *, lines: int) -> Measure:
        def measure(system: System) -> Mapping[str, float]:
            system.fresh()
            runs = sizes.runs * _LONGER
            with system.workers(1, BENCH_JOB=job) as workers:
                figures = figures_of(workers.work_off(runs))
                # A line that was dropped would have cost too little.
                _wait_stored(system, lines * (runs + system.warm_up_runs))
            return figures

        return measure

    def ingest(system: System) -> Mapping[str, float]:
        system.fresh()
        system.warm_up_runs, before = 1, system.warm_up_runs
        runs = max(sizes.runs // 1000, 1)
        try:
            with system.workers(1, BENCH_JOB="talk", ROTA_LOGS_BUFFER_LINES="1000000") as workers:
                started = time.perf_counter()
                measured = workers.work_off(runs)
                stored = _wait_stored(system, (runs + 1) * _LINES)
        finally:
            system.warm_up_runs = before
        # Written until the last run has ended; stored a moment later.
        written = runs * _LINES / measured.seconds
        return {"lines/s": written, "seconds to be stored": stored - started - measured.seconds}

    return [
        Case("no line", by("noop_context", lines=0), only_rota),
        Case("one line a run", by("noop_line", lines=1), only_rota, base="no line"),
        Case("a thousand lines a run", ingest, only_rota),
    ]


def _wait_stored(system: System, lines: int) -> float:
    limit = time.monotonic() + _WAIT_SECONDS
    with system.server.connect(system.database) as conn:
        while True:
            row = conn.execute("SELECT count(*) FROM rota.logs").fetchone()
            if row is not None and row[0] >= lines:
                return time.perf_counter()
            if time.monotonic() > limit:
                raise TimeoutError(f"only {row} of {lines} lines were stored")
            time.sleep(0.05)


PHASE = Phase("logs", cases)
