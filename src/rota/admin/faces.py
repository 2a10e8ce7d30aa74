"""The faces of an application: `app.runs`, `app.schedules`, … Each is imported when it is first
used: a process that only declares and enqueues needs `runs` alone."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.admin.attention import Attention
    from rota.admin.audit import Audit
    from rota.admin.bulk_actions import BulkActions
    from rota.admin.calendars import Calendars
    from rota.admin.clock import Clock
    from rota.admin.doctor import Doctor
    from rota.admin.error_groups import Errors
    from rota.admin.events import Events
    from rota.admin.find import Find
    from rota.admin.jobs import Jobs
    from rota.admin.limits import Limits
    from rota.admin.logs import Logs
    from rota.admin.overview import Overview
    from rota.admin.queues import Queues
    from rota.admin.retention import RetentionFace
    from rota.admin.run_views import RunViews
    from rota.admin.runs import Runs
    from rota.admin.schedules import Schedules
    from rota.admin.stats import Stats
    from rota.admin.tenants import Tenants
    from rota.admin.why import Why
    from rota.admin.workers import Workers
    from rota.config import Config
    from rota.jobs.registry import Registry
    from rota.store.pool import Database


class Faces:
    """What an application is made of, and each of its faces once."""

    config: Config
    registry: Registry
    database: Database
    # What an enqueue answers waits by it, and it owns a thread: there is one from the beginning.
    runs: Runs

    @cached_property
    def clock(self) -> Clock:
        from rota.admin.clock import Clock

        return Clock(self.database)

    @cached_property
    def jobs(self) -> Jobs:
        from rota.admin.jobs import Jobs

        return Jobs(self.database).of(self.registry, self.config)

    @cached_property
    def logs(self) -> Logs:
        from rota.admin.logs import Logs

        return Logs(self.database)

    @cached_property
    def queues(self) -> Queues:
        from rota.admin.queues import Queues

        return Queues(self.database)

    @cached_property
    def limits(self) -> Limits:
        from rota.admin.limits import Limits

        return Limits(self.database)

    @cached_property
    def bulk(self) -> BulkActions:
        from rota.admin.bulk_actions import BulkActions

        return BulkActions(self.database, self.registry)

    @cached_property
    def views(self) -> RunViews:
        from rota.admin.run_views import RunViews

        return RunViews(self.database)

    @cached_property
    def workers(self) -> Workers:
        from rota.admin.workers import Workers

        return Workers(self.database)

    @cached_property
    def tenants(self) -> Tenants:
        from rota.admin.tenants import Tenants

        return Tenants(self.database)

    @cached_property
    def stats(self) -> Stats:
        from rota.admin.stats import Stats

        return Stats(self.database)

    @cached_property
    def schedules(self) -> Schedules:
        from rota.admin.schedules import Schedules

        return Schedules(self.database, self.registry, config=self.config)

    @cached_property
    def calendars(self) -> Calendars:
        from rota.admin.calendars import Calendars

        return Calendars(self.database)

    @cached_property
    def audit(self) -> Audit:
        from rota.admin.audit import Audit

        return Audit(self.database)

    @cached_property
    def retention(self) -> RetentionFace:
        from rota.admin.retention import RetentionFace

        return RetentionFace(self.database).of(self.config)

    @cached_property
    def overview(self) -> Overview:
        from rota.admin.overview import Overview

        return Overview(self.database)

    @cached_property
    def attention(self) -> Attention:
        from rota.admin.attention import Attention

        return Attention(self.database)

    @cached_property
    def find(self) -> Find:
        from rota.admin.find import Find

        return Find(self.database)

    @cached_property
    def doctor(self) -> Doctor:
        from rota.admin.doctor import Doctor

        return Doctor(self.database)

    @cached_property
    def errors(self) -> Errors:
        from rota.admin.error_groups import Errors

        return Errors(self.database)

    @cached_property
    def why(self) -> Why:
        from rota.admin.why import Why

        return Why(self.database)

    @cached_property
    def events(self) -> Events:
        from rota.admin.events import Events

        return Events(self.database, self.registry, self.config, self.runs)
