"""Everything that needs attention."""

from __future__ import annotations

from rota.model.attention import Attention as Seen
from rota.model.attention import KindCount, Need
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.reports.needs import KINDS
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan


class AttentionCommands(Commands):
    @command
    def get(self, *, limit: int = 5) -> Plan[Seen]:
        """Failing jobs, jobs without a worker, failing workers, paused queues and tenants, blocked
        schedules, slow runs: the most severe first, at most `limit` of each kind."""
        return look(limit)


def look(limit: int) -> Plan[Seen]:
    needs: list[Need] = []
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
