"""Old lines get the index of their words: one at a time, whatever happens to whoever builds it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.logs.log_indexes import LogIndexes
from rota.testing import eventually
from tests.loglines import make_partitions, write
from tests.sql_engine import Engine

DAY = 86_400.0


@pytest.fixture
async def indexes(app: rota.App) -> LogIndexes:
    await app.database.open()
    return LogIndexes(app.database)


def built(engine: Engine) -> list[tuple[str, bool]]:
    rows = engine.rows(
        "SELECT c.relname, i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE c.relname LIKE 'logs_%%_words_%%' ORDER BY 1"
    )
    return [(row["relname"], row["indisvalid"]) for row in rows]


async def until_built(indexes: LogIndexes) -> None:
    """Not at the first try where the server's own upkeep is at the table just then."""

    async def is_built() -> bool:
        return await indexes.run_once() == 0

    await eventually(is_built)


async def test_ended_days_are_indexed_the_open_one_is_not(
    indexes: LogIndexes, engine: Engine
) -> None:
    make_partitions(engine.conn, 4)
    for days in (0, 2, 3):
        write(engine.conn, "words", days * DAY, run=days + 1)
    await until_built(indexes)
    await until_built(indexes)
    assert await indexes.run_once() == 60
    assert [is_valid for _, is_valid in built(engine)] == [True, True]
    spans = "SELECT count(*) FROM rota.searchable_spans(NULL, NULL) WHERE is_indexed"
    assert engine.one(spans) == 2


async def test_a_large_open_day_is_cut_into_spans(app: rota.App, engine: Engine) -> None:
    await app.database.open()
    engine.conn.execute("SELECT rota.set_clock(date_trunc('day', now()) + interval '30 days 12 h')")
    make_partitions(engine.conn, 1)
    small = LogIndexes(app.database, least_bytes=8192)
    write(engine.conn, "first", 3600, run=1)
    await until_built(small)
    assert await small.run_once() == 60
    engine.conn.execute("SELECT rota.set_clock(rota.now() + interval '1 hour')")
    for n in range(200):
        write(engine.conn, "second", 600, run=2, seq=n + 1)
    await until_built(small)
    assert await small.run_once() == 60
    assert len(built(engine)) == 2
    write(engine.conn, "late", 4000, run=3)
    write(engine.conn, "now", 0, run=4)
    for word, count in (("first", 1), ("second", 200), ("late", 1), ("now", 1)):
        page = await app.logs.search(word, patience_seconds=60, limit=500)
        assert len(page.lines) == count, word
    # The day ends: the rest gets its index, and nothing is left without.
    engine.conn.execute("SELECT rota.set_clock(rota.now() + interval '1 day')")
    await until_built(small)
    assert await small.run_once() == 60
    assert [is_valid for _, is_valid in built(engine)] == [True] * 3
    assert (
        engine.one(
            "SELECT count(*) FROM rota.searchable_spans(NULL, rota.now() - interval '1 day')"
            " WHERE NOT is_indexed AND to_at > rota.now() - interval '1 day'"
        )
        == 0
    )


async def test_what_a_crash_left_half_built_is_built_again(
    indexes: LogIndexes, engine: Engine
) -> None:
    make_partitions(engine.conn, 3)
    write(engine.conn, "words", 2 * DAY)
    await until_built(indexes)
    ((name, _),) = built(engine)
    engine.conn.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [f"rota.{name}"]
    )
    assert await indexes.run_once() == 60  # it may be under way
    assert built(engine) == [(name, False)]
    await until_built(indexes)
    assert built(engine) == [(name, True)]


async def test_one_that_somebody_builds_is_left_alone(
    indexes: LogIndexes, engine: Engine, connect: Any
) -> None:
    make_partitions(engine.conn, 3)
    write(engine.conn, "words", 2 * DAY)
    await until_built(indexes)
    ((name, _),) = built(engine)
    engine.conn.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [f"rota.{name}"]
    )
    other = connect(autocommit=False)
    other.execute(f"LOCK TABLE rota.{name.split('_words')[0]} IN SHARE UPDATE EXCLUSIVE MODE")
    assert await indexes.run_once() == 60
    assert await indexes.run_once() == 60
    assert built(engine) == [(name, False)]
    other.rollback()
    await until_built(indexes)


async def test_two_workers_build_it_once(app: rota.App, engine: Engine) -> None:
    await app.database.open()
    make_partitions(engine.conn, 3)
    write(engine.conn, "words", 2 * DAY)
    workers = [LogIndexes(app.database) for _ in range(2)]
    await asyncio.gather(*(worker.run_once() for worker in workers))
    for worker in [*workers, *workers]:
        await worker.run_once()
    assert [is_valid for _, is_valid in built(engine)] == [True]


async def test_lines_are_written_while_it_waits(
    indexes: LogIndexes, engine: Engine, connect: Any
) -> None:
    """An old transaction holds the build back, and nothing else."""
    make_partitions(engine.conn, 3)
    write(engine.conn, "words", 2 * DAY)
    old: psycopg.Connection[Any] = connect(autocommit=False)
    write(old, "not yet", 2 * DAY, run=9)
    building = asyncio.create_task(indexes.run_once())
    waits = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'rota log indexes'"
        " AND wait_event_type = 'Lock'"
    )
    await eventually(lambda: engine.one(waits) == 1)
    write(engine.conn, "late", 2 * DAY, run=2)
    write(engine.conn, "new", 0, run=3)
    old.rollback()
    assert await building == 0
    assert built(engine)[0][1] is True


async def test_a_dropped_partition_takes_its_span_along(
    indexes: LogIndexes, engine: Engine
) -> None:
    make_partitions(engine.conn, 3)
    write(engine.conn, "words", 2 * DAY)
    await until_built(indexes)
    ((name, _),) = built(engine)
    engine.conn.execute(f"DROP TABLE rota.{name.split('_words')[0]}")
    assert await indexes.run_once() == 60
    assert engine.one("SELECT count(*) FROM rota.log_spans") == 0


async def test_a_huge_line_does_not_stop_the_index(indexes: LogIndexes, engine: Engine) -> None:
    make_partitions(engine.conn, 3)
    many = " ".join(f"w{n:x}q{n * 7:x}" for n in range(120_000))
    write(engine.conn, many, 2 * DAY, fields={"many": many, "long": "y" * 5000})
    await until_built(indexes)
    assert built(engine)[0][1] is True
