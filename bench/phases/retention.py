"""Throughput while a pass of retention removes a million ended runs, against throughput alone.

Half of them lie in partitions that go as a whole, half are deleted in portions because their job
keeps only its newest run. The same worker takes bulk after bulk until the pass has ended; alone it
does so for about as long, as checkpoints and vacuums come in either case.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, only_rota
from bench.systems.base import ROOT, BusyWorkers, Measured, System

_CHUNK = 250_000
_SAMPLE = 1_000
_TIMES = ("created_at", "run_at", "started_at", "finished_at")
_COLUMNS = """
    SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = 'rota.ended_runs'::regclass AND attnum > 0 AND NOT attisdropped
      AND attname <> ALL ('{id,job}')
"""


def fill(system: System, count: int) -> None:
    """Copies of real ended runs: of the job that was run, long ago, and of another."""
    system.work_off(_SAMPLE)
    with system.server.connect(system.database) as conn:
        (columns,) = conn.execute(_COLUMNS).fetchone() or ([],)
        conn.execute("INSERT INTO rota.jobs (name, retention) VALUES ('old', '{\"count\": 1}')")
        conn.execute("SELECT rota.ensure_partitions(now() - interval '61 days', now())")
        conn.execute(f"CREATE TEMP TABLE sample AS SELECT * FROM rota.ended_runs LIMIT {_SAMPLE}")
        for days, job in ((60, "noop"), (1, "old")):
            moved = [f"{it} - interval '{days} days'" if it in _TIMES else it for it in columns]
            for start in range(0, count // 2, _CHUNK):
                copies = max(1, min(_CHUNK, count // 2 - start) // _SAMPLE)
                conn.execute(
                    f"INSERT INTO rota.ended_runs (id, job, {', '.join(columns)})"
                    f" SELECT nextval('rota.run_ids'), '{job}', {', '.join(moved)}"
                    f" FROM sample, generate_series(1, {copies})"
                )
        conn.execute("VACUUM (ANALYZE) rota.ended_runs")
        conn.execute("CHECKPOINT")


def cases(sizes: Sizes) -> Sequence[Case]:
    def figures(found: list[Measured]) -> dict[str, float]:
        return {"runs/s": sum(one.runs for one in found) / sum(one.seconds for one in found)}

    def rounds(workers: BusyWorkers, goes_on: Callable[[], bool]) -> list[Measured]:
        found = [workers.work_off(sizes.runs)]
        while goes_on():
            found.append(workers.work_off(sizes.runs))
        return found

    def alone(system: System) -> dict[str, float]:
        with system.workers(1) as workers:
            until = time.monotonic() + sizes.retention_seconds
            return figures(rounds(workers, lambda: time.monotonic() < until))

    def beside(system: System) -> dict[str, float]:
        with system.workers(1) as workers:
            started = time.monotonic()
            env = system.environment({"ROTA_DATABASE_URL": system.server.url_of(system.database)})
            command = [sys.executable, "-m", "rota", "retention", "run"]
            with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL) as work:
                found = rounds(workers, lambda: work.poll() is None)
            if work.returncode:
                raise RuntimeError(f"retention ended with {work.returncode}")
        seconds = time.monotonic() - started
        return figures(found) | {"seconds of retention": seconds}

    def with_history(measure: Measure) -> Measure:
        def prepared(system: System) -> dict[str, float]:
            system.fresh()
            fill(system, sizes.retained)
            return dict(measure(system))

        return prepared

    name = f"beside the removal of {sizes.retained:,}"
    return [
        Case("alone", with_history(alone), only_rota),
        Case(name, with_history(beside), only_rota, base="alone"),
    ]


PHASE = Phase("retention", cases)
