"""The overview."""

from __future__ import annotations

from collections.abc import Collection

from rota.model.durations import read_duration
from rota.model.overview import ComingSchedule, FailingSeconds, MostShown, QueueRate
from rota.model.overview import Overview as Seen
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.reading import reading
from rota.postgres.plans import Plan
from rota.postgres.reports import overview


class OverviewCommands(Commands):
    @reading()
    def get(self, *, limit: MostShown = 50, failing_seconds: FailingSeconds = 300) -> Plan[Seen]:
        """Overview: queues with their throughput, largest backlog first; workers; the
        longest-running attempts, recent failures and their causes, and what is due next. Cheap
        enough to poll every second."""
        seconds = read_duration(failing_seconds) or 0
        return overview.read_overview(limit=limit, failing_seconds=seconds)

    @command
    def coming(self, *, limit: int = 50) -> Plan[list[ComingSchedule]]:
        """The schedules that are due next."""
        return overview.read_coming(limit)

    @command
    def queues(self) -> Plan[list[QueueRate]]:
        """Queues with their rates, largest backlog first."""
        return overview.read_queues()

    @command
    def backlogs(self, queues: Collection[str], *, minutes: int = 60) -> Plan[dict[str, list[int]]]:
        """How many runs waited in each of these queues, by the minute, oldest first."""
        return overview.read_backlogs(queues, minutes)


class Overview(OverviewCommands, AsyncCommands):
    """`app.overview`"""

    @property
    def sync(self) -> SyncOverview:
        return SyncOverview(self.database, self.actor)


class SyncOverview(OverviewCommands, SyncCommands):
    """`app.overview.sync`"""
