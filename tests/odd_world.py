"""A small installation with a row in every table that a face shows, by plain SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

_RUNS = ["/runs", "/runs?order=oldest", "/runs/1", "/runs/1/details", "/runs/3", "/overview"]
_SCHEDULES = [
    "/schedules", "/schedules?order=next", "/schedules/nightly", "/schedules/nightly/occurrences",
    "/schedules/nightly/preview", "/simulation", "/overview",
]  # fmt: skip
# Which lists read a table, of those that people write to or that keep what they wrote. Figures are
# Rota's own notes.
SHOWN_BY: dict[str, list[str]] = {
    "open_runs": [*_RUNS, "/runs/4", "/runs/4/details", "/queues/mail", "/queues", "/workers"],
    "ended_runs": [*_RUNS, "/runs/1/attempts", "/jobs/work"],
    "past_attempts": ["/runs/1/attempts", "/runs/1/details"],
    "logs": ["/logs", "/runs/1/logs", "/runs/1/details"],
    "jobs": [
        "/jobs",
        "/jobs?order=newest",
        "/jobs/work",
        "/queues",
        "/overview",
        "/retention/plan",
    ],
    "queues": ["/queues", "/queues/mail", "/overview"],
    "workers": ["/workers", "/workers/1", "/overview", "/jobs"],
    "calendars": ["/calendars", "/calendars/holidays", *_SCHEDULES],
    "schedules": _SCHEDULES,
    "schedule_templates": ["/templates"],
    "ledger": ["/schedules/nightly/occurrences", "/schedules/nightly/occurrences?order=oldest"],
    "backfills": ["/schedules/nightly/occurrences"],
    "backfill_times": ["/schedules/nightly/occurrences"],
    "audit": ["/audit", "/audit?order=oldest", "/audit/1"],
    "cancel_requests": ["/runs/4", "/runs"],
    "keys": ["/runs"],
}

_ROWS = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
_DROP = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT c.conrelid::regclass AS relation, c.conname FROM pg_constraint c
               WHERE c.contype = 'c' AND c.connamespace = 'rota'::regnamespace
                 AND c.coninhcount = 0 AND c.conrelid <> 0 LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.relation, one.conname);
    END LOOP;
END $$
"""


def fill(conn: psycopg.Connection[Any]) -> None:
    conn.execute(_ROWS)


def put_constraints_aside(conn: psycopg.Connection[Any]) -> None:
    """As a superuser can, or an older release did not have them. Triggers too."""
    conn.execute(_DROP)
    conn.execute("SET session_replication_role = replica")
