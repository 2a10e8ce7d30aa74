"""What time it is, by the one clock that counts."""

from __future__ import annotations

from datetime import datetime

from rota.admin.face import AsyncFace, Face, SyncFace, command
from rota.store import clock
from rota.store.plans import Plan


class ClockCommands(Face):
    @command
    def now(self) -> Plan[datetime]:
        """The database's time, by which runs are due: ages are counted from it."""
        return clock.read_clock()


class Clock(ClockCommands, AsyncFace):
    """`app.clock`"""

    @property
    def sync(self) -> SyncClock:
        return SyncClock(self.database, self.actor)


class SyncClock(ClockCommands, SyncFace):
    """`app.clock.sync`"""
