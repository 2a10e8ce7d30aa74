"""Tables: dead rows, and partitions for what comes."""

from __future__ import annotations

from rota.model.finding import Finding, Verdict
from rota.model.words import duration, number
from rota.store.plans import Ask, Plan

_DAY = 86_400
_MANY, _VERY_MANY = 50_000, 1_000_000


def check() -> Plan[list[Finding]]:
    dead = yield Ask("doctor/dead_rows", {})
    partitions = yield Ask("doctor/partitions", {})
    found = [dead_rows(**row) for row in dead]
    return found + [partitions_ahead(**row) for row in partitions]


def dead_rows(name: str, live: int, dead: int, vacuum_seconds: float | None) -> Finding:
    """Many, and more than live ones."""
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


def partitions_ahead(name: str, seconds: float) -> Finding:
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
