"""Roles without special rights: one that owns its database, and one that owns nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rota
from rota.engine.logs.log_indexes import LogIndexes
from rota.errors import RotaError
from rota.postgres.migrate import migrate
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server
from tests.sql_engine import Engine

pytestmark = pytest.mark.xdist_group("roles")
OWNER, WORKER, PASSWORD = "plain_owner", "plain_worker", "a 'password'"
_RIGHTS = """
SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication,
       EXISTS (SELECT FROM pg_shdepend d WHERE d.refobjid = r.oid AND d.deptype = 'o')
FROM pg_roles r WHERE rolname = %s
"""


@pytest.fixture(scope="module")
def roles(server: Server) -> Server:
    for role in (OWNER, WORKER):
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), PASSWORD)
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            server.admin.execute(made)
    return server  # they go with it


def as_role(url: str, role: str) -> str:
    return make_conninfo(url, user=role, password=PASSWORD)


@pytest.fixture
def owned_url(roles: Server) -> Iterator[str]:
    """A database of the plain owner's, migrated by it, and reached as it."""
    with roles.fresh_database("template1") as url:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        owned = sql.SQL("ALTER DATABASE {} OWNER TO {}")
        roles.admin.execute(owned.format(sql.Identifier(str(name)), sql.Identifier(OWNER)))
        migrate(as_role(url, OWNER), "rota")
        yield as_role(url, OWNER)


@pytest.fixture
def granted_url(owned_url: str) -> str:
    """The same, as the role that was granted the rights of workers and owns nothing."""
    app = rota.App(config=load_config(owned_url, {}))
    app.grant(WORKER)
    app.close_sync()
    return as_role(owned_url, WORKER)


def test_the_roles_are_plain(granted_url: str, roles: Server) -> None:
    assert roles.admin.execute(_RIGHTS, [WORKER]).fetchone() == (False, False)
    assert (roles.admin.execute(_RIGHTS, [OWNER]).fetchone() or ())[0] is False


async def test_a_day_of_work_as_the_owner(owned_url: str) -> None:
    await a_day_of_work(owned_url)


async def test_a_day_of_work_as_a_role_that_owns_nothing(granted_url: str) -> None:
    await a_day_of_work(granted_url)


async def test_what_only_an_owner_may_do_is_done_for_it(granted_url: str) -> None:
    """Partitions, old ones and new ones, and the index of yesterday's lines."""
    app = rota.App(config=load_config(granted_url, {}))
    with psycopg.connect(granted_url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.rows("SELECT rota.ensure_partitions(rota.now() - interval '60 days', rota.now())")
        engine.rows("SELECT rota.ensure_ledger(ARRAY[rota.now() - interval '60 days'])")
        engine.rows(
            "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
            " SELECT rota.now() - interval '1 day', 1, 1, 1, n, 'info', 'work', 'word ' || n"
            " FROM generate_series(1, 100) n"
        )
        old = "to_at < rota.now() - interval '40 days' AND parent = 'ended_runs_standard'"
        count = f"SELECT count(*) FROM rota.history_parts() WHERE {old}"
        assert engine.one(count) > 0
        async with app:
            result = await app.retention.run(hurry=True)
            assert any(item.action == "drop" and item.note is None for item in result.items)
            assert engine.one(count) == 0
            indexes = LogIndexes(app.database)
            while await indexes.run_once() == 0.0:
                pass
            found = await app.logs.search("word", since=timedelta(days=3))
            assert len(found.lines) == 100
        built = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'logs\\_%%\\_words\\_%%'"
        assert engine.one(built) >= 1


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE rota.jobs",
        "INSERT INTO rota.migrations VALUES (9999, 'x', 9999)",
        "CREATE TABLE rota.mine (n int)",
        "SELECT rota.drop_part('jobs')",
    ],
)
def test_it_may_do_no_more(granted_url: str, statement: str) -> None:
    with psycopg.connect(granted_url, autocommit=True) as conn:
        if "drop_part" in statement:
            conn.execute(statement.encode())  # what is no partition of the history is left alone
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement.encode())
        assert conn.execute("SELECT count(*) FROM rota.jobs").fetchone()


def test_who_may_grant(owned_url: str, granted_url: str) -> None:
    for url, role, words in (
        (owned_url, "nobody_there", 'there is no role "nobody_there"'),
        (granted_url, WORKER, f'only "{OWNER}"'),
    ):
        app = rota.App(config=load_config(url, {}))
        with pytest.raises(RotaError, match=words):
            app.grant(role)
        app.close_sync()


def test_a_later_migration_grants_by_itself(owned_url: str, granted_url: str) -> None:
    with psycopg.connect(owned_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE rota.later (n int)")
        conn.execute("CREATE FUNCTION rota.later() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        conn.execute("REVOKE ALL ON FUNCTION rota.later() FROM PUBLIC")
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute("INSERT INTO rota.later SELECT rota.later()")


# A view of the caller's own under the name of a transition table, whose function would run as the
# owner of the schema.
_BAIT = """
CREATE TEMP TABLE bait (x integer);
CREATE FUNCTION pg_temp.climb() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TABLE rota.climbed AS SELECT current_user::text AS who';
    RETURN 1;
END $$;
CREATE TEMP VIEW new_rows AS SELECT pg_temp.climb() AS x;
CREATE TEMP VIEW old_rows AS SELECT pg_temp.climb() AS x;
GRANT SELECT ON new_rows, old_rows TO PUBLIC;
INSERT INTO rota.table_watches (id, table_name, event, operations, triggers, created_by)
VALUES (1, 'pg_temp.bait', 'bait', '{insert}', '{"t": "t"}', 'me');
"""
CLIMBS = {
    "no transition table": "AFTER INSERT ON bait FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "only one of them": "AFTER UPDATE ON bait REFERENCING NEW TABLE AS new_rows"
    " FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "another name": "AFTER INSERT ON bait REFERENCING NEW TABLE AS other_rows"
    " FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "truncate": "AFTER TRUNCATE ON bait FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "before": "BEFORE INSERT ON bait FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "row by row": "AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION {rows}",
    "a temporary table": "AFTER INSERT ON bait REFERENCING NEW TABLE AS new_rows"
    " FOR EACH STATEMENT EXECUTE FUNCTION {rows}",
    "the other function": "AFTER INSERT ON bait FOR EACH STATEMENT EXECUTE FUNCTION {row}",
    "a row of a temporary table": "AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION {row}",
}


@pytest.mark.parametrize("trick", CLIMBS)
def test_a_trigger_of_its_own_does_not_run_as_the_owner(granted_url: str, trick: str) -> None:
    arguments = "('1', 'bait', '', '', '')"
    functions = {"rows": f"rota.watch_rows{arguments}", "row": f"rota.watch_row{arguments}"}
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute(_BAIT)
        conn.execute(f"CREATE TRIGGER t {CLIMBS[trick].format(**functions)}".encode())
        with pytest.raises(psycopg.Error, match="was not made by watch_table"):
            conn.execute("INSERT INTO bait VALUES (1); UPDATE bait SET x = 2; TRUNCATE bait")
        assert conn.execute("SELECT to_regclass('rota.climbed')").fetchone() == (None,)


_SPAN = """
INSERT INTO rota.log_spans
SELECT {name}, p.partition, p.from_at - interval '1 day', p.to_at + interval '1 year', 0
FROM rota.log_partitions() p WHERE p.to_at < rota.now() LIMIT 1
"""


def test_what_it_writes_into_tables_of_rota_drops_nothing(owned_url: str, granted_url: str) -> None:
    things = (
        "SELECT array_agg(c.relname || ' ' || c.oid::text ORDER BY 1) FROM pg_class c"
        " WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p', 'i')"
    )
    with psycopg.connect(granted_url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.one("SELECT rota.ensure_partitions(rota.now() - interval '3 days', rota.now())")
        before = engine.one(things)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("INSERT INTO rota.partitioned VALUES ('zz|^audit$|zz', 7)")
        today = engine.one("SELECT partition FROM rota.log_partitions() ORDER BY from_at LIMIT 1")
        for name in ("audit", "jobs", "ended_runs", "ended_runs_standard", today):
            engine.rows("SELECT rota.drop_part(%s)", name)
        current = engine.one(
            "SELECT partition FROM rota.history_parts() WHERE to_at > rota.now() LIMIT 1"
        )
        engine.rows("SELECT rota.detach_part(%s)", current)
        assert engine.one(things) == before
        assert engine.one("SELECT inhparent IS NOT NULL FROM pg_inherits WHERE inhrelid ="
                          " ('rota.' || %s)::regclass", current)  # fmt: skip
        for name in ("open_runs_claim", "audit", f"{today}_words_x"):
            with psycopg.connect(owned_url, autocommit=True) as owner:
                owner.execute("DELETE FROM rota.log_spans")
                owner.execute(_SPAN.format(name=f"'{name}'").encode())
            engine.rows("SELECT rota.index_log_words(%s)", name)
        assert engine.one(things) == before


def test_the_clock_that_it_sets_ends_no_partition(granted_url: str) -> None:
    """Business time is a row of a table that workers write."""
    parts = "SELECT partition, state FROM rota.history_parts() WHERE to_at > %s ORDER BY 1"
    with psycopg.connect(granted_url, autocommit=True) as conn:
        (now,) = conn.execute("SELECT rota.now()").fetchone() or (None,)
        before = conn.execute(parts, [now]).fetchall()
        assert before
        conn.execute("SELECT rota.set_clock('2100-01-01')")
        for name, _ in before:
            conn.execute("SELECT rota.detach_part(%s), rota.drop_part(%s)", [name, name])
        assert conn.execute(parts, [now]).fetchall() == before


def test_how_a_caller_writes_times_moves_no_partition(granted_url: str) -> None:
    """A time that is written as its caller writes it may be read as another one: IST is the zone of
    India there, and that of Israel here."""
    bounds = (
        "SELECT count(*), count(*) FILTER (WHERE pg_get_expr(relpartbound, oid) ~ $$TO .'[-0-9]+"
        " 00:00:00.00'$$) FROM pg_class WHERE relispartition AND relkind = 'r' AND relname ~"
        " '_2031[0-9]{4}$'"
    )
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute("SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kolkata'")
        conn.execute("SELECT rota.ensure_partitions('2031-03-02 00:00Z', '2031-03-05 00:00Z')")
        conn.execute("SELECT rota.ensure_ledger(ARRAY['2031-05-06 00:00Z'::timestamptz])")
        conn.execute("SET DateStyle = 'ISO'; SET TimeZone = 'UTC'")
        made, right = conn.execute(bounds).fetchone() or (0, 0)
        assert (made > 3, right) == (True, made)


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


def test_a_forged_watch_takes_no_trigger_of_the_owner_away(
    owned_url: str, granted_url: str
) -> None:
    """Workers write the list of watches, and the owner of a table unwatches it."""
    with (
        psycopg.connect(owned_url, autocommit=True) as owner,
        psycopg.connect(granted_url, autocommit=True) as worker,
    ):
        owner.execute(
            "CREATE SCHEMA books; CREATE TABLE books.accounts (n integer);"
            "CREATE TRIGGER guard BEFORE UPDATE ON books.accounts FOR EACH ROW"
            " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        )
        worker.execute(
            "INSERT INTO rota.table_watches (id, table_name, event, operations, triggers,"
            " created_by) VALUES (7, 'books.accounts', 'x', '{insert}', '{\"guard\": \"\"}', 'me')"
        )
        owner.execute("SELECT rota.unwatch_table('books.accounts')")
        kept = "SELECT tgname FROM pg_trigger WHERE tgrelid = 'books.accounts'::regclass"
        assert owner.execute(kept).fetchall() == [("guard",)]


def test_an_index_of_words_is_within_its_partition(owned_url: str, granted_url: str) -> None:
    with (
        psycopg.connect(owned_url, autocommit=True) as owner,
        psycopg.connect(granted_url, autocommit=True) as conn,
    ):
        engine = Engine(conn)
        engine.one("SELECT rota.ensure_partitions(rota.now() - interval '3 days', rota.now())")
        owner.execute(_SPAN.format(name="p.partition || '_words_000000000000'").encode())
        name = engine.one("SELECT index_name FROM rota.log_spans")
        engine.rows("SELECT rota.index_log_words(%s)", name)
        (built,) = engine.rows(
            "SELECT i.indexrelid, pg_get_expr(i.indpred, i.indrelid) AS test FROM pg_index i"
            " WHERE i.indexrelid = ('rota.' || %s)::regclass",
            name,
        )
        assert "1 year" not in built["test"]
        engine.rows("SELECT rota.index_log_words(%s)", name)  # one that is whole stays
        assert engine.one("SELECT ('rota.' || %s)::regclass::oid", name) == built["indexrelid"]


_LINES = (
    "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
    " SELECT rota.now() - interval '5 minutes', 1, 1, 1, n, 'info', 'work', repeat('x', 500)"
    " FROM generate_series(1, %s) n"
)


def test_it_has_few_indexes_of_words_built(owned_url: str, granted_url: str) -> None:
    """However often it asks, and whatever it says: each needs an eighth more lines."""
    with (
        psycopg.connect(owned_url, autocommit=True) as owner,
        psycopg.connect(granted_url, autocommit=True) as conn,
    ):
        engine = Engine(conn)
        engine.one("SELECT rota.ensure_partitions(rota.now() - interval '2 days', rota.now())")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(_SPAN.format(name="p.partition || '_words_000000000001'").encode())
        for statement in ("UPDATE rota.log_spans SET bytes = 0", "DELETE FROM rota.log_spans"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement.encode())
        # As if it were noon: five minutes ago is of the same day, and each round is later.
        owner.execute(
            "SELECT rota.set_clock(date_trunc('day', rota.now() AT TIME ZONE 'UTC')"
            " AT TIME ZONE 'UTC' + interval '12 hours')"
        )
        spans = "SELECT count(*) FROM rota.log_spans"
        conn.execute(_LINES.encode(), [1000])
        for _ in range(20):
            conn.execute("SELECT rota.close_log_spans(%s)", [-1])
            owner.execute("SELECT rota.set_clock(rota.now() + interval '1 minute')")
        assert engine.one(spans) == 1
        conn.execute(_LINES.encode(), [50])
        conn.execute("SELECT rota.close_log_spans(0)")
        assert engine.one(spans) == 1
        conn.execute(_LINES.encode(), [500])
        conn.execute("SELECT rota.close_log_spans(0)")
        assert engine.one(spans) == 2


async def test_a_span_whose_day_is_not_over_does_not_keep_it_busy(
    owned_url: str, granted_url: str
) -> None:
    """Only the owner indexes it: it is asked for again after a while, not at once."""
    with psycopg.connect(owned_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO rota.log_spans SELECT p.partition || '_words_000000000000', p.partition,"
            " p.from_at, rota.now(), 0 FROM rota.log_partitions() p"
            " WHERE rota.now() > p.from_at AND rota.now() < p.to_at"
        )
    app = rota.App(config=load_config(granted_url, {}))
    async with app:
        assert await LogIndexes(app.database).run_once() > 0


def test_only_who_may_act_as_a_role_says_what_is_called_as_it(
    owned_url: str, granted_url: str, roles: Server
) -> None:
    """Otherwise a worker that was allowed would call for it what it may not call itself."""
    name = str(psycopg.conninfo.conninfo_to_dict(owned_url)["dbname"])
    clerk = f"clerk_{name}"
    job = "INSERT INTO rota.jobs (name, kind, function_name, run_as) VALUES ('{}', 'sql', '{}', %s)"
    with (
        roles.open_admin(name) as admin,
        psycopg.connect(granted_url, autocommit=True) as worker,
    ):
        admin.execute(f"CREATE ROLE {clerk}".encode())
        try:
            admin.execute(f"GRANT {clerk} TO {OWNER}".encode())
            for function in ("tidy", "mine"):
                admin.execute(
                    f"CREATE FUNCTION public.{function}() RETURNS jsonb LANGUAGE sql AS"
                    " $$SELECT '{}'::jsonb$$".encode()
                )
            admin.execute("SELECT rota.allow_run_as(%s, %s)", [clerk, OWNER])
            with psycopg.connect(owned_url, autocommit=True) as owner:
                owner.execute(job.format("tidy", "public.tidy").encode(), [clerk])
            said = f'role "{WORKER}" may not choose what jobs call as role "{clerk}"'
            for attempt, given in (
                (job.format("mine", "public.mine"), [clerk]),
                ("UPDATE rota.jobs SET function_name = 'public.mine' WHERE name = 'tidy'", []),
            ):
                with pytest.raises(psycopg.Error, match=said) as caught:
                    worker.execute(attempt.encode(), given)
                assert "allow_run_as" in str(caught.value.diag.message_hint)
            # What else a job says is not about the role; and who is allowed may choose.
            worker.execute("UPDATE rota.jobs SET queue = 'night' WHERE name = 'tidy'")
            admin.execute("SELECT rota.allow_run_as(%s, %s)", [clerk, WORKER])
            worker.execute(job.format("mine", "public.mine").encode(), [clerk])
        finally:
            admin.execute(f"DROP OWNED BY {clerk}; DROP ROLE {clerk}".encode())


_OF_A_WORKER = """
CREATE FUNCTION mine.climb() RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE 'CREATE TABLE rota.climbed AS SELECT current_user::text AS who';
    RETURN '{"success": true, "message": "climbed"}'; END $$;
CREATE FUNCTION mine.safe() RETURNS jsonb LANGUAGE sql SECURITY DEFINER AS
    $$SELECT jsonb_build_object('success', true, 'message', current_user::text)$$;
INSERT INTO rota.jobs (name, kind, function_name, max_attempts)
VALUES ('climb', 'sql', 'mine.climb', 1), ('safe', 'sql', 'mine.safe', 1);
"""


async def test_a_worker_of_the_owner_calls_no_function_of_a_granted_role(
    owned_url: str, granted_url: str, roles: Server
) -> None:
    """Granted roles write jobs, and so choose what all workers call."""
    name = str(psycopg.conninfo.conninfo_to_dict(owned_url)["dbname"])
    with roles.open_admin(name) as admin:
        admin.execute(f"CREATE SCHEMA mine AUTHORIZATION {WORKER}".encode())
        admin.execute("GRANT USAGE ON SCHEMA mine TO PUBLIC")
    with psycopg.connect(granted_url, autocommit=True) as worker:
        worker.execute(_OF_A_WORKER)
        app = rota.App(config=load_config(owned_url, {}))
        async with app, app.worker():
            climb, safe = [Engine(worker).enqueue(job) for job in ("climb", "safe")]
            failed = await app.runs.wait(climb, timeout=60)
            assert failed.state == "failed"
            (attempt,) = (await app.runs.attempts(climb)).items
            said = f'belongs to role "{WORKER}", whose code would run as role "{OWNER}"'
            assert said in str(attempt.error)
            assert "allow_run_as" in str(attempt.traceback)
            assert (await app.runs.wait(safe, timeout=60)).message == WORKER
        assert worker.execute("SELECT to_regclass('rota.climbed')").fetchone() == (None,)
        # A worker that owns nothing calls what it may, also functions of the owner.
        with psycopg.connect(owned_url, autocommit=True) as owner:
            owner.execute(
                "CREATE SCHEMA ours; GRANT USAGE ON SCHEMA ours TO PUBLIC;"
                "CREATE FUNCTION ours.tidy() RETURNS jsonb LANGUAGE sql AS $$SELECT"
                " jsonb_build_object('success', true, 'message', current_user::text)$$;"
                "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('t', 'sql', 'ours.tidy')"
            )
        app = rota.App(config=load_config(granted_url, {}))
        async with app, app.worker():
            tidy = Engine(worker).enqueue("t")
            assert (await app.runs.wait(tidy, timeout=60)).message == WORKER


@pytest.mark.parametrize(
    "call",
    [
        "rota.ensure_partitions('2000-01-01', '2010-01-01')",
        "rota.ensure_partitions('-infinity', '2010-01-01')",
        "rota.ensure_partitions('2010-01-01', 'infinity')",
        "rota.ensure_partitions(NULL, '2010-01-01')",
        "rota.ensure_ledger('{infinity}')",
        "rota.ensure_ledger(ARRAY(SELECT generate_series(rota.now(), rota.now() + '30 years',"
        " interval '1 week')))",
    ],
)
def test_spans_of_partitions_have_a_bound(granted_url: str, call: str) -> None:
    with psycopg.connect(granted_url, autocommit=True) as conn:
        parts = "SELECT count(*) FROM pg_inherits"
        before = conn.execute(parts).fetchone()
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(f"SELECT {call}".encode())
        assert caught.value.sqlstate == "RO002"
        assert conn.execute(parts).fetchone() == before


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
    ["trigger", "condition", "policy", "view", "table", "domain", "rule", "part", "follower"],
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
