"""Search for records by name or id."""

from __future__ import annotations

from rota.errors import FilterError
from rota.model.hit import Hit
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.reports import find

Hits = list[Hit]
MOST_TEXT = 200


class FindCommands(Commands):
    @command
    def named(self, text: str, *, limit: int = 8) -> Plan[Hits]:
        """Find runs by id or key, then schedules, jobs, queues and workers whose name contains the
        text, ignoring case; at most `limit` of each."""
        wanted = text.replace("\0", "").strip()
        if not wanted or len(wanted) > MOST_TEXT:
            raise FilterError(f"the search text must have 1 to {MOST_TEXT} characters")
        if not 1 <= limit <= 100:
            raise FilterError(f"limit must be from 1 to 100, not {limit}")
        return find.find(wanted, limit)


class Find(FindCommands, AsyncCommands):
    """`app.find`"""

    @property
    def sync(self) -> SyncFind:
        return SyncFind(self.database, self.actor)


class SyncFind(FindCommands, SyncCommands):
    """`app.find.sync`"""
