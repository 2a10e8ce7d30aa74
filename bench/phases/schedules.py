"""Measured beside a hundred thousand schedules, none of them due, against none."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_MOST = 100_000
_FILL = """
    WITH made AS (
        INSERT INTO rota.schedules (name, job, payload, interval_seconds, anchor_at)
        SELECT 's' || i, 'noop', '{"n": 1}', 86400, rota.now()
        FROM generate_series(1, %(total)s) i RETURNING id
    )
    INSERT INTO rota.schedule_state (schedule_id, next_run_at, cursor_at, is_stopped, is_spread)
    SELECT id, rota.now() + interval '1 day', rota.now(), false, true FROM made
"""


def cases(sizes: Sizes) -> Sequence[Case]:
    total = min(_MOST, sizes.scheduled)

    def lay_out(system: System) -> None:
        system.fresh("rota_schedules")
        with system.server.connect(system.database) as conn:
            # The checks and the audit of a hundred thousand inserts are not what is measured.
            conn.execute("ALTER TABLE rota.schedules DISABLE TRIGGER USER")
            conn.execute(_FILL, {"total": total})
            conn.execute("ALTER TABLE rota.schedules ENABLE TRIGGER USER")
            conn.execute("VACUUM (ANALYZE) rota.schedules, rota.schedule_state")
            conn.execute("CHECKPOINT")

    def on(database: str | None) -> Measure:
        def measure(system: System) -> dict[str, float]:
            if database is None:
                system.fresh()
            else:
                system.database = database
            return figures_of(system.work_off(sizes.runs))

        return measure

    filled = f"{total:,} schedules"
    return [
        Case("no schedules", on(None), only_rota),
        Case(filled, on("rota_schedules"), only_rota, base="no schedules", setup=lay_out),
    ]


PHASE = Phase("schedules", cases)
