"""Cleanups run no code of another role as the worker, and remove no younger rows."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import rota
from rota.testing import eventually_sync
from tests.anywhere.conftest import OWNER, WORKER
from tests.conftest import load_config
from tests.database import Server

pytestmark = pytest.mark.xdist_group("roles")

# Code of the table's owner, in every place where a cleanup could come by it: each writes down as
# whom it ran.
_HIVE = """
CREATE SCHEMA hive;
GRANT USAGE ON SCHEMA hive TO PUBLIC;
CREATE SEQUENCE hive.stings;
GRANT ALL ON SEQUENCE hive.stings TO PUBLIC;
CREATE FUNCTION hive.sting() RETURNS boolean LANGUAGE sql AS
    $$SELECT nextval('hive.stings') IS NOT NULL$$;
CREATE FUNCTION hive.sting_row() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN PERFORM hive.sting(); RETURN OLD; END$$;
CREATE DOMAIN hive.word AS text CHECK (VALUE IS NULL OR hive.sting());
CREATE TABLE hive.sessions (expires_at timestamptz, status hive.word);
INSERT INTO hive.sessions VALUES (now() - interval '2 days', NULL);
ALTER SEQUENCE hive.stings RESTART;
CREATE TRIGGER sting BEFORE DELETE ON hive.sessions FOR EACH ROW
    EXECUTE FUNCTION hive.sting_row();
ALTER TABLE hive.sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON hive.sessions USING (hive.sting());
GRANT ALL ON hive.sessions TO PUBLIC;
"""
_RULES = {"rules": [
    {"table": "hive.sessions", "column": "expires_at", "older_than": 60,
     "where": [{"column": "status", "op": "=", "value": "old"}]}
]}  # fmt: skip


async def test_a_cleanup_runs_no_code_of_another_role(owned_url: str, granted_url: str) -> None:
    """With a dry run neither; and no recipe recommends the table."""
    rules = json.dumps(_RULES)
    with (
        psycopg.connect(owned_url, autocommit=True) as owner,
        psycopg.connect(granted_url, autocommit=True) as worker,
    ):
        owner.execute(_HIVE)
        said = 'hive.sessions belongs to role "plain_owner", whose triggers and policies would run'
        for call in ("rota.cleanup(%s)", "rota.plan_cleanup(%s)"):
            with pytest.raises(psycopg.Error, match=said) as caught:
                worker.execute(f"SELECT {call}".encode(), [rules])
            assert caught.value.sqlstate == "RO002"
        app = rota.App(config=load_config(granted_url, {}))
        async with app:
            assert await app.cleanup.recipes() == []
            with pytest.raises(rota.InputError, match=said):
                await app.cleanup.add(
                    "hive.sessions",
                    column="expires_at",
                    older_than_seconds=60,
                    where="status = 'old'",
                )
        calls = "SELECT is_called FROM hive.stings"
        assert owner.execute(calls).fetchone() == (False,)
        # Whose code it is anyway may run it; and a domain's check has no part in a comparison.
        owner.execute("ALTER TABLE hive.sessions DISABLE TRIGGER sting")
        done = owner.execute("SELECT rota.cleanup(%s)", [rules]).fetchone()
        assert done is not None
        assert done[0]["details"]["rules"][0]["removed"] == 0
        assert owner.execute(calls).fetchone() == (False,)


@pytest.mark.parametrize(
    "where",
    [
        "trigger",
        "definer",
        "condition",
        "policy",
        "view",
        "table",
        "domain",
        "rule",
        "part",
        "follower",
    ],
)
def test_code_that_a_table_comes_by_otherwise(
    owned_url: str, granted_url: str, roles: Server, where: str
) -> None:
    """A table of the worker's own, with a trigger, a partition or a follower of somebody else."""
    name = str(psycopg.conninfo.conninfo_to_dict(owned_url)["dbname"])
    with roles.open_admin(name) as admin:
        admin.execute(_HIVE.encode())
        admin.execute(f"ALTER FUNCTION hive.sting() OWNER TO {OWNER}".encode())
        admin.execute(f"ALTER FUNCTION hive.sting_row() OWNER TO {OWNER}".encode())
        kind = "PARTITION BY RANGE (at)" if where == "part" else ""
        key = "" if where == "part" else "PRIMARY KEY"
        admin.execute(f"CREATE TABLE public.mine (at timestamptz {key}) {kind}".encode())
        say = {
            "trigger": "CREATE TRIGGER t BEFORE DELETE ON public.mine FOR EACH ROW"
            " EXECUTE FUNCTION hive.sting_row()",
            "definer": "ALTER FUNCTION hive.sting_row() SECURITY DEFINER; CREATE TRIGGER t"
            " BEFORE DELETE ON public.mine FOR EACH ROW EXECUTE FUNCTION hive.sting_row()",
            "condition": "CREATE TRIGGER t BEFORE DELETE ON public.mine FOR EACH ROW"
            " WHEN (hive.sting()) EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "policy": "ALTER TABLE public.mine ENABLE ROW LEVEL SECURITY;"
            " CREATE POLICY p ON public.mine USING (hive.sting())",
            "view": "CREATE VIEW hive.looks AS SELECT hive.sting() AS is_stung;"
            f" ALTER VIEW hive.looks OWNER TO {OWNER};"
            " ALTER TABLE public.mine ENABLE ROW LEVEL SECURITY;"
            " CREATE POLICY p ON public.mine USING ((SELECT is_stung FROM hive.looks))",
            "table": f"ALTER TABLE hive.sessions OWNER TO {OWNER};"
            " ALTER TABLE public.mine ENABLE ROW LEVEL SECURITY;"
            " CREATE POLICY p ON public.mine USING (EXISTS (SELECT FROM hive.sessions))",
            "domain": f"ALTER DOMAIN hive.word OWNER TO {OWNER};"
            " ALTER TABLE public.mine ENABLE ROW LEVEL SECURITY;"
            " CREATE POLICY p ON public.mine USING (at::text::hive.word <> '')",
            "rule": "CREATE RULE r AS ON DELETE TO public.mine DO ALSO SELECT hive.sting()",
            "part": "CREATE TABLE public.mine_1 PARTITION OF public.mine DEFAULT;"
            f"ALTER TABLE public.mine_1 OWNER TO {OWNER}",
            "follower": "CREATE TABLE public.after_mine (at timestamptz REFERENCES public.mine"
            f" ON DELETE CASCADE); ALTER TABLE public.after_mine OWNER TO {OWNER}",
        }
        admin.execute(say[where].encode())
        admin.execute(f"ALTER TABLE public.mine OWNER TO {WORKER}".encode())
    rules = {"rules": [{"table": "public.mine", "column": "at", "older_than": 60}]}
    with (
        psycopg.connect(granted_url, autocommit=True) as worker,
        pytest.raises(psycopg.Error, match='would run as role "plain_worker"'),
    ):
        worker.execute("SELECT rota.cleanup(%s)", [json.dumps(rules)])


def test_a_watched_table_is_cleaned_up(granted_url: str, roles: Server) -> None:
    """Its trigger calls a function of the schema's owner."""
    name = str(psycopg.conninfo.conninfo_to_dict(granted_url)["dbname"])
    rules = {"rules": [{"table": "public.mine", "column": "at", "older_than": 60}]}
    with roles.open_admin(name) as admin:
        admin.execute("CREATE TABLE public.mine AS SELECT now() - interval '1 day' AS at")
        admin.execute(f"ALTER TABLE public.mine OWNER TO {WORKER}".encode())
    with psycopg.connect(granted_url, autocommit=True) as worker:
        worker.execute("SELECT rota.watch_table('mine')")
        worker.execute("SELECT rota.cleanup(%s)", [json.dumps(rules)])
        events = worker.execute("SELECT name FROM rota.events").fetchall()
        assert events == [("mine.delete",)]


def test_a_trigger_that_is_made_meanwhile_does_not_run(
    owned_url: str, granted_url: str, roles: Server
) -> None:
    """Whoever may write triggers of the worker's table waits with the commit for the cleanup."""
    name = str(psycopg.conninfo.conninfo_to_dict(owned_url)["dbname"])
    rules = {"rules": [{"table": "public.mine", "column": "at", "older_than": 60}]}
    with (
        roles.open_admin(name) as admin,
        psycopg.connect(owned_url) as owner,
        psycopg.connect(granted_url, autocommit=True) as worker,
        ThreadPoolExecutor() as pool,
    ):
        admin.execute(_HIVE.encode())
        admin.execute(f"ALTER FUNCTION hive.sting_row() OWNER TO {OWNER}".encode())
        admin.execute("CREATE TABLE public.mine AS SELECT now() - interval '1 day' AS at")
        admin.execute(f"ALTER TABLE public.mine OWNER TO {WORKER}".encode())
        admin.execute(f"GRANT TRIGGER ON public.mine TO {OWNER}".encode())
        owner.execute(
            "CREATE TRIGGER sting BEFORE DELETE ON public.mine"
            " FOR EACH ROW EXECUTE FUNCTION hive.sting_row()"
        )
        cleanup = pool.submit(worker.execute, "SELECT rota.cleanup(%s)", [json.dumps(rules)])
        blocked = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        eventually_sync(
            lambda: admin.execute(blocked, [owner.info.backend_pid]).fetchone() is not None
        )
        owner.commit()
        with pytest.raises(psycopg.Error, match='would run as role "plain_worker"'):
            cleanup.result()
        assert admin.execute("SELECT is_called FROM hive.stings").fetchone() == (False,)


def test_a_member_of_the_owner_may_clean_up(
    owned_url: str, granted_url: str, roles: Server
) -> None:
    rules = {"rules": [{"table": "stuff.old", "column": "at", "older_than": 60}]}
    with psycopg.connect(owned_url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA stuff")
        owner.execute("CREATE TABLE stuff.old AS SELECT now() - interval '1 day' AS at")
    roles.admin.execute(f"GRANT {OWNER} TO {WORKER}".encode())
    try:
        with psycopg.connect(granted_url, autocommit=True) as worker:
            done = worker.execute("SELECT rota.cleanup(%s)", [json.dumps(rules)]).fetchone()
            assert done is not None
            assert done[0]["message"] == "1 expired rows removed"
    finally:
        roles.admin.execute(f"REVOKE {OWNER} FROM {WORKER}".encode())


def test_how_a_session_writes_times_removes_no_younger_rows(
    granted_url: str, roles: Server
) -> None:
    name = str(psycopg.conninfo.conninfo_to_dict(granted_url)["dbname"])
    rules = {"rules": [{"table": "public.young", "column": "at", "older_than": "1 hour"}]}
    with roles.open_admin(name) as admin:
        admin.execute("CREATE TABLE public.young AS SELECT now() - interval '10 minutes' AS at")
        admin.execute(f"ALTER TABLE public.young OWNER TO {WORKER}".encode())
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute("SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kolkata'")
        conn.execute("SELECT rota.cleanup(%s)", [json.dumps(rules)])
        assert conn.execute("SELECT count(*) FROM public.young").fetchone() == (1,)
