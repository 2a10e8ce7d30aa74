"""The server: its release, settings that risk data, connections, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rota.model.finding import Finding, judge
from rota.model.words import duration, number, percent, size
from rota.store.plans import Plan
from rota.store.reports.doctor import ServerState, server_state

OLDEST = 140_000


def check() -> Plan[list[Finding]]:
    row = yield from server_state()
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
    is_old = row.number < OLDEST
    return Finding(
        "server",
        "bad" if is_old else "ok",
        "PostgreSQL is older than 14" if is_old else f"PostgreSQL {row.version}",
        figure=f"up {duration(row.up_seconds)}, {size(row.bytes)}",
        detail="Rota requires PostgreSQL 14 or newer." if is_old else None,
        advice="upgrade the server." if is_old else None,
    )


def _settings(row: ServerState) -> Iterator[Finding]:
    if not row.is_fsync or not row.is_full_page:
        yield Finding(
            "durability", "bad", "The server may lose committed data", figure="off",
            detail="fsync or full_page_writes is off: a crash can corrupt the database.",
            advice="turn both on, and restart the server.",
            commands=["ALTER SYSTEM SET fsync = on;", "ALTER SYSTEM SET full_page_writes = on;"],
        )  # fmt: skip
    elif row.synchronous_commit == "off":
        yield Finding(
            "durability", "warn", "Commits do not wait for the disk", figure="off",
            detail="After a crash of the server, the most recent enqueues may be lost.",
            advice="turn synchronous_commit on, at least for sessions that enqueue.",
            commands=["ALTER SYSTEM SET synchronous_commit = on;", "SELECT pg_reload_conf();"],
        )  # fmt: skip
    else:
        yield Finding("durability", "ok", "Commits are durable", figure=row.synchronous_commit)
    if not row.is_autovacuum:
        yield Finding(
            "autovacuum", "bad", "Autovacuum is off", figure="off",
            detail="Dead rows are never removed, so claims become slower every day.",
            advice="turn it on.",
            commands=["ALTER SYSTEM SET autovacuum = on;", "SELECT pg_reload_conf();"],
        )  # fmt: skip
    else:
        yield Finding("autovacuum", "ok", "Autovacuum", figure="on")


def _connections(row: ServerState) -> Finding:
    used, most = row.connections or 0, row.most_connections
    share = used / most
    verdict = judge(share, warn=0.8, bad=0.95)
    figure = f"{number(used)} of {number(most)}"
    if verdict == "ok":
        return Finding("connections", "ok", "Connections", figure=figure, limit="80 %")
    return Finding(
        "connections", verdict, "Connections are near the limit", figure=percent(share),
        limit="80 % of max_connections",
        detail=f"{figure} are in use, {number(row.own_connections)} of them by Rota here. When "
        "none is left, workers and applications are refused.",
        advice="raise max_connections, or run fewer processes with more slots.",
        commands=["SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2"
                  " ORDER BY 3 DESC;"],
    )  # fmt: skip


def _notifications(row: ServerState) -> Finding:
    usage = row.notify_usage
    verdict = judge(usage, warn=0.1, bad=0.5)
    return Finding(
        "notifications",
        verdict,
        "Use of the NOTIFY queue" if verdict == "ok" else "The NOTIFY queue is filling up",
        figure=percent(usage),
        limit="10 %",
        detail=None if verdict == "ok" else "When it is full, commits that notify workers fail.",
        advice=None
        if verdict == "ok"
        else "end the oldest session that listens inside a transaction.",
    )


def _wraparound(row: ServerState) -> Finding:
    age, freeze = row.xid_age, row.freeze_age
    verdict = judge(age, warn=max(1.5 * freeze, 400e6), bad=1.5e9)
    return Finding(
        "wraparound",
        verdict,
        "Age of the oldest row"
        if verdict == "ok"
        else "The database is close to a transaction ID wraparound",
        figure=f"{number(age)} transactions",
        limit="1,500 million",
        detail=None if verdict == "ok" else "At 2,000 million the server refuses every write.",
        advice=None
        if verdict == "ok"
        else "end the transactions that prevent vacuum from freezing rows, then vacuum.",
        commands=[] if verdict == "ok" else ["VACUUM (FREEZE);"],
    )


def _clock(row: ServerState, behind: float) -> Finding:
    """Nothing in Rota depends on this machine's clock; what its handlers write does."""
    verdict = judge(abs(behind), warn=2.0, bad=float("inf"))
    word = "ahead of" if behind > 0 else "behind"
    return Finding(
        "clock",
        verdict,
        "Clocks agree" if verdict == "ok" else f"This machine is {word} the database",
        figure=duration(abs(behind)),
        limit="2 s",
        detail=None
        if verdict == "ok"
        else "Rota uses the database's clock; your own code may not.",
        advice=None if verdict == "ok" else "start a time service on this machine.",
        commands=[] if verdict == "ok" else ["timedatectl set-ntp true"],
    )


def _offset(row: ServerState) -> Finding:
    offset = row.clock_offset or 0.0
    if abs(offset) < 1:
        return Finding("business_clock", "ok", "The clock of schedules", figure="real time")
    return Finding(
        "business_clock", "warn", "The clock of schedules is set to another time",
        figure=duration(abs(offset)),
        detail="rota.set_clock was called: schedules and delays use that time.",
        advice="set it back, unless this is a test.",
        commands=["SELECT rota.set_clock(clock_timestamp());"],
    )  # fmt: skip
