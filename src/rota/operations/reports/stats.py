"""Statistics of the whole system."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from rota.model.asked import OfJob, OfQueue, Since, Until
from rota.model.durations import read_duration
from rota.model.metrics import Changes, Metrics
from rota.model.stats import QueueDepth, StepSeconds
from rota.model.stats import Stats as StatsInfo
from rota.model.trend import Span, Trend
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.reading import reading
from rota.postgres.plans import Plan
from rota.postgres.reports import metrics, stats, trend


class StatsCommands(Commands):
    @reading()
    def get(
        self,
        *,
        job: OfJob = None,
        queue: OfQueue = None,
        since: Since = None,
        until: Until = None,
        step_seconds: StepSeconds = None,
        most_jobs: int = 100,
    ) -> Plan[StatsInfo]:
        """Runs by state and queue, the age of the oldest queued run, and throughput, failures and
        durations in total, by job and by interval. The period is the last hour unless `since` is
        given. Unfinished runs are counted every few seconds; activity comes from roll-ups.

        Raises UnknownJob if there is no such job."""
        return stats.read_stats(
            job=job,
            queue=queue,
            since=since,
            until=until,
            step=read_duration(step_seconds),
            most_jobs=most_jobs,
        )

    @reading()
    def trend(self, *, job: OfJob = None, queue: OfQueue = None, span: Span = "1h") -> Plan[Trend]:
        """The data of the dashboard's charts, by interval, compared with the same time the day
        before: finished attempts, durations, pick-up latency and backlog.

        Raises UnknownJob if there is no such job."""
        return trend.read_trend(
            job=job, queue=queue, span=timedelta(seconds=read_duration(span) or 0)
        )

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
