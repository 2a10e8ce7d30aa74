"""Tables: dead rows, and partitions for the coming days."""

from __future__ import annotations

from rota.model.finding import Finding, graded
from rota.model.formatting import duration, number
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports import doctor

_DAY = 86_400
_MANY, _VERY_MANY = 50_000, 1_000_000


def check() -> Plan[list[Finding]]:
    dead = yield from rows_of(doctor.DeadRows)
    partitions = yield from rows_of(doctor.PartitionsAhead)
    return [*map(dead_rows, dead[:1]), *map(partitions_ahead, partitions[:1])]


def dead_rows(row: doctor.DeadRows) -> Finding:
    """Report many dead rows, if there are more than twice as many as live ones."""
    many = row.dead >= _MANY and row.dead > 2 * row.live
    ago = row.vacuum_seconds
    last = "never vacuumed" if ago is None else f"vacuumed {duration(ago)} ago"
    return graded(
        "dead_rows",
        "ok" if not many else "bad" if row.dead >= _VERY_MANY else "warn",
        "Most dead rows",
        f"Table {row.name} is full of dead rows",
        figure=f"{number(row.dead)} in {row.name}",
        limit=number(_MANY),
        detail=f"{number(row.live)} live ones; {last}. Dead rows slow down claims and lists.",
        advice="end the oldest transaction if one is open, then vacuum.",
        commands=[f"VACUUM (VERBOSE) rota.{row.name};"],
    )


def partitions_ahead(row: doctor.PartitionsAhead) -> Finding:
    ahead = row.seconds
    return graded(
        "partitions",
        "ok" if ahead > 2 * _DAY else "warn" if ahead > _DAY / 2 else "bad",
        "Partitions created in advance",
        f"Table {row.name} has too few partitions in advance",
        figure=duration(ahead),
        limit="2 d",
        detail="Without partitions, results of runs and log lines cannot be stored.",
        advice="start a worker: upkeep creates them every hour. Or create them yourself.",
        commands=["SELECT rota.ensure_partitions(rota.now(), rota.now() + interval '7 days');"],
    )
