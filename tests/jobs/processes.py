"""Processes of an application, old and new code side by side, without starting any."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

import rota
from rota.jobs.sync import whole
from tests.conftest import load_config


class Code:
    """One state of an application's code: `Code(url, send={"priority": 1})`."""

    def __init__(self, url: str, *, name: str = "shop", **jobs: dict[str, Any]) -> None:
        self.conn = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self.app = rota.App(name=name, config=load_config(url, {}))
        for job, arguments in jobs.items():
            self._declare(job, arguments)

    def _declare(self, job: str, arguments: dict[str, Any]) -> None:
        @self.app.job(name=job, **arguments)
        def handler(n: int = 1) -> None: ...

    def open(self) -> Code:
        """A process that only enqueues."""
        self.app.database.open_sync()
        return self

    def work(self, *, is_new: bool = True) -> int:
        """A worker starts."""
        self.open()
        worker = int(
            self._one(
                "SELECT rota.register_worker('w', 'h', 1, '', '{}', %s, 1, 60)",
                self.app.registry.names(),
            )
        )
        params = {
            **whole(self.app.registry, self.app.config, worker=worker),
            "is_new": is_new,
            "release": None,
        }
        get = self.app.database.statements.get
        self.conn.execute(get("workers/start"), params)
        self.conn.execute(get("jobs/register"), params)
        return worker

    def look(self, worker: int) -> bool:
        """What a worker does every few seconds; whether it registered again."""
        if not self._one("SELECT rota.must_sync(%s)", worker):
            return False
        params = whole(self.app.registry, self.app.config, worker=worker)
        self.conn.execute(self.app.database.statements.get("jobs/register"), params)
        return True

    def end(self, worker: int, *, state: str = "gone", ago: str = "1 hour") -> None:
        """It ended so long ago that nobody waits for its return."""
        self.conn.execute(
            "UPDATE rota.workers SET state = %s, ended_at = clock_timestamp() - %s::interval"
            " WHERE id = %s",
            [state, ago, worker],
        )

    def sync(self) -> None:
        """`rota jobs sync`, where no worker runs."""
        self.open()
        params = whole(self.app.registry, self.app.config)
        self.conn.execute(self.app.database.statements.get("jobs/register"), params)

    def job(self, name: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM rota.jobs WHERE name = %s", name)[0]

    def schedule(self, name: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM rota.schedules WHERE name = %s", name)[0]

    def is_deleted(self, name: str) -> bool:
        return self.job(name)["deleted_from_code_at"] is not None

    def rows(self, query: str, *params: Any) -> list[dict[str, Any]]:
        cursor = self.conn.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []

    def _one(self, query: str, *params: Any) -> Any:
        (row,) = self.rows(query, *params)
        return next(iter(row.values()))

    def close(self) -> None:
        self.conn.close()
        self.app.close_sync()
