from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from rota.config import Config
from rota.jobs.decorator import JobDecorator
from rota.jobs.enqueue import Enqueuer
from rota.jobs.registry import Registry
from rota.jobs.sync import store_new_sync
from rota.postgres.sessions.pool import Database
from tests.jobs.processes import Code

MakeCode = Callable[..., Code]


@dataclass
class Setting:
    """The parts of an application that declare and enqueue, over a database without runs."""

    url: str
    config: Config
    registry: Registry
    enqueuer: Enqueuer
    job: JobDecorator
    database: Database

    def runs(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM rota.runs ORDER BY id")

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as conn:
            cursor = conn.execute(sql)
            return cursor.fetchall() if cursor.description else []


def make_setting(url: str, **overrides: Any) -> Setting:
    config = Config.load(env={}, **overrides)
    registry = Registry()

    def on_open(conn: psycopg.Connection[Any]) -> None:
        store_new_sync(conn, database.statements, registry, config)

    database = Database(schema=config.schema, prepare=lambda: url, on_open=on_open)
    enqueuer = Enqueuer(database, config, registry)
    return Setting(url, config, registry, enqueuer, JobDecorator(registry, enqueuer), database)


@pytest.fixture
async def setting(database_url: str) -> AsyncIterator[Setting]:
    setting = make_setting(database_url)
    yield setting
    await setting.database.close()


@pytest.fixture
def code(database_url: str) -> Iterator[MakeCode]:
    made: list[Code] = []

    def make(**arguments: Any) -> Code:
        made.append(Code(database_url, **arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()
