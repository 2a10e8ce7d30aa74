"""Operators and functions in a schema of the session's search path, which anybody may create on a
server whose `public` is open to all: none of them is called by Rota, whoever uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import rota
from rota.postgres.migrate import migrate
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server
from tests.docs.test_examples import examples, register_jobs_of_sql_page
from tests.sql_engine import Engine

SHADOWS = (Path(__file__).parents[1] / "shadows.sql").read_text("utf-8")
ROOT = Path(__file__).parents[2]
# Pages whose SQL stands alone.
PAGES = [
    ROOT / "docs" / name
    for name in ("guides/sql-jobs.md", "guides/operations.md", "reference/sql.md")
]
_TRACES = "SELECT is_called FROM public.shadow_calls"


@pytest.fixture
def shadowed(database_url: str) -> Iterator[str]:
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(SHADOWS.encode())
        yield database_url
        assert conn.execute(_TRACES).fetchone() == (False,), "a shadow was called"


def test_the_shadows_are_there(shadowed: str) -> None:
    """What a session with the server's own search path calls, if nobody takes care."""
    with psycopg.connect(shadowed) as conn:
        for words in (
            "SELECT 1::oid = 'text'::regtype",
            "SELECT '{a}'::text[] = '{a}'::text[]",
            "SELECT format('%s', 'x'::text)",
            "SELECT currval('rota.run_ids')",
        ):
            with pytest.raises(psycopg.errors.RaiseException, match="a shadow was called"):
                conn.execute(words.encode())
            conn.rollback()
        conn.autocommit = True
        conn.execute("ALTER SEQUENCE public.shadow_calls RESTART")


async def test_a_day_of_work(shadowed: str) -> None:
    """Workers, the API and commands; and the session of a SQL job, which has the user's path."""
    with psycopg.connect(shadowed, autocommit=True) as conn:
        conn.execute(
            "CREATE FUNCTION public.tidy(payload jsonb) RETURNS jsonb LANGUAGE sql AS"
            """ $$SELECT '{"success": true, "message": "done"}'::jsonb$$"""
        )
        Engine(conn).job("tidy", kind="sql", function_name="tidy", max_attempts=1)
    await a_day_of_work(shadowed, sql_job="tidy")


# What an administrator does in psql, beside what the docs show.
OPERATED = """
INSERT INTO rota.jobs (name) VALUES ('work');
INSERT INTO rota.queues (name) VALUES ('slow') ON CONFLICT DO NOTHING;
UPDATE rota.jobs SET max_attempts = 3, tags = '{a,b}' WHERE name = 'work';
SELECT rota.enqueue('work', '{"n": 1}', tags => '{a,b}', metadata => '{"a": 1}');
SELECT rota.enqueue('work', key => 'k', on_conflict => 'replace');
SELECT rota.enqueue('work', key => 'k', on_conflict => 'replace');
SELECT rota.enqueue('work', delay => interval '1 hour', expires_in => interval '2 hours');
SELECT rota.emit('order.paid', '{"n": 1}');
CREATE TABLE public.parcels (id bigint PRIMARY KEY, total integer);
SELECT rota.watch_table('parcels', condition => 'new.total > 10', operations => '{insert}');
SELECT rota.watch_table('parcels');
INSERT INTO public.parcels SELECT g, g FROM generate_series(1, 20) g;
SELECT * FROM rota.watches();
SELECT rota.unwatch_table('parcels');
INSERT INTO rota.schedules (name, job, cron) VALUES ('daily', 'work', '0 8 * * *');
UPDATE rota.schedules SET cron = '0 9 * * *' WHERE name = 'daily';
SELECT * FROM rota.history_parts();
SELECT * FROM rota.log_partitions();
SELECT * FROM rota.searchable_spans(NULL, NULL);
SELECT rota.set_clock('2030-01-01 00:00Z');
SELECT rota.ensure_partitions('2030-01-01', '2030-01-09');
SELECT rota.set_clock(NULL);
SELECT rota.line_words('a word', '{"b": 1}');
"""


def test_an_administrator_in_psql(shadowed: str) -> None:
    """With the server's own search path."""
    register_jobs_of_sql_page(shadowed)
    with psycopg.connect(shadowed, autocommit=True) as conn:
        for example in (one for page in PAGES for one in examples(page) if one.language == "sql"):
            # A role is one of the whole server, where the examples run as well.
            conn.execute(example.text.replace("order_clerk", "shadowed_clerk").encode())
        conn.execute(OPERATED.encode())
        for relation in ("runs", "attempts", "jobs", "schedules", "queues", "workers", "tenants"):
            conn.execute(f"SELECT * FROM rota.{relation}".encode())


def test_enqueues_on_a_connection_of_the_users_own(shadowed: str) -> None:
    app = rota.App(config=load_config(shadowed, {}))

    @app.job
    def work(n: int) -> None: ...

    with psycopg.connect(shadowed) as conn:
        work.options(connection=conn).enqueue_sync(n=1)
        work.options(connection=conn, key="k", tags=["a"]).enqueue_sync(n=1)
        app.enqueue_many_sync([work.call(n=n) for n in range(10)], connection=conn)
        app.emit_sync("order.paid", {"n": 1}, connection=conn)
        conn.commit()
    app.close_sync()


_TAKEN = """
SELECT d.classid::regclass, d.objid, d.refclassid::regclass, d.refobjid FROM pg_depend d
LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
WHERE coalesce(o.oprnamespace, p.pronamespace) = 'public'::regnamespace
  AND d.classid <> 'pg_operator'::regclass
"""


def test_a_migration_takes_none_of_them(server: Server) -> None:
    """What constraints, defaults, views and parsed bodies call is found when they are made."""
    with server.fresh_database() as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(SHADOWS.encode())
            conn.execute("DROP SCHEMA rota CASCADE")
        migrate(url, "rota")
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET search_path = pg_catalog")
            assert conn.execute(_TAKEN).fetchall() == []
            assert conn.execute(_TRACES).fetchone() == (False,)
