"""Measured with millions of ended runs in the history, against none."""

from __future__ import annotations

from collections.abc import Sequence

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_CHUNK = 500_000
_SAMPLE = 1_000
_COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
    WHERE attrelid = 'rota.ended_runs'::regclass AND attnum > 0 AND NOT attisdropped
      AND attname <> 'id'
"""


def fill(system: System, count: int) -> None:
    """Real ended runs, copied with new ids: whatever columns the history has, it has them."""
    system.work_off(_SAMPLE)
    with system.server.connect(system.database) as conn:
        row = conn.execute(_COLUMNS).fetchone()
        assert row is not None
        conn.execute(f"CREATE TEMP TABLE sample AS SELECT * FROM rota.ended_runs LIMIT {_SAMPLE}")
        for start in range(0, count, _CHUNK):
            copies = min(_CHUNK, count - start) // _SAMPLE
            conn.execute(
                f"INSERT INTO rota.ended_runs (id, {row[0]}) SELECT nextval('rota.run_ids'), "
                f"{row[0]} FROM sample, generate_series(1, {copies})"
            )
        conn.execute("VACUUM (ANALYZE) rota.ended_runs")
        conn.execute("CHECKPOINT")


def cases(sizes: Sizes) -> Sequence[Case]:
    def lay_out(system: System) -> None:
        system.fresh("rota_history")
        fill(system, sizes.ended)

    def on(database: str | None) -> Measure:
        def measure(system: System) -> dict[str, float]:
            if database is None:
                system.fresh()
            else:
                system.database = database
            return figures_of(system.work_off(sizes.runs))

        return measure

    filled = f"{sizes.ended:,} ended"
    return [
        Case("no history", on(None), only_rota),
        Case(filled, on("rota_history"), only_rota, base="no history", setup=lay_out),
    ]


PHASE = Phase("history", cases)
