"""Everything that needs attention."""

from __future__ import annotations

from rota.model.asked import MostOfEach
from rota.model.attention import Attention as Seen
from rota.model.attention import AttentionItem, KindCount
from rota.operations.commands import AsyncCommands, Commands, SyncCommands
from rota.operations.reading import reading
from rota.operations.reports.needs import KINDS
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan


class AttentionCommands(Commands):
    @reading()
    def get(self, *, limit: MostOfEach = 5) -> Plan[Seen]:
        """List what needs attention, most severe first: jobs that fail more than usual, runs that
        no worker takes, workers in trouble, paused queues and tenants, stalled schedules, runs that
        take too long. Each with since when, the reason, and the command to run."""
        return look(limit)


def look(limit: int) -> Plan[Seen]:
    needs: list[AttentionItem] = []
    kinds: list[KindCount] = []
    for kind in KINDS:
        found = yield from kind.find(limit)
        needs += found.needs
        if found.total:
            kinds.append(KindCount(kind.name, kind.subject, kind.state, found.total))
    return Seen(
        at=(yield from read_clock()),
        total=sum(one.count for one in kinds),
        needs=needs,
        kinds=kinds,
    )


class Attention(AttentionCommands, AsyncCommands):
    """`app.attention`"""

    @property
    def sync(self) -> SyncAttention:
        return SyncAttention(self.database, self.actor)


class SyncAttention(AttentionCommands, SyncCommands):
    """`app.attention.sync`"""
