"""Identifies Rota's database, for comparison with the database of a user's connection."""

from __future__ import annotations

import psycopg
from psycopg.pq.abc import PGconn

from rota.postgres.sessions.borrowed import detach
from rota.postgres.sessions.connection import AsyncBoundedConnection, BoundedConnection
from rota.postgres.sessions.session_cache import SessionCache
from rota.postgres.statements import Statements

_SECONDS = 10.0


class SessionIdentity:
    """The identity of the database, read over a kept session and cached with these sessions."""

    def __init__(self, sessions: SessionCache, statements: Statements) -> None:
        self.schema = statements.schema
        self._sessions = sessions
        self._sql = statements.get("session/whose")

    async def get(self, *, is_new: bool = False) -> str:
        if self._sessions.identity is None or is_new:
            try:
                self._sessions.identity = await self._ask(await self._sessions.get())
            except psycopg.OperationalError:
                # An idle session may have ended without notice.
                self._sessions.identity = await self._ask(await self._sessions.get(is_new=True))
        return self._sessions.identity

    def get_sync(self, *, is_new: bool = False) -> str:
        if self._sessions.identity is None or is_new:
            try:
                self._sessions.identity = self._ask_sync(self._sessions.get_sync())
            except psycopg.OperationalError:
                self._sessions.identity = self._ask_sync(self._sessions.get_sync(is_new=True))
        return self._sessions.identity

    async def _ask(self, handle: PGconn) -> str:
        link = AsyncBoundedConnection(handle)
        link.answer_seconds = _SECONDS
        try:
            await link.set_autocommit(True)
            row = await (await link.execute(self._sql, {"schema": self.schema})).fetchone()
        finally:
            self._sessions.put(detach(link))
        assert row is not None
        return str(row[1])

    def _ask_sync(self, handle: PGconn) -> str:
        link = BoundedConnection(handle)
        link.answer_seconds = _SECONDS
        try:
            link.autocommit = True
            row = link.execute(self._sql, {"schema": self.schema}).fetchone()
        finally:
            self._sessions.put(detach(link))
        assert row is not None
        return str(row[1])
