"""Statistics of the whole system."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from rota.model.metrics import Changes, Metrics
from rota.model.stats import QueueDepth
from rota.model.stats import Stats as StatsInfo
from rota.model.trend import Trend
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.reports import metrics, stats, trend


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
        """The number of runs by state, the age of the oldest waiting run, and the activity in
        total, by job and by interval; by default in the last hour. Raises UnknownJob if there is
        no such job."""
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
        """Data for charts, with the day before: finished attempts, durations, pick-up latency and
        backlog, over the last 1 h, 6 h, 24 h or 7 d. Raises UnknownJob if there is no such job."""
        return trend.read_trend(job=job, queue=queue, span=span)

    @command
    def metrics(self, *, most_tenants: int = 20) -> Plan[Metrics]:
        """All measured values as totals, as shown by `/metrics`. Tenants are listed separately up
        to `most_tenants`, those with the most unfinished runs first, and the others combined; 0: no
        tenants."""
        return metrics.read_metrics(most_tenants)

    @command
    def changes(
        self, after_audit: int | None = None, depths: Mapping[str, QueueDepth] | None = None
    ) -> Plan[Changes]:
        """Totals and states for a poller to compare with its previous ones, and the audit entries
        after `after_audit`. If `depths` of an earlier result are passed, waiting and running runs
        are not counted again."""
        return metrics.read_changes(after_audit, depths)


class Stats(StatsCommands, AsyncCommands):
    """`app.stats`"""

    @property
    def sync(self) -> SyncStats:
        return SyncStats(self.database, self.actor)


class SyncStats(StatsCommands, SyncCommands):
    """`app.stats.sync`"""
