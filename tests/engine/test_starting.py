"""A worker that starts while the server cannot serve it says why in one line, and waits; what
somebody has to mend is an error at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.postgres.sessions import refusals
from rota.postgres.sessions.refusals import code_of
from rota.testing import eventually_sync
from tests.conftest import SHORT
from tests.proxy import Proxy
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

APP = "tests.apps.basic:app"
Start = Callable[..., WorkerProcess]
Conn = psycopg.Connection[Any]


@pytest.fixture
def start(database_url: str) -> Iterator[Start]:
    started: list[WorkerProcess] = []

    def begin(url: str, **settings: Any) -> WorkerProcess:
        started.append(WorkerProcess(url, APP, SHORT | settings, looking_at=database_url))
        return started[-1]

    yield begin
    for process in started:
        print(process.output)
        process.close()


@pytest.fixture
def role(conn: Conn, database_url: str) -> Iterator[Callable[[int], str]]:
    """A URL whose role may have so many connections; again: change it."""
    owner = conninfo_to_dict(database_url)["user"]
    name = f"starting_{conn.info.backend_pid}"
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right' IN ROLE {owner}".encode())
    conn.execute(f"ALTER ROLE {name} SET role = '{owner}'".encode())

    def limit(most: int) -> str:
        conn.execute(f"ALTER ROLE {name} CONNECTION LIMIT {most}".encode())
        return make_conninfo(database_url, user=name, password="right")

    yield limit
    conn.execute(f"DROP ROLE {name}".encode())


def said(worker: WorkerProcess, words: str) -> int:
    assert worker.returncode is None, worker.output
    return worker.output.count(words)


@pytest.mark.parametrize("processes", [1, 2])
def test_it_waits_for_a_server_that_is_away(
    processes: int, proxy: Proxy, start: Start, engine: Engine
) -> None:
    proxy.refuse()
    worker = start(proxy.url, **{"worker.processes": processes})
    eventually_sync(lambda: said(worker, "the database is unavailable") == 1, 60)
    proxy.heal()
    live = "SELECT count(*) FROM rota.workers WHERE state = 'live'"
    eventually_sync(lambda: engine.one(live) == processes, 60)
    assert said(worker, "the database is unavailable") == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_it_waits_for_a_server_that_is_full(
    processes: int, role: Callable[[int], str], start: Start, engine: Engine
) -> None:
    worker = start(role(0), **{"worker.processes": processes})
    eventually_sync(lambda: said(worker, "the server has no connections left") == 1, 60)
    role(50)
    live = "SELECT count(*) FROM rota.workers WHERE state = 'live'"
    eventually_sync(lambda: engine.one(live) == processes, 60)
    worker.terminate()
    worker.wait()


def test_it_waits_for_a_server_that_is_read_only(
    database_url: str, start: Start, engine: Engine
) -> None:
    engine.conn.execute("ALTER FUNCTION rota.register_worker RENAME TO register_worker_later")
    engine.conn.execute(
        "CREATE FUNCTION rota.register_worker(name text, host text, pid integer, version text,"
        " queues text[], jobs text[], concurrency integer, lease_seconds double precision,"
        " intakes integer[])"
        " RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'cannot execute INSERT' USING ERRCODE = '25006'; END $$"
    )
    worker = start(database_url)
    eventually_sync(lambda: said(worker, "the database is read-only") == 1, 60)
    with engine.conn.transaction():
        engine.conn.execute("DROP FUNCTION rota.register_worker")
        engine.conn.execute("ALTER FUNCTION rota.register_worker_later RENAME TO register_worker")
    worker.wait_ready()
    eventually_sync(lambda: said(worker, "is writable again") == 1, 60)


def test_a_signal_ends_it_while_it_waits(proxy: Proxy, start: Start) -> None:
    proxy.refuse()
    worker = start(proxy.url)
    eventually_sync(lambda: said(worker, "the database is unavailable") == 1, 60)
    worker.terminate()
    assert worker.wait() in (-signal.SIGTERM, 0)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"dbname": "nowhere"}])
def test_what_somebody_has_to_mend_is_an_error_at_once(
    wrong: dict[str, str], processes: int, role: Callable[[int], str], start: Start
) -> None:
    worker = start(make_conninfo(role(50), **wrong), **{"worker.processes": processes})
    assert worker.wait() == 1
    assert "error" in worker.output
    assert "retrying" not in worker.output


def test_a_schema_that_is_not_there_is_an_error_at_once(
    database_url: str, start: Start, engine: Engine
) -> None:
    engine.conn.execute("DROP SCHEMA rota CASCADE")
    worker = start(database_url)
    assert worker.wait() == 1
    assert "run `rota --app tests.apps.basic:app migrate`" in worker.output


# Codes, whatever the server's language.


def refused(words: str = "FATAL:  Entschuldigung") -> psycopg.OperationalError:
    return psycopg.OperationalError(words)


def test_the_code_of_a_refused_connection(role: Callable[[int], str], database_url: str) -> None:
    if refusals._libpq() is None:
        pytest.skip("the driver's libpq cannot be found here")
    full = role(0)
    assert code_of(refused(), full) == "53300"
    assert code_of(refused(), make_conninfo(full, password="wrong")) == "28P01"
    assert code_of(refused(), make_conninfo(database_url, dbname="nowhere")) == "3D000"
    assert code_of(refused(), "host=127.0.0.1 port=1") is None, "nobody answered"
    assert code_of(refused(), database_url) is None, "it is over"


def test_words_are_enough_where_libpq_cannot_be_asked(
    role: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "_libpq", lambda: None)
    assert code_of(refused(), role(0)) is None
    assert code_of(refused("FATAL:  sorry, too many clients already")) == "53300"
