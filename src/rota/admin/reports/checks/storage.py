"""Tables: dead rows, and partitions for what comes."""

from __future__ import annotations

from rota.model.finding import Finding, Verdict
from rota.model.words import duration, number
from rota.store.plans import Plan
from rota.store.reports import doctor

_DAY = 86_400
_MANY, _VERY_MANY = 50_000, 1_000_000


def check() -> Plan[list[Finding]]:
    dead = yield from doctor.dead_rows()
    partitions = yield from doctor.partitions_ahead()
    found = [] if dead is None else [dead_rows(dead)]
    return found if partitions is None else [*found, partitions_ahead(partitions)]


def dead_rows(row: doctor.DeadRows) -> Finding:
    """Many, and more than live ones."""
    name, live, dead, vacuum_seconds = row.name, row.live, row.dead, row.vacuum_seconds
    many = dead >= _MANY and dead > 2 * live
    verdict: Verdict = "ok" if not many else "bad" if dead >= _VERY_MANY else "warn"
    last = (
        "never vacuumed" if vacuum_seconds is None else f"vacuumed {duration(vacuum_seconds)} ago"
    )
    if verdict == "ok":
        figure = f"{number(dead)} in {name}"
        return Finding("dead_rows", "ok", "Most dead rows", figure=figure, limit=number(_MANY))
    return Finding(
        "dead_rows", verdict, f"Table {name} is full of dead rows", figure=number(dead),
        limit=number(_MANY),
        detail=f"{number(live)} live ones; {last}. Dead rows slow down claims and lists.",
        advice="end the oldest transaction if one is open, then vacuum.",
        commands=[f"VACUUM (VERBOSE) rota.{name};"],
    )  # fmt: skip


def partitions_ahead(row: doctor.PartitionsAhead) -> Finding:
    name, seconds = row.name, row.seconds
    verdict: Verdict = "ok" if seconds > 2 * _DAY else "warn" if seconds > _DAY / 2 else "bad"
    if verdict == "ok":
        figure = duration(seconds)
        return Finding(
            "partitions", "ok", "Partitions created in advance", figure=figure, limit="2 d"
        )
    return Finding(
        "partitions", verdict, f"Table {name} has too few partitions in advance",
        figure=duration(seconds), limit="2 d",
        detail="Without partitions, results of runs and log lines cannot be stored.",
        advice="start a worker: upkeep creates them every hour. Or create them yourself.",
        commands=["SELECT rota.ensure_partitions(rota.now(), rota.now() + interval '7 days');"],
    )  # fmt: skip
