"""Transactions that prevent the removal of dead rows, or hold locks that runs wait for."""

from __future__ import annotations

from collections.abc import Iterator

from rota.model.finding import Finding, judge
from rota.model.formatting import duration, number, size
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.doctor import KeepingRows, RowHolder

_WARN, _BAD = 300, 900
_HELD_WARN, _HELD_BAD = 10, 60
_COST = "Dead rows cannot be removed while it is open: claims and lists become slower."


def check() -> Plan[list[Finding]]:
    found = {row.kind: row for row in (yield from rows_of(KeepingRows))}
    held = yield from rows_of(RowHolder)
    return [
        _held(held[0] if held else None),
        _oldest(found.get("transaction")),
        *_prepared(found.get("prepared")),
        *_slots(found.get("slot")),
        *_hidden(found["hidden"]),
    ]


def _held(row: RowHolder | None) -> Finding:
    seconds = row.seconds if row else None
    verdict = judge(seconds, warn=_HELD_WARN, bad=_HELD_BAD)
    if row is None or verdict == "ok":
        return Finding(
            "held_rows",
            "ok",
            "Rows held by open transactions",
            figure="none for long",
            limit=duration(_HELD_WARN),
        )
    owner = row.owner and f"user {row.owner}"
    who = ", ".join(filter(None, (f"Process {row.pid}", owner, row.program)))
    others = row.rows - len(row.examples)
    more = f" and {number(others)} more" if others > 0 else ""
    return Finding(
        "held_rows",
        verdict,
        f"A transaction has held rows for {duration(seconds)}",
        figure=duration(seconds),
        limit=duration(_HELD_WARN),
        detail=f"{who}: {row.doing or 'active'}. It holds {', '.join(row.examples)}{more}. Work on "
        f"these rows waits. Its last statement: {row.query or 'not visible'}",
        advice="commit or roll back that transaction, or end its session.",
        commands=[f"SELECT pg_terminate_backend({row.pid});"],
    )


def _oldest(row: KeepingRows | None) -> Finding:
    seconds = row.seconds if row else None
    verdict = judge(seconds, warn=_WARN, bad=_BAD)
    if row is None or verdict == "ok":
        return Finding(
            "oldest_transaction",
            "ok",
            "Oldest transaction",
            figure=duration(seconds) or "none",
            limit=duration(_WARN),
        )
    who = f"Process {row.name}, user {row.owner}"
    program = f", {row.program}" if row.program else ""
    return Finding(
        "oldest_transaction",
        verdict,
        f"A transaction has been open for {duration(seconds)}",
        figure=duration(seconds),
        limit=duration(_WARN),
        detail=f"{who}{program}: {row.doing or 'active'}. {_COST}",
        advice="ask its owner to end it, or end it yourself; then give that role a limit.",
        commands=[
            f"SELECT pg_terminate_backend({int(row.name)});",
            f"ALTER ROLE {quoted(row.owner)} SET idle_in_transaction_session_timeout = '5min';",
        ],
    )


def _prepared(row: KeepingRows | None) -> Iterator[Finding]:
    verdict = judge(row.seconds if row else None, warn=_WARN, bad=_BAD)
    if row is not None and verdict != "ok":
        name = row.name.replace("'", "''")
        yield Finding(
            "prepared_transactions",
            verdict,
            "A prepared transaction waits for its second phase",
            figure=duration(row.seconds),
            limit=duration(_WARN),
            detail=f"{row.name} of {row.owner}. {_COST} It survives a restart.",
            advice="let its coordinator end it, or roll it back.",
            commands=[f"ROLLBACK PREPARED '{name}';"],
        )


def _slots(row: KeepingRows | None) -> Iterator[Finding]:
    """Report a slot without a reader, for which the server keeps all WAL."""
    verdict = judge(row.bytes if row else None, warn=1e9, bad=2e10)
    if row is not None and verdict != "ok":
        name = row.name.replace("'", "''")
        yield Finding(
            "replication_slots",
            verdict,
            "A replication slot has no reader",
            figure=size(row.bytes or 0),
            limit="1 GB",
            detail=f"Slot {row.name} retains this much WAL; eventually the disk is full.",
            advice="start its reader, or drop it.",
            commands=[f"SELECT pg_drop_replication_slot('{name}');"],
        )


def _hidden(row: KeepingRows) -> Iterator[Finding]:
    if row.bytes:
        yield Finding(
            "hidden_sessions",
            "warn",
            "Sessions of other roles cannot be checked",
            figure=number(row.bytes),
            detail="The age of their transactions is visible only with pg_read_all_stats.",
            advice="grant it to the role that Rota connects as.",
            commands=["GRANT pg_read_all_stats TO CURRENT_USER;"],
        )


def quoted(name: object) -> str:
    """Quote the name as an SQL identifier."""
    escaped = str(name).replace('"', '""')
    return f'"{escaped}"'
