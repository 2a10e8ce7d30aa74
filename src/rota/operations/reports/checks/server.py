"""The server: its release, settings that risk data, connections, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rota.model.finding import Finding, graded, judge
from rota.model.formatting import duration, number, percent, size
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.doctor import ServerState

OLDEST = 140_000


def check() -> Plan[list[Finding]]:
    (row,) = yield from rows_of(ServerState)
    here = datetime.now(UTC)
    return [
        _release(row),
        *_settings(row),
        _connections(row),
        _notifications(row),
        _wraparound(row),
        _clock(row, (here - row.clock).total_seconds()),
        _offset(row),
    ]


def _release(row: ServerState) -> Finding:
    return graded(
        "server",
        "bad" if row.number < OLDEST else "ok",
        f"PostgreSQL {row.version}",
        "PostgreSQL is older than 14",
        figure=f"up {duration(row.up_seconds)}, {size(row.bytes)}",
        detail="Rota requires PostgreSQL 14 or newer.",
        advice="upgrade the server.",
    )


def _settings(row: ServerState) -> Iterator[Finding]:
    if not row.is_fsync or not row.is_full_page:
        yield Finding(
            "durability",
            "bad",
            "The server may lose committed data",
            figure="off",
            detail="fsync or full_page_writes is off: a crash can corrupt the database.",
            advice="turn both on, and restart the server.",
            commands=["ALTER SYSTEM SET fsync = on;", "ALTER SYSTEM SET full_page_writes = on;"],
        )
    elif row.synchronous_commit == "off":
        yield Finding(
            "durability",
            "warn",
            "Commits do not wait for the disk",
            figure="off",
            detail="After a crash of the server, the most recent enqueues may be lost.",
            advice="turn synchronous_commit on, at least for sessions that enqueue.",
            commands=["ALTER SYSTEM SET synchronous_commit = on;", "SELECT pg_reload_conf();"],
        )
    else:
        yield Finding("durability", "ok", "Commits are durable", figure=row.synchronous_commit)
    yield graded(
        "autovacuum",
        "ok" if row.is_autovacuum else "bad",
        "Autovacuum",
        "Autovacuum is off",
        figure="on" if row.is_autovacuum else "off",
        detail="Dead rows are never removed, so claims become slower every day.",
        advice="turn it on.",
        commands=["ALTER SYSTEM SET autovacuum = on;", "SELECT pg_reload_conf();"],
    )


def _connections(row: ServerState) -> Finding:
    used, most = row.connections or 0, row.most_connections
    share = used / most
    return graded(
        "connections",
        judge(share, warn=0.8, bad=0.95),
        "Connections",
        "Connections are near the limit",
        figure=f"{number(used)} of {number(most)}",
        limit="80 %",
        detail=f"{percent(share)} are in use, {number(row.own_connections)} of them by Rota here."
        " When none is left, workers and applications are refused.",
        advice="raise max_connections, or run fewer processes with more slots.",
        commands=[
            "SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2"
            " ORDER BY 3 DESC;"
        ],
    )


def _notifications(row: ServerState) -> Finding:
    return graded(
        "notifications",
        judge(row.notify_usage, warn=0.1, bad=0.5),
        "Use of the NOTIFY queue",
        "The NOTIFY queue is filling up",
        figure=percent(row.notify_usage),
        limit="10 %",
        detail="When it is full, commits that notify workers fail.",
        advice="end the oldest session that listens inside a transaction.",
    )


def _wraparound(row: ServerState) -> Finding:
    return graded(
        "wraparound",
        judge(row.xid_age, warn=max(1.5 * row.freeze_age, 400e6), bad=1.5e9),
        "Age of the oldest row",
        "The database is close to a transaction ID wraparound",
        figure=f"{number(row.xid_age)} transactions",
        limit="1,500 million",
        detail="At 2,000 million the server refuses every write.",
        advice="end the transactions that prevent vacuum from freezing rows, then vacuum.",
        commands=["VACUUM (FREEZE);"],
    )


def _clock(row: ServerState, behind: float) -> Finding:
    """Nothing in Rota depends on this machine's clock; the times that handlers write do."""
    word = "ahead of" if behind > 0 else "behind"
    return graded(
        "clock",
        judge(abs(behind), warn=2.0, bad=float("inf")),
        "Clocks agree",
        f"This machine is {word} the database",
        figure=duration(abs(behind)),
        limit="2 s",
        detail="Rota uses the database's clock; your own code may not.",
        advice="start a time service on this machine.",
        commands=["timedatectl set-ntp true"],
    )


def _offset(row: ServerState) -> Finding:
    offset = abs(row.clock_offset or 0.0)
    return graded(
        "business_clock",
        "ok" if offset < 1 else "warn",
        "The clock of schedules",
        "The clock of schedules is set to another time",
        figure="real time" if offset < 1 else duration(offset),
        detail="rota.set_clock was called: schedules and delays use that time.",
        advice="set it back, unless this is a test.",
        commands=["SELECT rota.set_clock(clock_timestamp());"],
    )
