"""Sends an enqueue to the database: one statement, on Rota's connection or the caller's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.config import Config
from rota.jobs import connections
from rota.jobs.batch import Batch, Call
from rota.jobs.handle import R, Run, RunReader
from rota.jobs.registry import Registry
from rota.jobs.sync import store_new, store_new_sync
from rota.postgres.errors import translate
from rota.postgres.runs.enqueue import EnqueueOne, EnqueueStatements
from rota.postgres.sessions.pool import AsyncConn, Conn, Database
from rota.telemetry.parent import triggered_by


class Enqueuer:
    """Sends calls. Opening the database, on the first call, registers the jobs; jobs declared later
    are registered before the next call."""

    def __init__(
        self,
        database: Database,
        config: Config,
        registry: Registry,
        reader: RunReader | None = None,
    ) -> None:
        self.config = config
        self.reader = reader
        self._database = database
        self._registry = registry
        self._statements = EnqueueStatements(database.statements)
        self._many = {True: self._statements.uniform, False: self._statements.mixed}

    async def send(self, call: Call[R]) -> Run[R]:
        """Enqueue one run."""
        statement, parameters = self._one(call)
        connection = call.options.connection
        if connection is not None:
            await self._open()
            rows = await connections.fetch(connection, statement.sql, parameters)
        else:
            with translate():
                async with self._database.connection() as conn:
                    await self._register(conn)
                    rows = await statement.prepared.fetch(conn, parameters, tuple)
        return Run(rows[0][0], call.job, rows[0][1], self.reader, call.decode)

    def send_sync(self, call: Call[R]) -> Run[R]:
        statement, parameters = self._one(call)
        connection = call.options.connection
        if connection is not None:
            self._open_sync()
            rows = connections.fetch_sync(connection, statement.sql, parameters)
        else:
            with translate(), self._database.connection_sync() as conn:
                self._register_sync(conn)
                rows = statement.prepared.fetch_sync(conn, parameters, tuple)
        return Run(rows[0][0], call.job, rows[0][1], self.reader, call.decode)

    async def send_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[Run[R]]:
        """Enqueue all calls or none, 10,000 in a round trip; return the runs in their order."""
        batch = Batch(calls, connection, triggered_by())
        rows: list[Any] = []
        if not batch.parts:
            return []
        if batch.connection is not None:
            await self._open()
            for is_uniform, parameters in batch.parts:
                sql = self._many[is_uniform]
                rows += await connections.fetch(batch.connection, sql, parameters)
        else:
            with translate():
                async with self._database.connection() as conn:
                    await self._register(conn)
                    async with conn.transaction():
                        for is_uniform, parameters in batch.parts:
                            cursor = await conn.execute(self._many[is_uniform], parameters)
                            rows += await cursor.fetchall()
        return self._runs(batch, rows)

    def send_many_sync(self, calls: Iterable[Call[R]], connection: Any = None) -> list[Run[R]]:
        batch = Batch(calls, connection, triggered_by())
        rows: list[Any] = []
        if not batch.parts:
            return []
        if batch.connection is not None:
            self._open_sync()
            for is_uniform, parameters in batch.parts:
                sql = self._many[is_uniform]
                rows += connections.fetch_sync(batch.connection, sql, parameters)
        else:
            with translate(), self._database.connection_sync() as conn:
                self._register_sync(conn)
                with conn.transaction():
                    for is_uniform, parameters in batch.parts:
                        rows += conn.execute(self._many[is_uniform], parameters).fetchall()
        return self._runs(batch, rows)

    def _one(self, call: Call) -> tuple[EnqueueOne, dict[str, Any]]:
        own = {
            "job": call.job,
            "payload": call.payload,
            "validated_by": call.validated_by,
            "triggered_by": triggered_by(),
        }
        options = call.options
        if options.is_plain:
            plain = {"queue": options.queue, "priority": options.priority}
            return self._statements.plain, own | plain
        return self._statements.full, options.parameters | own

    def _runs(self, batch: Batch, rows: list[Any]) -> list[Run]:
        reader = self.reader
        return [
            Run(run_id, call.job, is_duplicate, reader, call.decode)
            for call, (run_id, is_duplicate) in zip(batch.calls, batch.restore(rows), strict=True)
        ]

    async def _open(self) -> None:
        """Open the database, which registers the jobs, although the caller's connection is used."""
        with translate():
            await self._database.open()
            self._database.used()
            if self._registry.has_new:
                async with self._database.connection() as conn:
                    await self._register(conn)

    def _open_sync(self) -> None:
        with translate():
            _ = self._database.url
            self._database.used()
            if self._registry.has_new:
                with self._database.connection_sync() as conn:
                    self._register_sync(conn)

    async def _register(self, conn: AsyncConn) -> None:
        if self._registry.has_new:
            await store_new(conn, self._database.statements, self._registry, self.config)

    def _register_sync(self, conn: Conn) -> None:
        if self._registry.has_new:
            store_new_sync(conn, self._database.statements, self._registry, self.config)
