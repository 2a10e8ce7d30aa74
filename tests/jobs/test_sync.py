from __future__ import annotations

from typing import Any

import psycopg

from rota.jobs.sync import register, register_sync
from rota.model.backoff import Backoff
from tests.jobs.conftest import Setting, make_setting


def store(setting: Setting) -> list[str]:
    with psycopg.connect(setting.url, autocommit=True) as conn:
        return register_sync(conn, setting.database.statements, setting.registry, setting.config)


def declare(setting: Setting, **arguments: Any) -> None:
    @setting.job(name="a", **arguments)
    def handler(n: int, ü: str = "ö") -> None:
        """Does it."""

    @setting.job(name="b")
    def other() -> None: ...


async def test_a_definition_becomes_a_row(setting: Setting) -> None:
    backoff = Backoff(base=3)
    declare(setting, queue="q", timeout=0.1, backoff=backoff, tags=["x"], metadata={"y": 1})
    assert sorted(store(setting)) == ["a", "b"]
    first, second = setting.rows("SELECT * FROM rota.jobs WHERE NOT is_system ORDER BY name")
    definition = setting.registry.get("a")
    expected = {
        "description": "Does it.",
        "queue": "q",
        "priority": 5,
        "max_attempts": setting.config.runs.max_attempts,
        "backoff": backoff.to_json(),
        "executor": "thread",
        "payload_schema": definition.schema.json_schema,
        "tags": ["x"],
        "metadata": {"y": 1},
        "source": definition.source,
    }
    assert {name: first[name] for name in expected} == expected
    assert (second["backoff"], second["timeout_seconds"], second["queue"]) == (
        None,
        None,
        "default",
    )


async def test_nothing_is_written_when_nothing_changed(setting: Setting) -> None:
    declare(setting, timeout=0.1)
    store(setting)
    before = setting.rows(
        "SELECT name, xmin, xmax FROM rota.jobs WHERE NOT is_system ORDER BY name"
    )
    assert store(setting) == []
    assert (
        setting.rows("SELECT name, xmin, xmax FROM rota.jobs WHERE NOT is_system ORDER BY name")
        == before
    )


async def test_only_what_changed_is_written(setting: Setting) -> None:
    declare(setting)
    store(setting)
    newer = make_setting(setting.url)
    declare(newer, priority=1, backoff=lambda attempt: 1)
    assert store(newer) == ["a"]
    row, _ = setting.rows(
        "SELECT priority, backoff FROM rota.jobs WHERE NOT is_system ORDER BY name"
    )
    assert row == {"priority": 1, "backoff": None}


async def test_the_async_way_is_the_same(setting: Setting) -> None:
    declare(setting)
    async with setting.database.connection() as conn:
        setting.rows("DELETE FROM rota.jobs WHERE NOT is_system")
        definitions, config = setting.registry, setting.config
        written = await register(conn, setting.database.statements, definitions, config)
    assert sorted(written) == ["a", "b"]


async def test_the_largest_payload_holds_for_plain_sql_too(setting: Setting) -> None:
    limited = make_setting(setting.url, **{"runs.payload_bytes": 2048})
    store(limited)
    assert setting.rows("SELECT payload_bytes FROM rota.settings") == [{"payload_bytes": 2048}]
    store(setting)
    assert setting.rows("SELECT payload_bytes FROM rota.settings") == [{"payload_bytes": 1048576}]
