"""The command groups of a tenant handle, each imported and created on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rota.operations.app_commands import CommandSets

if TYPE_CHECKING:
    from rota.operations.clock import Clock
    from rota.operations.events import Events
    from rota.operations.jobs import Jobs
    from rota.operations.limits import Limits
    from rota.operations.logs.logs import Logs
    from rota.operations.queues.queues import Queues
    from rota.operations.reports.audit import Audit
    from rota.operations.reports.why import Why
    from rota.operations.runs.bulk_actions import BulkActions
    from rota.operations.runs.runs import Runs
    from rota.operations.schedules.calendars import Calendars
    from rota.operations.schedules.schedules import Schedules
    from rota.operations.schedules.templates import Templates
    from rota.operations.workers import Workers


class TenantCommandSets:
    def __init__(self, name: str, faces: CommandSets) -> None:
        self.name = name
        self._faces = faces

    # Restricted to the tenant.

    @cached_property
    def runs(self) -> Runs:
        return self._faces.runs.of_tenant(self.name)

    @cached_property
    def bulk(self) -> BulkActions:
        return self._faces.bulk.of_tenant(self.name)

    @cached_property
    def schedules(self) -> Schedules:
        return self._faces.schedules.of_tenant(self.name)

    @cached_property
    def logs(self) -> Logs:
        return self._faces.logs.of_tenant(self.name)

    @cached_property
    def events(self) -> Events:
        return self._faces.events.of_tenant(self.name)

    @cached_property
    def limits(self) -> Limits:
        return self._faces.limits.of_tenant(self.name)

    @cached_property
    def audit(self) -> Audit:
        return self._faces.audit.of_tenant(self.name)

    @cached_property
    def why(self) -> Why:
        return self._faces.why.of_tenant(self.name)

    @cached_property
    def templates(self) -> Templates:
        """Those of the application, to be read."""
        return self._faces.templates.of_tenant(self.name)

    # Shared by the whole application.

    @property
    def jobs(self) -> Jobs:
        return self._faces.jobs

    @property
    def queues(self) -> Queues:
        return self._faces.queues

    @property
    def workers(self) -> Workers:
        return self._faces.workers

    @property
    def calendars(self) -> Calendars:
        return self._faces.calendars

    @property
    def clock(self) -> Clock:
        return self._faces.clock
