"""Explanations of why something does not run, or what happened to it, for runs, schedules, jobs and
queues."""

from __future__ import annotations

from typing import get_args

from rota.errors import FilterError
from rota.model.why import Kind
from rota.model.why import Why as Answer
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.scope import Scope, expect_run
from rota.postgres.plans import Plan
from rota.postgres.reports.why import ask_why

KINDS: tuple[str, ...] = get_args(Kind)


class WhyCommands(Commands):
    scope = Scope(takes=frozenset({"ask"}))

    @command
    def ask(
        self, subject: str | int, *, kind: Kind | None = None, tenant: str = ""
    ) -> Plan[Answer]:
        """The reasons in order. A number is a run id; a name is a schedule, else a job, else a
        queue, unless `kind` is given. `tenant` is the tenant of the schedule."""
        if kind is not None and kind not in KINDS:
            raise FilterError(f"unknown kind {kind!r}; choose from {', '.join(KINDS)}")
        return self._ask(str(subject), kind, tenant)

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
        return await self.ask(subject, kind=kind, tenant=tenant)


class SyncWhy(WhyCommands, SyncCommands):
    """`app.why.sync(…)`"""

    def __call__(self, subject: str | int, *, kind: Kind | None = None, tenant: str = "") -> Answer:
        return self.ask(subject, kind=kind, tenant=tenant)
