"""Explanations of why something does not run, or what happened to it, for runs, schedules, jobs and
queues."""

from __future__ import annotations

from rota.errors import FilterError
from rota.model.why import Kind, KindOf, Subject, TenantOf
from rota.model.why import Why as Answer
from rota.operations.commands import AsyncCommands, Commands, SyncCommands
from rota.operations.reading import reading
from rota.operations.scope import Scope, expect_run
from rota.postgres.plans import Plan
from rota.postgres.reports.why import ask_why


class WhyCommands(Commands):
    scope = Scope(takes=frozenset({"ask"}))

    @reading(FilterError)
    def ask(self, subject: Subject, *, kind: KindOf = None, tenant: TenantOf = "") -> Plan[Answer]:
        """Explain why a run, schedule, job or queue is not running, or what happened to it: the
        reasons in order, in plain words, with the command that would change each."""
        return self._ask(subject, kind, tenant)

    def _ask(self, subject: str, kind: Kind | None, tenant: str) -> Plan[Answer]:
        if self.tenant is not None and kind in (None, "run") and subject.isdecimal():
            yield from expect_run(subject, self.tenant)
        return (yield from ask_why(subject, kind=kind, tenant=tenant))


class Why(WhyCommands, AsyncCommands):
    """`await app.why(…)`"""

    @property
    def sync(self) -> SyncWhy:
        return SyncWhy(self.database, self.actor).of_tenant(self.tenant)

    async def __call__(
        self, subject: str | int, *, kind: Kind | None = None, tenant: str = ""
    ) -> Answer:
        return await self.ask(str(subject), kind=kind, tenant=tenant)


class SyncWhy(WhyCommands, SyncCommands):
    """`app.why.sync(…)`"""

    def __call__(self, subject: str | int, *, kind: Kind | None = None, tenant: str = "") -> Answer:
        return self.ask(str(subject), kind=kind, tenant=tenant)
