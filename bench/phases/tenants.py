"""Tenants: the throughput of runs that have none, one or a thousand; and how long the runs of
others wait while one tenant has a large backlog in the same queue, and without it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_PACE_SECONDS = 0.01
_WAITS = """
    SELECT percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP
        (ORDER BY extract(epoch FROM started_at - created_at) * 1000)
    FROM rota.runs WHERE tenant LIKE 'small-%' AND state = 'succeeded'
"""
_FLOOD = """
    SELECT rota.enqueue_batch('noop', jsonb_agg('{"n": 1000000000}'::jsonb), tenant => 'flood')
    FROM generate_series(1, %s)
"""


def cases(sizes: Sizes) -> Sequence[Case]:
    def of(tenants: int) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            return figures_of(system.work_off(sizes.runs, BENCH_TENANTS=str(tenants)))

        return measure

    return [
        Case("no tenant", of(0), only_rota),
        Case("1 tenant", of(1), only_rota, base="no tenant"),
        Case(f"{sizes.queues:,} tenants", of(sizes.queues), only_rota, base="no tenant"),
        Case("pick-up alone", partial(_pick_up, sizes=sizes, flood=0), only_rota),
        Case(
            "pick-up beside a flood",
            partial(_pick_up, sizes=sizes, flood=sizes.tenant_flood),
            only_rota,
            base="pick-up alone",
        ),
    ]


def _pick_up(system: System, sizes: Sizes, flood: int) -> dict[str, float]:
    """A run of another small tenant every ten milliseconds."""
    system.fresh()
    with system.server.connect(system.database) as conn, system.workers(1):
        for _ in range(flood // 10_000):
            conn.execute(_FLOOD, [10_000])
        begun = time.monotonic()
        for n in range(sizes.idle_runs):
            time.sleep(max(0.0, begun + n * _PACE_SECONDS - time.monotonic()))
            conn.execute(
                "SELECT rota.enqueue('noop', '{\"n\": 1000000000}', tenant => %s)",
                [f"small-{n % sizes.queues}"],
            )
        left = "SELECT count(*) FROM rota.open_runs WHERE tenant LIKE 'small-%'"
        while (conn.execute(left).fetchone() or (0,))[0]:
            time.sleep(0.1)
        (still,) = conn.execute("SELECT count(*) FROM rota.open_runs").fetchone() or (0,)
        (waits,) = conn.execute(_WAITS).fetchone() or (None,)
    return {
        "p50 ms": float((waits or [0])[0]),
        "p99 ms": float((waits or [0])[-1]),
        "flood left": float(still),
    }


PHASE = Phase("tenants", cases)
