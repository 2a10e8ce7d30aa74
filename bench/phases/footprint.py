"""What a run leaves on disk, from its enqueue to its place in the history.

After a checkpoint the first change of a page logs the whole page;
which runs pay that is chance, so there is none between start and end. Table bytes are those of
all tables and indexes of the system's schema; dead rows are what vacuum still has to clean.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.phases.base import Case, Phase, Sizes
from bench.server import Conn
from bench.systems.base import System

_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_BYTES = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r'
"""
# Backends report their dead rows when they end.
_REPORT_SECONDS = 0.5
_DEAD = """
    SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = %s
"""


def cases(sizes: Sizes) -> Sequence[Case]:
    def measure(system: System) -> dict[str, float]:
        system.fresh()
        with system.server.connect(system.database) as conn:
            with system.workers(1) as workers:
                conn.execute("CHECKPOINT")
                workers.work_off(sizes.runs)  # touches every page that is touched again
                wal, size = _value(conn, _WAL), _value(conn, _BYTES, system.schema)
                workers.work_off(sizes.runs)
                wal = _value(conn, _WAL) - wal
                size = _value(conn, _BYTES, system.schema) - size
            time.sleep(_REPORT_SECONDS)
            dead = _value(conn, _DEAD, system.schema)
        return {
            "WAL bytes/run": wal / sizes.runs,
            "table bytes/run": size / sizes.runs,
            "dead rows/run": dead / sizes.runs,
        }

    return [Case("enqueue to history", measure)]


def _value(conn: Conn, sql: str, *words: str) -> float:
    row = conn.execute(sql, words).fetchone()
    assert row is not None
    return float(row[0])


PHASE = Phase("footprint", cases)
