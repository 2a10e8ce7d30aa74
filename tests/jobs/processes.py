"""Processes of an application, old and new code side by side, without starting any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import dict_row

import rota
from rota.jobs.sync import put_others, whole
from tests.conftest import load_config


class Code:
    """One state of an application's code: `Code(url, send={"priority": 1})`."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "shop",
        declare: Callable[[rota.App], object] = lambda app: None,
        release: str | None = None,
        **jobs: dict[str, Any],
    ) -> None:
        self.conn = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self.app = rota.App(name=name, config=load_config(url, {"release": release}))
        declare(self.app)
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
        params = {**self._whole(worker), "is_new": is_new}
        self.conn.execute(self.app.database.statements.get("workers/start"), params)
        self._register(worker)
        return worker

    def _whole(self, worker: int | None = None) -> dict[str, Any]:
        return dict(whole(self.app.registry, self.app.config, worker=worker))

    def _register(self, worker: int | None = None) -> None:
        told = self._whole(worker)
        self.conn.execute(self.app.database.statements.get("jobs/register"), told)
        self.app.database.run_sync(put_others(self.app.registry, told["build"]))

    def look(self, worker: int) -> bool:
        """What a worker does every few seconds; whether it registered again."""
        if not self._one("SELECT rota.must_sync(%s)", worker):
            return False
        self._register(worker)
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
        self._register()

    def job(self, name: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM rota.jobs WHERE name = %s", name)[0]

    def schedule(self, name: str) -> dict[str, Any]:
        return self.rows(
            "SELECT s.*, t.* FROM rota.schedules s JOIN rota.schedule_state t"
            " ON t.schedule_id = s.id WHERE s.name = %s", name,
        )[0]  # fmt: skip

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
