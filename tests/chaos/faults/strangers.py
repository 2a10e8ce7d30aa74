"""Other roles of the same server: what they may do by their rights, and what they try beyond."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rota.testing import eventually_sync
from tests.chaos.faults.base import Fault
from tests.chaos.stage import Stage

Role = Literal["connected", "granted", "acting"]
ROLES: tuple[Role, ...] = ("connected", "granted", "acting")
_PASSWORD = "of a stranger"
# None may change the schema, for any role: by the rights of its owner, or by functions of his.
CLIMBS = (
    """
    CREATE TEMP TABLE bait (x integer);
    CREATE FUNCTION pg_temp.climb() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE 'CREATE TABLE rota.climbed (who text)'; RETURN 1; END $$;
    CREATE TEMP VIEW rota_new_rows AS SELECT pg_temp.climb() AS x;
    GRANT SELECT ON rota_new_rows TO PUBLIC;
    CREATE TRIGGER climb AFTER INSERT ON bait
        FOR EACH STATEMENT EXECUTE FUNCTION rota.watch_rows('1', 'climbed', '', '', '');
    INSERT INTO bait VALUES (1)
    """,
    """
    CREATE TABLE bait (x integer);
    CREATE FUNCTION pg_temp.climb() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE 'CREATE TABLE rota.climbed (who text)'; RETURN 1; END $$;
    CREATE TEMP VIEW rota_new_rows AS SELECT pg_temp.climb() AS x;
    GRANT SELECT ON rota_new_rows TO PUBLIC;
    CREATE FUNCTION swap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        CREATE OR REPLACE TRIGGER climb AFTER INSERT ON bait REFERENCING NEW TABLE AS rota_new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION rota.watch_rows('1', 'climbed', '', '', '');
        RETURN NULL; END $$;
    CREATE TRIGGER swap BEFORE INSERT ON bait FOR EACH STATEMENT EXECUTE FUNCTION swap();
    CREATE TRIGGER climb AFTER INSERT ON bait
        FOR EACH STATEMENT EXECUTE FUNCTION rota.watch_rows('1', 'climbed', '', '', '');
    INSERT INTO bait VALUES (1)
    """,
    "SELECT rota.drop_part('audit')",
    "SELECT rota.drop_part('open_runs')",
    "SELECT rota.index_log_words('open_runs_claim')",
    "DROP TABLE rota.audit",
    "ALTER TABLE rota.open_runs DISABLE TRIGGER ALL",
    "CREATE TABLE rota.climbed (who text)",
)
# Its own function, as a job that the workers claim: tries at the commit to run as somebody else, by
# a cursor and by a trigger that it leaves behind, when the function through which it was called has
# been altered.
FUNCTION = """
CREATE TABLE {own}.caught (who text);
GRANT USAGE ON SCHEMA {own} TO PUBLIC;
GRANT ALL ON {own}.caught TO PUBLIC;
CREATE FUNCTION {own}.climb() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
    IF current_user <> {name} THEN
        EXECUTE 'CREATE TABLE rota.climbed (who text)';
    END IF;
    RETURN 1;
END $$;
CREATE FUNCTION {own}.again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM {own}.climb();
    SET CONSTRAINTS ALL DEFERRED;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER again AFTER INSERT ON {own}.caught DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {own}.again();
CREATE FUNCTION {own}.work() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT {own}.climb()';
    INSERT INTO {own}.caught VALUES (current_user);
    IF to_regprocedure({caller}) IS NOT NULL THEN
        EXECUTE 'ALTER FUNCTION ' || {caller} || ' STRICT';
    END IF;
    RETURN '{{"success": true, "message": "climbed"}}';
END $$
"""
JOB = """
INSERT INTO rota.jobs (name, kind, function_name, max_attempts, run_as)
VALUES (%s, 'sql', %s, 1, %s)
"""
OPEN = "SELECT id, state FROM rota.open_runs WHERE job = %s"
ENDED = "SELECT id, state, end_reason FROM rota.ended_runs WHERE job = %s"
OBJECTS = """
SELECT c.relname, c.relkind::text, i.indrelid::regclass::text
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relnamespace = 'rota'::regnamespace AND NOT c.relispartition ORDER BY 1
"""
# Anybody may call and listen, and hold a snapshot.
NOISE = (
    "SELECT pg_notify(c, p) FROM unnest('{rota,rota_1,x}'::text[]) c,"
    " unnest('{queue default,jobs,tenants,schedules,limits,bulk,suspects,stop}'::text[]) p"
)


class Stranger(Fault):
    """Calls, holds a snapshot, and tries to climb, for as long as it is there."""

    seconds = 5.0

    def __init__(self, role: Role) -> None:
        self._role = role

    def inject(self, stage: Stage) -> str:
        self._name = f"stranger_{self._role}"
        self._before = stage.rows(OBJECTS)
        self._is_over = threading.Event()
        self._url = make_conninfo(stage.url, user=self._name, password=_PASSWORD)
        role = sql.Identifier(self._name)
        with stage.connect() as conn:
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, _PASSWORD))
            if self._role != "connected":
                conn.execute(sql.SQL("CREATE SCHEMA {0} AUTHORIZATION {0}").format(role))
                self._make_function()
            self._permit(conn)
        self._thread = threading.Thread(target=self._act, daemon=True)
        self._thread.start()
        return f"a stranger acts, whose role is {self._role}"

    def _make_function(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            names = {
                "own": sql.Identifier(self._name),
                "name": sql.Literal(self._name),
                "caller": sql.Literal(f"rota.run_as_{self._name}(regprocedure, jsonb, text)"),
            }
            conn.execute(sql.SQL(FUNCTION).format(**names))

    def _permit(self, conn: psycopg.Connection[Any]) -> None:
        """What an operator has permitted to the role, and a run of its job."""
        job = [self._name, f"{self._name}.work"]
        if self._role == "granted":
            conn.execute("SELECT rota.grant_worker(%s)", [self._name])
            with psycopg.connect(self._url, autocommit=True) as own:
                own.execute(JOB, [*job, None])
        elif self._role == "acting":
            conn.execute("SELECT rota.allow_run_as(%s)", [self._name])
            conn.execute(
                sql.SQL("GRANT USAGE ON SCHEMA rota TO {}").format(sql.Identifier(self._name))
            )
            conn.execute(JOB, [*job, self._name])
        if self._role != "connected":
            conn.execute("SELECT rota.enqueue(%s)", [self._name])

    def _act(self) -> None:
        with (
            psycopg.connect(self._url, autocommit=True) as conn,
            psycopg.connect(self._url) as reader,
        ):
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT 1")
            for climb in CLIMBS:
                with suppress(psycopg.Error), conn.transaction():
                    conn.execute(climb.encode())
            while not self._is_over.wait(0.005):
                conn.execute(NOISE)

    def heal(self, stage: Stage) -> None:
        self._is_over.set()
        eventually_sync(lambda: not self._thread.is_alive(), 60)
        eventually_sync(lambda: not stage.rows(OPEN, self._name), 60)
        ended = stage.rows(ENDED, self._name)
        role = sql.Identifier(self._name)
        with stage.connect() as conn:
            for run, *_ in ended:
                conn.execute("SELECT rota.delete_run(%s)", [run])
            conn.execute("DELETE FROM rota.jobs WHERE name = %s", [self._name])
            conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            conn.execute(sql.SQL("DROP ROLE {}").format(role))
        changed = set(self._before) ^ set(stage.rows(OBJECTS))
        assert not changed, f"the schema was changed: {sorted(changed)}"
        states = [state for _, state, _ in ended]
        assert states == ([] if self._role == "connected" else ["failed"]), f"its run: {ended}"
