"""What schedules may require, by plain SQL: what exists, and never themselves, in whatever order
and by however many connections it is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from tests.scheduling import Schedules
from tests.sql_engine import Engine

pytestmark = pytest.mark.commits  # which is when they are checked
Connection = psycopg.Connection[Any]
_CYCLE = "the requirements of schedules form a cycle: "


def requires(*names: str) -> str:
    return json.dumps([{"name": name} for name in names])


def add(conn: Connection, name: str, *required: str, job: str = "work", **columns: Any) -> None:
    given = {"name": name, "job": job, "interval_seconds": 60, "requires": requires(*required)}
    Engine(conn)._insert("schedules", given | columns)


def require(conn: Connection, name: str, *required: str) -> None:
    conn.execute(
        "UPDATE rota.schedules SET requires = %s WHERE name = %s", [requires(*required), name]
    )


def refused(conn: Connection, told: str, write: Callable[[], object]) -> None:
    with pytest.raises(psycopg.Error) as raised:
        write()
    assert raised.value.sqlstate == "RO002"
    assert told in str(raised.value)


@pytest.fixture
def db(engine: Engine) -> Connection:
    engine.job("other")
    for name in ("a", "b", "c"):
        add(engine.conn, name)
    return engine.conn


def test_what_is_unknown_is_refused(db: Connection) -> None:
    told = 'requires "nothing": no schedule or job has that name'
    refused(db, told, lambda: add(db, "d", "a", "nothing"))
    refused(db, told, lambda: require(db, "a", "nothing"))
    db.execute("INSERT INTO rota.tenants (name) VALUES ('acme')")
    add(db, "theirs", tenant="acme")
    refused(db, '"theirs"', lambda: require(db, "a", "theirs"))
    assert db.execute("SELECT FROM rota.schedules WHERE requires <> '[]'").fetchall() == []


def test_an_edit_of_what_code_declares_is_looked_at_too(db: Connection) -> None:
    add(db, "declared", "a", origin="code", code=json.dumps({"requires": [{"name": "a"}]}))
    refused(db, '"nothing"', lambda: require(db, "declared", "nothing"))
    refused(db, _CYCLE, lambda: require(db, "declared", "declared"))


def test_a_schedule_cannot_require_itself(db: Connection) -> None:
    refused(db, f"{_CYCLE}a → a", lambda: require(db, "a", "a"))
    refused(db, f"{_CYCLE}d → d", lambda: add(db, "d", "d"))
    refused(db, f"{_CYCLE}a → a", lambda: require(db, "a", "work"))  # its job


def test_a_way_back_is_refused_and_told(db: Connection) -> None:
    require(db, "a", "b")
    refused(db, f"{_CYCLE}b → a → b", lambda: require(db, "b", "a"))
    require(db, "b", "c")
    refused(db, f"{_CYCLE}c → a → b → c", lambda: require(db, "c", "a"))
    require(db, "a", "b", "c")  # two ways to one are none back


def test_a_job_stands_for_its_schedules(db: Connection) -> None:
    add(db, "d", "a", job="other")
    refused(db, f"{_CYCLE}a → d → a", lambda: require(db, "a", "other"))
    require(db, "d")
    require(db, "a", "other")
    refused(db, _CYCLE, lambda: add(db, "e", "a", job="other"))
    add(db, "e", "a")
    move = "UPDATE rota.schedules SET job = 'other' WHERE name = 'e'"
    refused(db, f"{_CYCLE}e → a → e", lambda: db.execute(move))


def test_a_name_that_closes_a_cycle_is_refused(db: Connection) -> None:
    """A name of a schedule goes before that of a job."""
    add(db, "d", "a")
    require(db, "a", "other")
    rename = "UPDATE rota.schedules SET name = 'other' WHERE name = 'd'"
    refused(db, _CYCLE, lambda: db.execute(rename))


def test_in_one_transaction_the_order_does_not_matter(db: Connection) -> None:
    with db.transaction():
        add(db, "first", "second")
        add(db, "second")
        require(db, "a", "b")
        require(db, "b", "a")
        require(db, "b")
    found = db.execute("SELECT name FROM rota.schedules WHERE requires <> '[]' ORDER BY 1")
    assert found.fetchall() == [("a",), ("first",)]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_two_transactions_cannot_make_the_halves_of_a_cycle(
    db: Connection, connect: Callable[..., Connection], level: str
) -> None:
    one, two = connect(autocommit=False), connect(autocommit=False)
    for half in (one, two):
        half.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        half.execute("SELECT count(*) FROM rota.schedules")
    require(one, "a", "b")
    require(two, "b", "a")
    one.commit()
    with pytest.raises(psycopg.Error) as raised:
        two.commit()
    assert raised.value.sqlstate in ("RO002", "40001")
    found = db.execute("SELECT name FROM rota.schedules WHERE requires <> '[]'").fetchall()
    assert found == [("a",)]


def test_nobody_waits_for_an_open_edit_of_requirements(
    db: Connection, connect: Callable[..., Connection]
) -> None:
    held = connect(autocommit=False)
    require(held, "a", "b")
    db.execute("SET lock_timeout = '20s'")
    require(db, "c", "b")
    held.commit()


BAD = {
    "unknown": ('[{"name": "nothing"}]', 'requires "nothing": no schedule or job has that name'),
    "itself": ('[{"name": "s"}]', f"{_CYCLE}s → s"),
    "a cycle": ('[{"name": "t"}]', f"{_CYCLE}s → t → s"),
}


@pytest.mark.parametrize("bad", BAD)
async def test_what_was_written_past_the_check_is_parked_and_stops_no_other(
    app: rota.App, engine: Engine, bad: str
) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    wanted, told = BAD[bad]
    schedules.add()
    schedules.add("good")
    schedules.add("t", requires='[{"name": "s"}]')
    engine.rows("ALTER TABLE rota.schedules DISABLE TRIGGER schedules_requires")
    schedules.update(requires=wanted)
    engine.rows("ALTER TABLE rota.schedules ENABLE TRIGGER schedules_requires")
    await schedules.tick(seconds=61)
    assert schedules.row()["error"] == told
    assert schedules.row()["parked_at"] is not None
    assert len(schedules.runs("good")) == 1
    schedules.update(requires="[]")
    await schedules.tick(seconds=121)
    assert len(schedules.runs()) == 1


async def test_who_requires_what_was_deleted_is_parked_until_it_is_there_again(
    app: rota.App, engine: Engine
) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    schedules.add("required")
    schedules.add(requires=requires("required"))
    schedules.call("delete_schedule", "required")
    await schedules.tick(seconds=61)
    assert 'requires "required": no schedule' in schedules.row()["error"]
    schedules.add("required")
    await schedules.tick(seconds=181)
    assert schedules.row()["parked_at"] is None
