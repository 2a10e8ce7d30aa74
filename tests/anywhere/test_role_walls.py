"""What a role with the privileges of a worker tries, to act as the owner of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.logs.log_indexes import LogIndexes
from rota.postgres import migrate as migrations
from rota.postgres.migrate import migrate
from tests.anywhere.conftest import OWNER, WORKER, as_role
from tests.conftest import load_config
from tests.database import Server
from tests.sql_engine import Engine

pytestmark = pytest.mark.xdist_group("roles")

_BAIT = """
CREATE TABLE mine.bait (x integer);
CREATE TEMP TABLE bait (x integer);
INSERT INTO rota.table_watches (id, table_name, event, operations, triggers, created_by)
VALUES (1, 'mine.bait', 'bait', '{insert}', '{"t": "t"}', 'me');
"""
_ROWS = "EXECUTE FUNCTION rota.watch_rows('1', 'bait', '', '', '')"
_ROW = "EXECUTE FUNCTION rota.watch_row('1', 'bait', '', '', '')"
_NAMED = f"REFERENCING NEW TABLE AS rota_new_rows FOR EACH STATEMENT {_ROWS}"
_BARE = f"CREATE TRIGGER t AFTER INSERT ON mine.bait FOR EACH STATEMENT {_ROWS}"
_INSERT = "INSERT INTO mine.bait VALUES (1)"


@pytest.fixture
def bait(granted_url: str, roles: Server) -> Iterator[psycopg.Connection[Any]]:
    """As a granted role with a schema of its own, as applications have."""
    name = str(psycopg.conninfo.conninfo_to_dict(granted_url)["dbname"])
    with roles.open_admin(name) as admin:
        admin.execute(f"CREATE SCHEMA mine AUTHORIZATION {WORKER}".encode())
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute(_BAIT)
        yield conn


CALLS = {
    "truncate": (_BARE.replace("INSERT", "TRUNCATE"), "TRUNCATE mine.bait"),
    "before": (_BARE.replace("AFTER", "BEFORE"), _INSERT),
    "row by row": (_BARE.replace("STATEMENT", "ROW"), _INSERT),
    "statement by statement": (_BARE.replace("watch_rows", "watch_row"), _INSERT),
    "a temporary table": (
        f"CREATE TRIGGER t AFTER INSERT ON pg_temp.bait {_NAMED}",
        "INSERT INTO pg_temp.bait VALUES (1)",
    ),
    "a row of a temporary table": (
        f"CREATE TRIGGER t AFTER INSERT ON pg_temp.bait FOR EACH ROW {_ROW}",
        "INSERT INTO pg_temp.bait VALUES (1)",
    ),
    "no watch": (_BARE.replace("'1'", "'x'"), _INSERT),
}


@pytest.mark.parametrize("trick", CALLS)
def test_what_no_watch_of_a_table_calls(bait: psycopg.Connection[Any], trick: str) -> None:
    trigger, write = CALLS[trick]
    bait.execute(trigger.encode())
    with pytest.raises(psycopg.Error, match="was not made by watch_table"):
        bait.execute(write.encode())


# Views of the caller's own under the names of transition tables, whose function would run as the
# owner of the schema, and a trigger that puts another one in the place of the one that fires.
_VIEWS = """
CREATE FUNCTION pg_temp.climb() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TABLE rota.climbed AS SELECT current_user::text AS who';
    RETURN 1;
END $$;
CREATE TEMP VIEW rota_new_rows AS SELECT pg_temp.climb() AS x;
CREATE TEMP VIEW rota_old_rows AS SELECT pg_temp.climb() AS x;
GRANT SELECT ON rota_new_rows, rota_old_rows TO PUBLIC;
CREATE FUNCTION mine.swap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE TG_ARGV[0];
    RETURN NULL;
END $$;
"""
_SWAP = "CREATE TRIGGER a BEFORE INSERT ON mine.bait FOR EACH STATEMENT EXECUTE FUNCTION mine.swap"
CLIMBS = {
    "no transition table": _BARE,
    "another name": _BARE.replace("FOR EACH", "REFERENCING NEW TABLE AS other_rows FOR EACH"),
    "another one meanwhile": f"{_BARE}; {_SWAP}($$ALTER TRIGGER t ON mine.bait RENAME TO u;"
    f" CREATE TRIGGER t AFTER INSERT ON mine.bait {_NAMED}$$)",
    "replaced meanwhile": f"{_BARE};"
    f" {_SWAP}($$CREATE OR REPLACE TRIGGER t AFTER INSERT ON mine.bait {_NAMED}$$)",
}


@pytest.mark.parametrize("trick", CLIMBS)
def test_a_trigger_of_its_own_does_not_run_as_the_owner(
    bait: psycopg.Connection[Any], trick: str
) -> None:
    bait.execute(_VIEWS)
    bait.execute(CLIMBS[trick].encode())
    with pytest.raises(psycopg.Error, match="was not made by watch_table"):
        bait.execute(_INSERT)
    assert bait.execute("SELECT to_regclass('rota.climbed')").fetchone() == (None,)
    bait.execute("DROP VIEW rota_new_rows, rota_old_rows")
    with pytest.raises(psycopg.errors.UndefinedTable):
        bait.execute(_INSERT)


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
CREATE FUNCTION mine.climb_later() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT mine.climb()';
    RETURN '{"success": true, "message": "to climb"}'; END $$;
INSERT INTO rota.jobs (name, kind, function_name, max_attempts)
VALUES ('climb', 'sql', 'mine.climb', 1), ('climb_later', 'sql', 'mine.climb_later', 1);
"""


async def test_a_worker_of_the_owner_calls_no_function_of_a_granted_role(
    owned_url: str, granted_url: str, roles: Server
) -> None:
    """Granted roles write jobs, and so choose what all workers call. What a SECURITY DEFINER
    function leaves behind runs at the end of the transaction, as the worker."""
    name = str(psycopg.conninfo.conninfo_to_dict(owned_url)["dbname"])
    with roles.open_admin(name) as admin:
        admin.execute(f"CREATE SCHEMA mine AUTHORIZATION {WORKER}".encode())
        admin.execute("GRANT USAGE ON SCHEMA mine TO PUBLIC")
    with psycopg.connect(granted_url, autocommit=True) as worker:
        worker.execute(_OF_A_WORKER)
        app = rota.App(config=load_config(owned_url, {}))
        async with app, app.worker():
            for run in [Engine(worker).enqueue(job) for job in ("climb", "climb_later")]:
                failed = await app.runs.wait(run, timeout=60)
                assert failed.state == "failed"
                (attempt,) = (await app.runs.attempts(run)).items
                said = f'belongs to role "{WORKER}", whose code would run as role "{OWNER}"'
                assert said in str(attempt.error)
                assert "allow_run_as" in str(attempt.traceback)
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


_SQUATTED = """
CREATE SCHEMA rota;
CREATE SEQUENCE rota.calls;
CREATE VIEW rota.migrations AS
    SELECT nextval('rota.calls')::integer AS number, 'baseline' AS name, 0 AS oldest_code;
GRANT USAGE ON SCHEMA rota TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA rota TO PUBLIC;
GRANT ALL ON SEQUENCE rota.calls TO PUBLIC;
"""


@pytest.mark.parametrize("by", ["a superuser", "another role"])
def test_nobody_migrates_into_the_schema_of_another_role(roles: Server, by: str) -> None:
    """It could replace whatever is in it, and what is there beforehand may be its own."""
    with roles.fresh_database("template1") as url:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        with roles.open_admin(name) as admin:
            admin.execute(f"GRANT CREATE ON DATABASE {name} TO {OWNER}, {WORKER}".encode())
            with psycopg.connect(as_role(url, OWNER)) as owner:
                owner.execute(_SQUATTED)
            mine = roles.url(name) if by == "a superuser" else as_role(url, WORKER)
            app = rota.App(config=load_config(mine, {}))
            for call in (app.migrate, app.pending_migrations):
                with pytest.raises(rota.SchemaError, match=f'belongs to role "{OWNER}"'):
                    call()
            app.close_sync()
            assert admin.execute("SELECT is_called FROM rota.calls").fetchone() == (False,)
            # To own the schema is not enough: what is in it is still the other role's.
            taker = "CURRENT_USER" if by == "a superuser" else WORKER
            admin.execute(f"ALTER SCHEMA rota OWNER TO {taker}".encode())
            with pytest.raises(rota.SchemaError, match=f'functions of role "{OWNER}"'):
                migrate(mine, "rota")
            assert admin.execute("SELECT is_called FROM rota.calls").fetchone() == (False,)
            admin.execute("DROP SCHEMA rota CASCADE")
            admin.execute(f"CREATE SCHEMA rota AUTHORIZATION {OWNER}".encode())
            migrate(as_role(url, OWNER), "rota")  # who owns only the schema


def test_a_schema_that_somebody_makes_meanwhile_is_refused(
    roles: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look, and before this role makes it."""
    with roles.fresh_database("template1") as url:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        with roles.open_admin(name) as admin:
            admin.execute(f"GRANT CREATE ON DATABASE {name} TO {WORKER}".encode())
            first = migrations.installed

            def installed(*args: Any) -> Any:
                admin.execute(f"CREATE SCHEMA IF NOT EXISTS rota AUTHORIZATION {OWNER}".encode())
                admin.execute(f"GRANT ALL ON SCHEMA rota TO {WORKER}".encode())
                return first(*args)

            monkeypatch.setattr(migrations, "installed", installed)
            with pytest.raises(rota.SchemaError, match=f'belongs to role "{OWNER}"'):
                migrate(as_role(url, WORKER), "rota")
            assert admin.execute("SELECT to_regclass('rota.migrations')").fetchone() == (None,)


def test_the_hint_of_an_old_schema_takes_any_name() -> None:
    with pytest.raises(rota.SchemaError) as caught:
        migrations.check(migrations.Installed(1, 0, is_other=True), "a{b}")
    assert '"a{b}"' in str(caught.value.hint)
