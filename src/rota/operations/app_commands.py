"""The command sets of an application: `app.runs`, `app.schedules`, … Each is imported on first use:
a process that only declares and enqueues needs only `runs`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.config import Config
    from rota.jobs.registry import Registry
    from rota.operations.cleanup import Cleanup
    from rota.operations.clock import Clock
    from rota.operations.events import Events
    from rota.operations.jobs import Jobs
    from rota.operations.limits import Limits
    from rota.operations.logs.logs import Logs
    from rota.operations.queues.queues import Queues
    from rota.operations.reports.attention import Attention
    from rota.operations.reports.audit import Audit
    from rota.operations.reports.doctor import Doctor
    from rota.operations.reports.find import Find
    from rota.operations.reports.overview import Overview
    from rota.operations.reports.stats import Stats
    from rota.operations.reports.why import Why
    from rota.operations.retention import RetentionPasses
    from rota.operations.runs.bulk_actions import BulkActions
    from rota.operations.runs.error_groups import Errors
    from rota.operations.runs.runs import Runs
    from rota.operations.runs.views import RunViews
    from rota.operations.schedules.calendars import Calendars
    from rota.operations.schedules.schedules import Schedules
    from rota.operations.schedules.templates import Templates
    from rota.operations.tenants.tenants import Tenants
    from rota.operations.watches import Watches
    from rota.operations.workers import Workers
    from rota.postgres.sessions.pool import Database


class CommandSets:
    """The command sets of an application: `app.runs`, `app.schedules`, … Each is created on first
    use."""

    config: Config
    registry: Registry
    database: Database
    # Created at once, not on first use: the result of an enqueue waits by it, and it owns a thread.
    runs: Runs

    @cached_property
    def clock(self) -> Clock:
        from rota.operations.clock import Clock

        return Clock(self.database)

    @cached_property
    def jobs(self) -> Jobs:
        from rota.operations.jobs import Jobs

        return Jobs(self.database).of(self.registry, self.config)

    @cached_property
    def logs(self) -> Logs:
        from rota.operations.logs.logs import Logs

        return Logs(self.database)

    @cached_property
    def queues(self) -> Queues:
        from rota.operations.queues.queues import Queues

        return Queues(self.database)

    @cached_property
    def limits(self) -> Limits:
        from rota.operations.limits import Limits

        return Limits(self.database)

    @cached_property
    def bulk(self) -> BulkActions:
        from rota.operations.runs.bulk_actions import BulkActions

        return BulkActions(self.database, self.registry)

    @cached_property
    def views(self) -> RunViews:
        from rota.operations.runs.views import RunViews

        return RunViews(self.database)

    @cached_property
    def workers(self) -> Workers:
        from rota.operations.workers import Workers

        return Workers(self.database)

    @cached_property
    def tenants(self) -> Tenants:
        from rota.operations.tenants.tenants import Tenants

        return Tenants(self.database)

    @cached_property
    def stats(self) -> Stats:
        from rota.operations.reports.stats import Stats

        return Stats(self.database)

    @cached_property
    def schedules(self) -> Schedules:
        from rota.operations.schedules.schedules import Schedules

        return Schedules(self.database, self.registry, config=self.config)

    @cached_property
    def calendars(self) -> Calendars:
        from rota.operations.schedules.calendars import Calendars

        return Calendars(self.database)

    @cached_property
    def templates(self) -> Templates:
        from rota.operations.schedules.templates import Templates

        return Templates(self.database)

    @cached_property
    def cleanup(self) -> Cleanup:
        from rota.operations.cleanup import Cleanup

        return Cleanup(self.database)

    @cached_property
    def watches(self) -> Watches:
        from rota.operations.watches import Watches

        return Watches(self.database)

    @cached_property
    def audit(self) -> Audit:
        from rota.operations.reports.audit import Audit

        return Audit(self.database)

    @cached_property
    def retention(self) -> RetentionPasses:
        from rota.operations.retention import RetentionPasses

        return RetentionPasses(self.database).of(self.config)

    @cached_property
    def overview(self) -> Overview:
        from rota.operations.reports.overview import Overview

        return Overview(self.database)

    @cached_property
    def attention(self) -> Attention:
        from rota.operations.reports.attention import Attention

        return Attention(self.database)

    @cached_property
    def find(self) -> Find:
        from rota.operations.reports.find import Find

        return Find(self.database)

    @cached_property
    def doctor(self) -> Doctor:
        from rota.operations.reports.doctor import Doctor

        return Doctor(self.database)

    @cached_property
    def errors(self) -> Errors:
        from rota.operations.runs.error_groups import Errors

        return Errors(self.database)

    @cached_property
    def why(self) -> Why:
        from rota.operations.reports.why import Why

        return Why(self.database)

    @cached_property
    def events(self) -> Events:
        from rota.operations.events import Events
        from rota.operations.runs.reader import HandleReader

        return Events(self.database, self.registry, self.config, HandleReader(self.runs))
