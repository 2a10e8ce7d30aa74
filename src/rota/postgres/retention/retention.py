"""A pass of retention, as steps that each commit on their own.

Data older than its keep class is dropped by whole partitions. Data beyond the policy of a job
(fewer days, a count) is deleted in portions of a thousand. Attempts and log lines are deleted with
their run: the rows of a detached partition still name the runs, so a crash leaves nothing behind
either; the next pass finds the table and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rota.config.sections.retention import RetentionSettings
from rota.errors import WrongState
from rota.model.retention import Retention, RetentionItem, RetentionResult
from rota.postgres.plans import Execute, Rows, call
from rota.postgres.retention.log_lines import LogPruning
from rota.postgres.retention.parts import (
    BATCH,
    FAILED,
    OTHERS,
    Partition,
    PartitionDrops,
    note_parts,
)
from rota.postgres.retention.tenants import TenantPruning
from rota.postgres.steps import Hold, Steps, WriteRefused, gently

_OUTCOMES = {"failed": FAILED, "succeeded or cancelled": OTHERS}


@dataclass(slots=True)
class Pass:
    """The state shared by all parts of one pass."""

    settings: RetentionSettings
    now: datetime
    dry_run: bool
    policies: dict[str, Retention]
    on_progress: Callable[[int], None]
    hurry: bool = False
    items: list[RetentionItem] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def before(self, days: int) -> datetime:
        return self.now - timedelta(days=days)

    def portion(self, ask: Execute) -> Steps[Rows]:
        """Execute one of many portions, followed by a pause for other work."""
        return (yield ask) if self.hurry else (yield from gently(ask))


def configure(settings: RetentionSettings) -> Steps[None]:
    """Store the settings in the database, which checks policies and chooses keep classes with
    them."""
    yield from call("configure_retention", wanted=json.dumps(asdict(settings)))


def retain(
    settings: RetentionSettings,
    *,
    runs: bool = True,
    logs: bool = True,
    dry_run: bool = False,
    on_progress: Callable[[int], None] | None = None,
    hurry: bool = False,
) -> Steps[RetentionResult]:
    """Remove data past its retention. Raise WrongState if another pass is running."""
    yield from configure(settings)
    if not dry_run:
        yield from _hold(runs=runs, logs=logs)
    report = on_progress or (lambda count: None)
    (clock,) = yield Execute("clock/now", {})
    rows = yield Execute("retention/jobs", {"is_all": settings.failed_run_days is not None})
    policies = {row["name"]: Retention.stored(row["retention"]) for row in rows}
    work = Pass(settings, clock["now"], dry_run, policies, report, hurry)
    # Log lines first: they are never kept longer than their runs.
    if logs:
        yield from LogPruning(work).run()
    if runs:
        yield from RunPruning(work).run()
    return RetentionResult(dry_run, work.items)


def _hold(*, runs: bool, logs: bool) -> Steps[None]:
    """Allow one pass at a time, for runs and for log lines."""
    try:
        if runs:
            yield Hold("retention/hold_runs")
        if logs:
            yield Hold("retention/hold_logs")
    except WriteRefused as error:
        hint = "wait for the other pass to end"
        raise WrongState("a retention pass is already running", hint=hint) from error


class RunPruning:
    """Prunes runs, attempts, counts, and the records of schedules."""

    def __init__(self, work: Pass) -> None:
        self._work = work
        self._drops = PartitionDrops(work)

    def run(self) -> Steps[None]:
        parts = yield from note_parts()
        ended = [
            part for part in parts if part.parent.startswith("ended_runs_") and self._is_over(part)
        ]
        for part in ended:
            yield from self._drops.drop(part, with_logs=_has_logs(parts, part))
        for part in parts:
            if part.parent in ("ledger", "events") and self._is_over(part):
                yield from self._drops.drop(part)
        for job, policy in self._work.policies.items():
            for outcome, states in _OUTCOMES.items():
                yield from self._prune_job(job, policy, outcome, states)
        yield from TenantPruning(self._work).run()
        yield from self._prune_rest()
        yield from self._prune_beside_events()

    def _is_over(self, part: Partition) -> bool:
        settings = self._work.settings
        days = {
            "ended_runs_short": settings.short_days,
            "ended_runs_standard": settings.run_days,
            "ended_runs_long": settings.long_days,
            "ledger": settings.occurrence_days,
            "events": settings.event_days,
        }
        return part.state != "attached" or part.to_at <= self._work.before(days[part.parent])

    def _prune_job(
        self, job: str, policy: Retention, outcome: str, states: list[str]
    ) -> Steps[None]:
        """Prune runs by days, in every keep class, because the policy may have been different. Runs
        of the class that has the same number of days are dropped with their partitions."""
        is_failed = states == FAILED
        days = policy.run_days(is_failed) or (
            self._work.settings.failed_run_days if is_failed else None
        )
        if days is not None:
            place = {"at": self._work.before(days), "id": 0, "spared_class": self._bound_by(days)}
            yield from self._prune(job, outcome, states, place)
        count = policy.failed_count or policy.count if is_failed else policy.count
        if count is not None:
            first = yield Execute(
                "retention/nth_run", {"job": job, "states": states, "count": count}
            )
            if first:
                yield from self._prune(job, outcome, states, first[0] | {"spared_class": ""})

    def _bound_by(self, days: int) -> str:
        settings = self._work.settings
        bounds = {
            settings.short_days: "short",
            settings.run_days: "standard",
            settings.long_days: "long",
        }
        return bounds.get(days, "")

    def _prune(
        self, job: str, outcome: str, states: list[str], place: dict[str, Any]
    ) -> Steps[None]:
        params = place | {"job": job, "states": states}
        if self._work.dry_run:
            params["dropped"] = self._work.dropped
            (found,) = yield Execute("retention/count_runs", params)
            total = found["rows"]
        else:
            total = yield from self._repeat("retention/prune_runs", params)
        if total:
            item = RetentionItem(
                "delete", "ended_runs", total, job=job, outcome=outcome, until=place["at"]
            )
            self._work.items.append(item)

    def _prune_rest(self) -> Steps[None]:
        settings = self._work.settings
        bounds = {
            "rollups": settings.rollup_days,
            "rollup_sums": settings.rollup_days,
            "schedule_days": settings.rollup_days,
            # A little longer than any run that could need them.
            "id_marks": settings.long_days + 31,
            "audit": settings.audit_days,
            # The times before the backfills that they belong to.
            "backfill_times": settings.occurrence_days,
            "backfills": settings.occurrence_days,
            "schedules": settings.occurrence_days,
            "init_runs": settings.occurrence_days,
            "error_counts": settings.rollup_days,
            "error_groups": settings.rollup_days,
            # No handled run is kept longer.
            "handled_runs": settings.long_days + 31,
            # Like backfills.
            "bulk_actions": settings.occurrence_days,
        }
        for table, days in bounds.items():
            if days is not None:
                params = {"table": table, "before_at": self._work.before(days)}
                if self._work.dry_run:
                    (found,) = yield Execute("retention/count_rows", params)
                    total = found["rows"]
                else:
                    total = yield from self._repeat("retention/prune_rows", params)
                if total:
                    before = self._work.before(days)
                    item = RetentionItem("delete", table, total, until=before)
                    self._work.items.append(item)

    def _prune_beside_events(self) -> Steps[None]:
        """Prune expired event keys, which are no longer needed, and refused webhooks."""
        kept = self._work.before(self._work.settings.event_days)
        for table, what, before in (
            ("event_keys", "event_keys", self._work.now),
            ("hook_refusals", "refusals", kept),
        ):
            params = {"before_at": before}
            if self._work.dry_run:
                (found,) = yield Execute(f"retention/count_{what}", params)
                total = found["rows"]
            else:
                total = yield from self._repeat(f"retention/prune_{what}", params)
            if total:
                self._work.items.append(RetentionItem("delete", table, total, until=before))

    def _repeat(self, statement: str, params: dict[str, Any]) -> Steps[int]:
        total = 0
        while True:
            (row,) = yield from self._work.portion(Execute(statement, params | {"limit": BATCH}))
            removed = int(row["removed"])
            total += removed
            self._work.on_progress(removed)
            if removed < BATCH:
                return total


def _has_logs(parts: list[Partition], ended: Partition) -> bool:
    """Return whether there are log lines of the partition's period; with the default settings they
    have been removed before."""
    return any(part.parent == "logs" and part.from_at < ended.to_at for part in parts)
