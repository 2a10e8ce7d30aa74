"""Tasks of workers besides runs: ticks, roll-ups, log lines, retention."""

from __future__ import annotations

from collections.abc import Iterator

from rota.model.finding import Finding, graded, judge
from rota.model.formatting import duration, number, plural
from rota.model.metrics import FleetHealth
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.doctor import CounterAge, UpkeepState
from rota.postgres.reports.metrics import read_health

_HOUR, _DAY = 3600, 86_400


def check() -> Plan[list[Finding]]:
    counts = yield from rows_of(CounterAge)
    stand = yield from read_health()
    (row,) = yield from rows_of(UpkeepState)
    return [
        _ticks(counts, stand),
        *_overdue(stand),
        _folds(row),
        _errors(counts),
        _dropped(counts),
        *_retention(row),
    ]


def _ticks(counts: list[CounterAge], stand: FleetHealth) -> Finding:
    age = next((count.age for count in counts if count.name == "ticks"), None)
    if not stand.schedules_active:
        return Finding("tick", "ok", "Ticks", figure="no schedule is active")
    if age is None:
        return Finding(
            "tick",
            "bad",
            "No worker has processed schedules yet",
            figure="never",
            detail=f"{plural(stand.schedules_active, 'schedule waits', 'schedules wait')}.",
            advice="start a worker with the scheduler enabled.",
            commands=["rota worker"],
        )
    return graded(
        "tick",
        judge(age, warn=120, bad=600),
        "Ticks",
        "Schedules are not being processed",
        figure=f"{duration(age)} ago",
        limit="2 min",
        detail="The catch-up policy of each schedule decides about missed times.",
        advice="start a worker with the scheduler enabled, or find out why the live ones fail.",
        commands=["rota workers list", "rota config get scheduler.enabled"],
    )


def _overdue(stand: FleetHealth) -> Iterator[Finding]:
    overdue = stand.overdue_seconds or 0.0
    verdict = judge(overdue, warn=60, bad=600)
    if verdict != "ok":
        yield Finding(
            "overdue",
            verdict,
            "A schedule is overdue",
            figure=duration(overdue),
            limit="1 min",
            detail="Its runs start late.",
            advice="find out which one, and whether an open transaction has locked its row.",
            commands=["rota attention"],
        )
    if stand.schedules_parked:
        yield Finding(
            "parked",
            "warn",
            "Schedules are parked",
            figure=number(stand.schedules_parked),
            detail="Their timing, time zone or calendar is invalid, or their runs are refused; "
            "each is retried within an hour.",
            advice="fix or delete them.",
            commands=["rota schedules list --state parked"],
        )


def _folds(row: UpkeepState) -> Finding:
    """A minute is added to the roll-ups some seconds after its end."""
    verdict = judge(row.unfolded_seconds, warn=300, bad=_HOUR)
    return graded(
        "upkeep",
        verdict,
        "Upkeep is running",
        "Upkeep is not running",
        figure="" if verdict == "ok" else duration(row.unfolded_seconds),
        limit="5 min",
        detail="Statistics become slow, partitions are not created, expired runs do not end.",
        advice="check that a worker is live, and what it logs about upkeep.",
        commands=["rota workers list"],
    )


def _errors(counts: list[CounterAge]) -> Finding:
    lately = [count for count in counts if count.name == "loop_errors" and count.age < 600]
    return graded(
        "loops",
        "warn" if lately else "ok",
        "Errors in the loops of workers, last 10 min",
        "Loops of workers have failed in the last 10 min",
        figure=", ".join(sorted(str(count.loop) for count in lately)) or "0",
        detail="Each retries automatically; the worker's log shows the error.",
        advice="read the logs of the workers.",
        commands=["rota workers list"],
    )


def _dropped(counts: list[CounterAge]) -> Finding:
    dropped = next((count for count in counts if count.name == "lines_dropped"), None)
    if dropped is None or dropped.age > _DAY:
        return Finding("log_lines", "ok", "Log lines dropped in the last day", figure="0")
    return Finding(
        "log_lines",
        "warn",
        "Log lines were dropped",
        figure=f"{duration(dropped.age)} ago",
        detail=f"{number(dropped.amount)} in total: handlers wrote faster than "
        "the database could store them.",
        advice="raise logs.buffer_lines, or raise the log level of the job that logs most.",
        commands=["rota config get logs.buffer_lines"],
    )


def _retention(row: UpkeepState) -> Iterator[Finding]:
    """Retention runs every night; a new installation has had no pass yet."""
    ago = row.pruned_seconds
    if ago is None:
        if (row.installed_seconds or 0) > 2 * _DAY:
            yield Finding(
                "retention",
                "warn",
                "Retention has never run",
                figure="never",
                detail="The history keeps growing.",
                advice="start a worker, or run a pass now.",
                commands=["rota retention run"],
            )
        return
    verdict = "warn" if row.pruned != "succeeded" or ago > 2 * _DAY else "ok"
    if verdict == "ok":
        yield Finding("retention", "ok", "Retention, last pass", figure=f"{duration(ago)} ago")
        return
    yield Finding(
        "retention",
        "warn",
        "Retention is overdue",
        figure=f"{duration(ago)} ago",
        limit="2 d",
        detail=f"State of its last pass: {row.pruned}.",
        advice="look at its last run, then start a pass.",
        commands=["rota runs list --job rota.prune_runs", "rota retention run"],
    )
