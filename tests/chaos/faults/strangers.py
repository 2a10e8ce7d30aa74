"""Other roles of the same server: what they may do by their rights, and what they try beyond."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rota.testing import eventually_sync
from tests.chaos.faults.base import Fault
from tests.chaos.stage import Stage

Role = Literal["connected", "granted"]
ROLES: tuple[Role, ...] = ("connected", "granted")
_PASSWORD = "of a stranger"
# None may change the schema, for any role: by the rights of its owner, or by functions of his.
CLIMBS = (
    """
    CREATE TEMP TABLE bait (x integer);
    CREATE FUNCTION pg_temp.climb() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE 'CREATE TABLE rota.climbed (who text)'; RETURN 1; END $$;
    CREATE TEMP VIEW new_rows AS SELECT pg_temp.climb() AS x;
    GRANT SELECT ON new_rows TO PUBLIC;
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
        role = sql.Identifier(self._name)
        with stage.connect() as conn:
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, _PASSWORD))
            if self._role == "granted":
                conn.execute("SELECT rota.grant_worker(%s)", [self._name])
        self._url = make_conninfo(stage.url, user=self._name, password=_PASSWORD)
        self._thread = threading.Thread(target=self._act, daemon=True)
        self._thread.start()
        return f"a stranger acts, whose role is {self._role}"

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
        role = sql.Identifier(self._name)
        with stage.connect() as conn:
            conn.execute(sql.SQL("DROP OWNED BY {}").format(role))
            conn.execute(sql.SQL("DROP ROLE {}").format(role))
        changed = set(self._before) ^ set(stage.rows(OBJECTS))
        assert not changed, f"the schema was changed: {sorted(changed)}"
