"""Plain SQL that would make an illegal state: the constraints refuse each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.sql_engine import Engine


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """One database for all of these: each is rolled back."""
    with server.fresh_database() as url, psycopg.connect(url) as conn:
        yield conn


@pytest.fixture
def engine(shared: psycopg.Connection[Any]) -> Iterator[Engine]:
    engine = Engine(shared)
    engine.job("work")
    yield engine
    shared.rollback()


WAITING = [
    "max_attempts = 0",
    "max_attempts = NULL",
    "attempts_used = -1",
    "attempts_used = max_attempts",
    "attempts_used = 1",  # more than attempts were made
    "attempt = -1",
    "priority = 10",
    "priority = -1",
    "state = 'running'",
    "state = 'succeeded'",
    "state = 'asleep'",
    "state = NULL",
    "worker = 1",
    "started_at = now()",
    "claim_batch = 1",
    "state = 'scheduled', held_by = 'suspect'",
    "state = 'blocked', held_by = 'suspect'",
    "payload = '[]'",
    "payload = '7'",
    "payload = NULL",
    "timeout_seconds = 0",
    "timeout_seconds = -1",
    "progress = 1.5",
    "progress = -0.1",
    "is_ready = false",
    "is_future = true",
    "queue = NULL",
    "job = NULL",
    "run_at = NULL",
]

RUNNING = [
    "worker = NULL",
    "started_at = NULL",
    "held_by = 'suspect'",
    "state = 'queued'",
    "state = 'scheduled'",
    "attempts_used = attempt + 1, max_attempts = 9",
]


@pytest.mark.parametrize("change", WAITING)
def test_illegal_waiting_runs(engine: Engine, change: str) -> None:
    run = engine.enqueue()
    with (
        pytest.raises((psycopg.IntegrityError, psycopg.ProgrammingError)),
        engine.conn.transaction(),
    ):
        engine.conn.execute(f"UPDATE rota.open_runs SET {change} WHERE id = {run}".encode())
    assert engine.state(run) == "queued"


@pytest.mark.parametrize("change", RUNNING)
def test_illegal_running_runs(engine: Engine, change: str) -> None:
    run = engine.enqueue()
    engine.claim_one(engine.worker())
    with pytest.raises(psycopg.IntegrityError):
        engine.conn.execute(f"UPDATE rota.open_runs SET {change} WHERE id = {run}".encode())


INSERTS = [
    ("jobs", "(name) VALUES ('')"),
    ("jobs", "(name) VALUES ('work')"),
    ("jobs", "(name) VALUES (repeat('x', 201))"),
    ("jobs", "(name, max_attempts) VALUES ('a', 0)"),
    ("jobs", "(name, max_attempts) VALUES ('a', 101)"),
    ("jobs", "(name, priority) VALUES ('a', 10)"),
    ("jobs", "(name, queue) VALUES ('a', '')"),
    ("jobs", "(name, backoff) VALUES ('a', '3')"),
    ("jobs", "(name, metadata) VALUES ('a', '[]')"),
    ("queues", "(name) VALUES ('')"),
    ("queues", "(name, is_paused) VALUES ('a', true)"),
    ("queues", "(name, paused_at) VALUES ('a', now())"),
    ("queues", "(name) VALUES ('a'), ('a')"),
    ("settings", "(is_only_row) VALUES (false)"),
    ("settings", "DEFAULT VALUES"),
    ("keys", "VALUES ('', 'work', 'k', 1, NULL), ('', 'work', 'k', 2, NULL)"),
    ("open_runs", "SELECT * FROM rota.open_runs"),
    ("cancel_requests", "VALUES (1, 1, 1, now(), 'a'), (1, 1, 2, now(), 'b')"),
    ("partitioned", "VALUES ('x', 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "rest"), INSERTS)
def test_illegal_rows(engine: Engine, table: str, rest: str) -> None:
    engine.enqueue()
    if table == "open_runs":
        columns = "id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state, queue"
        columns += ", job, payload"
        rest = f"({columns}) SELECT {columns} FROM rota.open_runs"
    # Where triggers say it in words, the constraint is what holds without them.
    if table in ("jobs", "queues"):
        engine.conn.execute(f"ALTER TABLE rota.{table} DISABLE TRIGGER USER".encode())
    with pytest.raises(psycopg.IntegrityError):
        engine.conn.execute(f"INSERT INTO rota.{table} {rest}".encode())


WORKERS = [
    "state = 'asleep'",
    "state = 'lost'",
    "state = 'gone', ended_at = now(), is_waiting = true",
    "ended_at = now()",
    "concurrency = 0",
    "lease_seconds = 0",
]


@pytest.mark.parametrize("change", WORKERS)
def test_illegal_workers(engine: Engine, change: str) -> None:
    worker = engine.worker()
    with pytest.raises(psycopg.IntegrityError):
        engine.conn.execute(f"UPDATE rota.workers SET {change} WHERE id = {worker}".encode())


@pytest.mark.parametrize(
    "change",
    ["state = 'queued'", "state = 'failed'", "attempt_state = 'snoozed'", "finished_at = NULL"],
)
def test_illegal_history(engine: Engine, change: str) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.succeed(worker, engine.claim_one(worker))
    with pytest.raises(psycopg.IntegrityError):
        engine.conn.execute(f"UPDATE rota.ended_runs SET {change} WHERE id = {run}".encode())


REFUSED = [
    ("RO001", "SELECT rota.enqueue('nobody')", 'no job is named "nobody"'),
    ("RO001", "SELECT rota.enqueue(NULL)", "no job is named"),
    ("RO018", "SELECT rota.enqueue('work', '[]')", "must be a JSON object"),
    ("RO018", "SELECT rota.enqueue('work', NULL)", "must be a JSON object"),
    ("RO002", "SELECT rota.enqueue('work', priority => 10)", "not between 0"),
    ("RO002", "SELECT rota.enqueue('work', priority => -1)", "not between 0"),
    ("RO002", "SELECT rota.enqueue('work', priority => 100000)", "not between 0"),
    ("RO002", "SELECT rota.enqueue('work', max_attempts => 0)", "not between 1"),
    ("RO002", "SELECT rota.enqueue('work', max_attempts => 101)", "not between 1"),
    ("RO002", "SELECT rota.enqueue('work', timeout_seconds => 0)", "less than 0.001"),
    ("RO002", "SELECT rota.enqueue('work', timeout_seconds => 1e-30)", "less than 0.001"),
    ("RO002", "SELECT rota.enqueue('work', queue => '')", "the queue name of job"),
    ("RO002", "SELECT rota.enqueue('work', queue => repeat('q', 101))", "the queue name of job"),
    ("RO002", "SELECT rota.enqueue('work', metadata => '3')", "must be JSON objects"),
    ("RO002", "SELECT rota.enqueue('work', backoff => '3')", "must be JSON objects"),
    ("RO002", "SELECT rota.enqueue('work', key => '')", "1 to 400"),
    ("RO002", "SELECT rota.enqueue('work', key => repeat('k', 401))", "1 to 400"),
    ("RO002", "SELECT rota.enqueue('work', run_at => now(), delay => '1 s')", "cannot be combined"),
    (
        "RO018",
        "SELECT rota.enqueue('work', jsonb_build_object('a', (SELECT string_agg(md5(i::text), '')"
        " FROM generate_series(1, 60000) i)))",
        "the limit is 1048576",
    ),
    ("RO004", "SELECT rota.cancel_run(999)", "there is no run 999"),
    ("RO004", "SELECT rota.retry_run(999)", "there is no run 999"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "statement", "words"), REFUSED)
def test_refusals_name_what_is_wrong_and_leave_nothing(
    engine: Engine, code: str, statement: str, words: str
) -> None:
    with pytest.raises(psycopg.Error, match=words) as caught, engine.conn.transaction():
        engine.conn.execute(statement.encode())
    assert caught.value.sqlstate == code
    assert engine.one("SELECT count(*) FROM rota.runs") == 0
    assert engine.one("SELECT count(*) FROM rota.keys") == 0


def test_an_unknown_on_conflict_is_refused_when_the_key_is_free_too(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match="one of return, raise, replace"):
        engine.enqueue(key="a", on_conflict="ignore")
