"""Django's connections: `django.db.connection`, or one of `django.db.connections`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rota.engine.executors.ending import Rows
from rota.engine.executors.guests.base import Guest, Terms
from rota.errors import JobError
from rota.postgres.sessions.drivers import fetch_django
from rota.telemetry.logger import get_logger


class DjangoConnection(Guest):
    """Django binds a connection to its thread, and refuses `commit()` inside `atomic()`."""

    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._outer: Any = None
        self._is_committed = False

    def open(self) -> None:
        conn = self.source
        if conn.vendor != "postgresql":
            raise JobError(f"Django's connection is to {conn.vendor}, not to PostgreSQL")
        if conn.in_atomic_block:
            raise JobError(
                "Django's connection is already in a transaction, which would commit without the "
                "completion",
                hint="enter ctx.transaction_sync() outside of atomic()",
            )
        conn.close_if_unusable_or_obsolete()
        outer = self._atomic()
        outer.__enter__()
        self._outer = outer
        self.driver = conn.connection
        conn.on_commit(self._committed)  # before all other callbacks

    def _atomic(self) -> Any:
        return sys.modules["django.db"].transaction.atomic(using=self.source.alias)

    def _committed(self) -> None:
        self._is_committed = True

    @contextmanager
    def block(self) -> Iterator[Any]:
        with self._atomic():
            yield self.source

    def flush(self) -> None:
        if self.source.needs_rollback:
            raise JobError("the handler made Django roll back, so its run cannot be completed")

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return fetch_django(self.source, sql, parameters)

    def commit(self) -> None:
        outer, self._outer = self._outer, None
        try:
            outer.__exit__(None, None, None)
        except Exception as error:
            if not self._is_committed:
                raise
            # A callback of on_commit() failed: the run has succeeded all the same.
            get_logger("worker").error("an on_commit callback failed", error=error)

    def close(self) -> None:
        self.driver = None
        outer, self._outer = self._outer, None
        if outer is not None:
            outer.__exit__(JobError, JobError("rolled back"), None)
        self.source.close_if_unusable_or_obsolete()
