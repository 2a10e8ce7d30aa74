"""The current time, by the database's clock."""

from __future__ import annotations

from datetime import datetime

from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.postgres import clock
from rota.postgres.plans import Plan


class ClockCommands(Commands):
    @command
    def now(self) -> Plan[datetime]:
        """The database's current time, which decides when runs are due."""
        return clock.read_clock()


class Clock(ClockCommands, AsyncCommands):
    """`app.clock`"""

    @property
    def sync(self) -> SyncClock:
        return SyncClock(self.database, self.actor)


class SyncClock(ClockCommands, SyncCommands):
    """`app.clock.sync`"""
