"""`postgres/schema` says what the schema is, `postgres/migrations` how it comes about: both give
the same catalogue, and whatever differs is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rota.postgres import migrate
from tests.database import Server
from tests.schema.catalogue import differences, read, read_from


def test_schema_and_migrations_are_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.fresh_database("template1") as one, server.fresh_database("template1") as other:
        migrate.migrate(other, "rota")
        monkeypatch.setattr(migrate, "known", lambda: (migrate.baseline(),))
        migrate.migrate(one, "rota")
        found = differences(read(one), read(other))
    assert not found, "\n".join(["postgres/schema (-) and postgres/migrations (+):", *found])


# A change that only one of the two roads has, and what the comparison says then.
DRIFT = {
    "CREATE TABLE rota.extra (a integer)": "only in the second: table extra: storage",
    "ALTER TABLE rota.queues ADD COLUMN extra text": "only in the second: column queues.extra",
    "ALTER TABLE rota.queues ALTER paused_by SET NOT NULL": "differs: column queues.paused_by",
    "ALTER TABLE rota.queues ALTER paused_by SET DEFAULT ''": "differs: column queues.paused_by",
    "ALTER TABLE rota.queues ALTER paused_by TYPE varchar": "differs: column queues.paused_by",
    "ALTER TABLE rota.open_runs SET (fillfactor = 90)": "differs: table open_runs: storage",
    "ALTER TABLE rota.queues ADD CHECK (name <> 'x')": "only in the second: constraint queues.",
    "DROP INDEX rota.open_runs_claim": "only in the first: index open_runs_claim",
    "CREATE INDEX extra ON rota.queues (paused_by)": "only in the second: index extra",
    "DROP TRIGGER jobs_after ON rota.jobs": "only in the first: trigger jobs.jobs_after",
    "ALTER TABLE rota.jobs DISABLE TRIGGER jobs_after": "differs: trigger jobs.jobs_after",
    "CREATE OR REPLACE FUNCTION rota.who(named text DEFAULT NULL) RETURNS text LANGUAGE sql STABLE"
    " AS 'SELECT user::text'":
        "differs: function who(",
    "ALTER FUNCTION rota.who(text) VOLATILE": "differs: function who(",
    "ALTER FUNCTION rota.who(text) SET jit = off": "differs: function who(",
    "REVOKE ALL ON FUNCTION rota.who(text) FROM PUBLIC": "differs: function who(",
    "COMMENT ON FUNCTION rota.who(text) IS 'somebody'": "differs: function who(",
    "GRANT SELECT ON rota.runs TO PUBLIC": "differs: view runs: kind, owner, rights",
    "ALTER VIEW rota.runs RENAME COLUMN id TO number": "differs: view runs: definition",
    "ALTER SEQUENCE rota.run_ids CACHE 20": "differs: sequence run_ids: range",
    "ALTER DOMAIN rota.run_priority SET DEFAULT 5": "differs: type run_priority: definition",
    "UPDATE rota.reasons SET sentence = 'It is.' WHERE code = 'idle'": "differs: rows reasons",
    "INSERT INTO rota.partitioned VALUES ('samples', 1)": "differs: rows partitioned",
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """One database for all drifts: each is rolled back."""
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        yield conn


@pytest.fixture(scope="module")
def before(shared: psycopg.Connection[Any]) -> Any:
    return read_from(shared)


@pytest.mark.parametrize("change", DRIFT)
def test_every_drift_is_found(shared: psycopg.Connection[Any], before: Any, change: str) -> None:
    with shared.transaction(force_rollback=True):
        shared.execute(change.encode())
        found = differences(before, read_from(shared))
    assert any(one.startswith(DRIFT[change]) for one in found), found


def test_the_same_catalogue_has_no_differences(
    shared: psycopg.Connection[Any], before: Any
) -> None:
    assert differences(before, read_from(shared)) == []


def test_every_body_names_what_there_is(conn: psycopg.Connection[Any]) -> None:
    """Functions are made unchecked, as they name what later files make: here all of it is there."""
    definitions = conn.execute(
        "SELECT pg_get_functiondef(p.oid) FROM pg_proc p"
        " WHERE p.pronamespace = 'rota'::regnamespace AND p.prokind <> 'a'"
    ).fetchall()
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL check_function_bodies = on")
        for (definition,) in definitions:
            conn.execute(definition.encode())
