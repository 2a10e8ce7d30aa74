"""The overview."""

from __future__ import annotations

from rota.model.overview import ComingSchedule, QueueRate
from rota.model.overview import Overview as Seen
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.reports import overview


class OverviewCommands(Commands):
    @command
    def get(self, *, limit: int = 50, failing_seconds: float = 300) -> Plan[Seen]:
        """Queues with their rates, workers, longest-running attempts, recent failures and upcoming
        schedules; `limit` applies to the last three."""
        return overview.read_overview(limit=limit, failing_seconds=failing_seconds)

    @command
    def coming(self, *, limit: int = 50) -> Plan[list[ComingSchedule]]:
        """The schedules that are due next."""
        return overview.read_coming(limit)

    @command
    def queues(self) -> Plan[list[QueueRate]]:
        """Queues with their rates, largest backlog first."""
        return overview.read_queues()


class Overview(OverviewCommands, AsyncCommands):
    """`app.overview`"""

    @property
    def sync(self) -> SyncOverview:
        return SyncOverview(self.database, self.actor)


class SyncOverview(OverviewCommands, SyncCommands):
    """`app.overview.sync`"""
