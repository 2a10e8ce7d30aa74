"""Shared code for users' connections in `ctx.transaction(…)`.

The session remains the user's: settings for the run apply to its transaction only, and nothing is
reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.engine.executors.attempt_session import AttemptSession
from rota.engine.executors.ending import Rows, carry_out, carry_out_sync
from rota.engine.executors.ending import Steps as Steps
from rota.engine.executors.own import check_same
from rota.errors import JobError
from rota.postgres.sessions import handlers
from rota.postgres.sessions.connection import shut
from rota.postgres.sessions.identity import SessionIdentity
from rota.postgres.statements import Statements


class Terms:
    """The statements on a user's connection, before and after those of the handler."""

    def __init__(
        self, statements: Statements, lending: AttemptSession, identity: SessionIdentity
    ) -> None:
        self.identity = identity
        self._statements = statements
        self._lending = lending
        self._moment: Any = None
        self._database = ""
        self.is_strict = False

    def begin(self) -> Steps:
        lending = self._lending
        rows = yield handlers.join(self._statements, name=lending.name, idle=lending.idle)
        self._moment = rows[0][-1]
        rows = yield handlers.whose(self._statements)
        moment, self._database, may_finish, role, self.is_strict = rows[0]
        if moment != self._moment:
            raise JobError(
                "this connection commits each statement by itself, so no transaction can be held",
                hint="turn autocommit off for the engine, or pass another one",
            )
        self._may_finish, self._role = may_finish, role

    def check(self, identity: str) -> bool:
        """Return whether it is Rota's own database; raise JobError if its role cannot end runs
        there."""
        if self._database != identity:
            return False
        if not self._may_finish:
            schema = self._statements.schema
            raise JobError(
                f"role {self._role} of this connection cannot finish runs in schema {schema}",
                hint="grant it the privileges of a worker's role",
            )
        return True

    def end(self) -> Steps:
        yield handlers.settle(self._statements)
        rows = yield handlers.leave(self._statements, idle=self._lending.idle)
        check_same(self._moment, rows[0][-1])
        yield handlers.mark(self._statements)


def elsewhere(schema: str) -> JobError:
    return JobError(
        "this connection is to a different database than Rota's, so its writes cannot "
        "commit together with the completion of its run",
        hint=f"pass a pool, engine, session or connection of the database that has schema {schema}",
    )


class AsyncGuest:
    """A kind of source of connections: how it is opened, queried, committed and closed."""

    def __init__(self, source: Any, terms: Terms) -> None:
        self.source = source
        self._terms = terms

    async def begin(self) -> None:
        await self.open()
        await carry_out(self._terms.begin(), self.fetch)
        identity = self._terms.identity
        if not self._terms.check(await identity.get()) and not self._terms.check(
            await identity.get(is_new=True)  # the server may have been restarted
        ):
            raise elsewhere(identity.schema)

    @property
    def is_strict(self) -> bool:
        return self._terms.is_strict

    async def settle(self) -> None:
        await self.flush()
        await carry_out(self._terms.end(), self.fetch)

    async def open(self) -> None:
        raise NotImplementedError

    async def flush(self) -> None:
        """Send pending writes of an ORM."""

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        raise NotImplementedError


class Guest:
    """The same for handlers in a thread or a process."""

    def __init__(self, source: Any, terms: Terms) -> None:
        self.source = source
        self._terms = terms
        self.driver: Any = None

    def begin(self) -> None:
        self.open()
        carry_out_sync(self._terms.begin(), self.fetch)
        identity = self._terms.identity
        if not self._terms.check(identity.get_sync()) and not self._terms.check(
            identity.get_sync(is_new=True)
        ):
            raise elsewhere(identity.schema)

    @property
    def is_strict(self) -> bool:
        return self._terms.is_strict

    def settle(self) -> None:
        self.flush()
        carry_out_sync(self._terms.end(), self.fetch)

    def open(self) -> None:
        """Open the transaction, and set `driver` to the driver's connection."""
        raise NotImplementedError

    def flush(self) -> None: ...

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        raise NotImplementedError

    def abandon(self) -> None:
        if self.driver is not None:
            shut(self.driver)
