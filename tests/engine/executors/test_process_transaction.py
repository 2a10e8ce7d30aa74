"""What a handler in a child writes commits with its completion, fenced, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from sqlalchemy import make_url

from rota.embedded import EmbeddedPostgres
from rota.engine.executors.child_pool import FINISHED, ChildCall, ChildPool
from rota.errors import JobError, LeaseLost
from rota.postgres.migrate import migrate
from tests.engine.executors import handlers
from tests.engine.executors.test_child_pool import make_call

# Not `rota`: a child must use the name it is given.
SCHEMA = "other_rota"
WORKER = "SELECT {}.register_worker('w', 'h', 1, '1', '{{}}', '{{j}}', 1, 60)"
CLAIM = "SELECT id, attempt FROM {}.claim_runs(%s, 1, '{{default}}', 1, '{{j}}', '{{}}')"
both_kinds = pytest.mark.parametrize("function", [handlers.write_row, handlers.write_row_later])


class Database:
    def __init__(self, url: str) -> None:
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)
        self.conn.execute("CREATE TABLE effects (name text)")
        self.conn.execute(f"INSERT INTO {SCHEMA}.jobs (name) VALUES ('j')")
        self.worker = self.value(WORKER.format(SCHEMA))

    def value(self, query: str, *arguments: object) -> Any:
        row = self.conn.execute(query, arguments).fetchone()
        return row and row[0]

    def claim(self, function: Callable[..., Any], payload: dict[str, Any]) -> ChildCall:
        """A call for a new run that the worker has claimed."""
        self.conn.execute("TRUNCATE effects")
        self.conn.execute(f"SELECT {SCHEMA}.enqueue('j')")
        row = self.conn.execute(CLAIM.format(SCHEMA), [self.worker]).fetchone()
        assert row is not None
        request = make_call(function, payload, context="ctx")
        work = msgspec.structs.replace(
            request.work,
            claim=request.work.claim._replace(id=row[0], attempt=row[1]),
            worker=self.worker,
            database_url=self.url,
            schema=SCHEMA,
        )
        return ChildCall(work, request.on_log, request.on_progress)

    def run_of(self, request: ChildCall) -> tuple[Any, ...] | None:
        query = f"SELECT state, result, duration_ms > 0 FROM {SCHEMA}.runs WHERE id = %s"
        return self.conn.execute(query, [request.work.claim.id]).fetchone()

    def effects(self) -> list[str]:
        return [name for (name,) in self.conn.execute("SELECT name FROM effects ORDER BY name")]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    # Not tmp_path: as root its parents are closed to the account that the server runs as.
    place = Path(tempfile.mkdtemp(prefix="rota-test-")).resolve()
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", durable=False)
    server.start()
    migrate(server.url, SCHEMA)
    database = Database(server.url)
    yield database
    database.conn.close()
    server.stop(wait_seconds=20)
    shutil.rmtree(place)


@pytest.fixture
async def executor() -> AsyncIterator[ChildPool]:
    executor = ChildPool(size=1, app_ref=None)
    yield executor
    await executor.close(5)


@both_kinds
async def test_effect_and_completion_commit_together(
    executor: ChildPool, database: Database, function: Callable[..., Any]
) -> None:
    request = database.claim(function, {"name": "row"})
    assert await executor.call(request) is FINISHED
    assert database.effects() == ["row", "row again"]
    assert database.run_of(request) == ("succeeded", {"wrote": "row"}, True)


@both_kinds
async def test_failure_after_the_block_leaves_nothing(
    executor: ChildPool, database: Database, function: Callable[..., Any]
) -> None:
    request = database.claim(function, {"name": "row", "fail": True})
    with pytest.raises(ValueError, match="after the block"):
        await executor.call(request)
    assert database.effects() == []
    assert (database.run_of(request) or ())[0] == "running"


@both_kinds
async def test_lost_lease_leaves_nothing(
    executor: ChildPool, database: Database, function: Callable[..., Any]
) -> None:
    request = database.claim(function, {"name": "row"})
    change = f"UPDATE {SCHEMA}.open_runs SET attempt = attempt + 1 WHERE id = %s"
    database.conn.execute(change, [request.work.claim.id])
    with pytest.raises(LeaseLost):
        await executor.call(request)
    assert database.effects() == []


@both_kinds
async def test_deferred_constraint_fails_the_attempt(
    executor: ChildPool, database: Database, function: Callable[..., Any]
) -> None:
    database.conn.execute(
        "ALTER TABLE effects ADD CONSTRAINT once UNIQUE (name) DEFERRABLE INITIALLY DEFERRED"
    )
    try:
        request = database.claim(function, {"name": "row"})
        database.conn.execute("INSERT INTO effects VALUES ('row again')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await executor.call(request)
        assert database.effects() == ["row again"]
        assert (database.run_of(request) or ())[0] == "running"
    finally:
        database.conn.execute("ALTER TABLE effects DROP CONSTRAINT once")


async def test_a_child_keeps_its_session_and_nothing_in_it(
    executor: ChildPool, database: Database
) -> None:
    answers = []
    for _ in range(3):
        request = database.claim(handlers.spoil_session, {})
        assert await executor.call(request) is FINISHED
        answers.append((database.run_of(request) or ())[1])
    (pid, is_clean), *others = answers
    assert is_clean
    assert others == [[pid, True]] * 2


async def test_a_child_takes_the_users_engine(executor: ChildPool, database: Database) -> None:
    url = database.url.replace("postgresql:", "postgresql+psycopg:")
    request = database.claim(handlers.write_row_by_orm, {"name": "row", "url": url})
    assert await executor.call(request) is FINISHED
    assert database.effects() == ["row"]
    assert database.run_of(request) == ("succeeded", {"wrote": "row"}, True)
    elsewhere = str(make_url(url).set(database="postgres").render_as_string(hide_password=False))
    request = database.claim(handlers.write_row_by_orm, {"name": "row", "url": elsewhere})
    with pytest.raises(JobError, match="a different database than Rota's"):
        await executor.call(request)
    assert (database.run_of(request) or ())[0] == "running"
