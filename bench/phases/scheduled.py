"""Measured beside a million runs that wait for their time, against none."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_CHUNK = 50_000
_ENQUEUE = """
    SELECT count(*) FROM rota.enqueue_many(
        jobs => ARRAY['noop'],
        payloads => array_fill('{"n": 1}'::jsonb, ARRAY[%(count)s::integer]),
        priorities => array_fill(0, ARRAY[%(count)s::integer]),
        delays => array_fill(interval '30 days', ARRAY[%(count)s::integer]))
"""


def cases(sizes: Sizes) -> Sequence[Case]:
    def lay_out(system: System) -> None:
        system.fresh("rota_scheduled")
        with system.server.connect(system.database) as conn:
            for start in range(0, sizes.scheduled, _CHUNK):
                conn.execute(_ENQUEUE, {"count": min(_CHUNK, sizes.scheduled - start)})
            conn.execute("VACUUM (ANALYZE) rota.open_runs")
            conn.execute("CHECKPOINT")

    def on(database: str | None) -> Measure:
        def measure(system: System) -> dict[str, float]:
            if database is None:
                system.fresh()
            else:
                system.database = database
            return figures_of(system.work_off(sizes.runs))

        return measure

    filled = f"{sizes.scheduled:,} scheduled"
    return [
        Case("none scheduled", on(None), only_rota),
        Case(filled, on("rota_scheduled"), only_rota, base="none scheduled", setup=lay_out),
    ]


PHASE = Phase("scheduled", cases)
