"""What one can know of the system as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from rota.admin.commands import AsyncCommands, Commands, SyncCommands, command
from rota.model.metrics import Changes, Metrics
from rota.model.stats import QueueDepth
from rota.model.stats import Stats as StatsInfo
from rota.model.trend import Trend
from rota.store.plans import Plan
from rota.store.reports import metrics, stats, trend


class StatsCommands(Commands):
    @command
    def get(
        self,
        *,
        job: str | None = None,
        queue: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | None = None,
        step: timedelta | int | None = None,
        most_jobs: int = 100,
    ) -> Plan[StatsInfo]:
        """How many runs are in each state, how long the oldest waits, and what was done, in all,
        by job and by step; by default in the last hour. UnknownJob if the job is none."""
        return stats.read_stats(
            job=job,
            queue=queue,
            since=since,
            until=until,
            step=int(step.total_seconds()) if isinstance(step, timedelta) else step,
            most_jobs=most_jobs,
        )

    @command
    def trend(
        self,
        *,
        job: str | None = None,
        queue: str | None = None,
        span: timedelta = timedelta(hours=1),
    ) -> Plan[Trend]:
        """What charts draw, beside the day before: attempts that ended, how long they took, how
        long claims had waited, and what waited, over the last 1 h, 6 h, 24 h or 7 d. UnknownJob if
        the job is none."""
        return trend.read_trend(job=job, queue=queue, span=span)

    @command
    def metrics(self, *, most_tenants: int = 20) -> Plan[Metrics]:
        """Everything that is measured, as totals: what `/metrics` shows. Of tenants those so many
        that have most open, and the others as one; 0: none of them."""
        return metrics.read_metrics(most_tenants)

    @command
    def changes(
        self, after_audit: int | None = None, depths: Mapping[str, QueueDepth] | None = None
    ) -> Plan[Changes]:
        """What a poller compares to say what has happened since; the audit after this row. With
        `depths` of an answer before, what waits and runs is not counted again."""
        return metrics.read_changes(after_audit, depths)


class Stats(StatsCommands, AsyncCommands):
    """`app.stats`"""

    @property
    def sync(self) -> SyncStats:
        return SyncStats(self.database, self.actor)


class SyncStats(StatsCommands, SyncCommands):
    """`app.stats.sync`"""
