"""`run_as` is a wall: nothing that a function of the role leaves behind runs as the worker.

Each trick has the role's own code write down as whom it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import MakeApp
from tests.sql_engine import Engine

GOOD = """RETURN '{"success": true, "message": "done"}';"""
SERVERS = [
    pytest.param("embedded", id="newest"),
    pytest.param("distribution", id="distribution", marks=pytest.mark.distribution),
]
pytestmark = pytest.mark.parametrize("server_kind", SERVERS)

# Owned by the role, open to everybody: a trick that works leaves the worker's name.
_OWN = """
CREATE SCHEMA tricks AUTHORIZATION CURRENT_ROLE;
CREATE TABLE tricks.caught (who text, how text);
CREATE FUNCTION tricks.spy(how text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'ran as %', current_user;  -- survives a rollback
    INSERT INTO tricks.caught VALUES (current_user, how);
    RETURN 1;
END $$;
CREATE TABLE tricks.chain (n integer);
CREATE FUNCTION tricks.follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tricks.spy('trigger ' || NEW.n);
    EXECUTE TG_ARGV[0];
    IF NEW.n > 1 THEN
        INSERT INTO tricks.chain VALUES (NEW.n - 1);
    END IF;
    RETURN NULL;
END $$;
GRANT USAGE ON SCHEMA tricks TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA tricks TO PUBLIC
"""


class Wall:
    """A job whose function belongs to a role of its own."""

    def __init__(self, admin: psycopg.Connection[Any], worker_role: str) -> None:
        self.admin = Engine(admin)
        self.worker_role = worker_role
        self.friends: list[str] = []
        self.role = f"clerk_{self.admin.one('SELECT current_database()')}"
        admin.execute(f"CREATE ROLE {self.role}".encode())
        admin.execute("SELECT rota.allow_run_as(%s, %s)", [self.role, worker_role])
        name = self.admin.one("SELECT quote_ident(current_database())")
        admin.execute(f"GRANT CREATE ON DATABASE {name} TO {self.role}".encode())
        self.own(_OWN)

    def own(self, text: str) -> None:
        """As the role itself."""
        self.admin.conn.execute(f"SET ROLE {self.role}".encode())
        try:
            self.admin.conn.execute(text.encode())
        finally:
            self.admin.conn.execute("RESET ROLE")

    def constraint(self, then: str = "SELECT 1") -> None:
        """Rows of `chain` are looked at when the transaction ends; each brings the next."""
        self.own(
            "CREATE CONSTRAINT TRIGGER again AFTER INSERT ON tricks.chain DEFERRABLE INITIALLY"
            f" DEFERRED FOR EACH ROW EXECUTE FUNCTION tricks.follow('{then}')"
        )

    def execute(self, *statements: str) -> None:
        """A function of these statements."""
        self.declare(" ".join(f"EXECUTE $do${statement}$do$;" for statement in statements))

    def declare(self, body: str) -> None:
        self.own(
            "CREATE FUNCTION tricks.work() RETURNS jsonb LANGUAGE plpgsql AS"
            f" $work$ BEGIN {body} {GOOD} END $work$"
        )
        self.admin.job(
            "work", kind="sql", function_name="tricks.work", run_as=self.role, max_attempts=1
        )

    def caught(self) -> set[str]:
        """Everybody but the role."""
        caught = self.admin.rows(
            "SELECT who FROM tricks.caught UNION"
            " SELECT substr(message, 8) FROM rota.logs WHERE message LIKE 'ran as %'"
        )
        return {row["who"] for row in caught} - {self.role}


@pytest.fixture
def wall(server_kind: str, request: pytest.FixtureRequest, database_url: str) -> Iterator[Wall]:
    found = conninfo_to_dict(database_url)
    if server_kind == "distribution":
        admin = request.getfixturevalue("distribution_server").open_admin(found["dbname"])
    else:
        admin = psycopg.connect(database_url, autocommit=True)
    with admin:
        wall = Wall(admin, str(found["user"]))
        yield wall
        for role in (wall.role, *wall.friends):
            for statement in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
                admin.execute(statement.format(role).encode())


Run = Callable[[], Any]


@pytest.fixture
def run(wall: Wall, make_app: MakeApp) -> Run:
    async def run() -> Any:
        app = make_app()
        run_id = wall.admin.enqueue("work")
        async with app.worker():
            return await app.runs.wait(run_id, timeout=60)

    return run


SPY = "SELECT tricks.spy('left')"
HARMLESS = {
    "cursor": [f"DECLARE c CURSOR WITH HOLD FOR {SPY}"],
    "cursors": [f"DECLARE c{n} SCROLL CURSOR WITH HOLD FOR {SPY}" for n in range(5)],
    "cursor in a DO": [f"DO $$ BEGIN EXECUTE $q$DECLARE c CURSOR WITH HOLD FOR {SPY}$q$; END $$"],
    "plain cursor": [f"DECLARE c CURSOR FOR {SPY}"],
    "prepared statements": [f"PREPARE {name} AS {SPY}" for name in ("_pg3_0", "rota_finish")],
    "dynamic SQL": [SPY, "DO $$ BEGIN PERFORM tricks.spy('do'); END $$"],
    "notifications": ["LISTEN rota", "NOTIFY rota, 'jobs'", "NOTIFY rota, 'odd'"],
    "advisory locks": ["SELECT pg_advisory_lock(4711)", "SELECT pg_advisory_xact_lock(4712)"],
    "settings": [
        "SET TimeZone = 'Asia/Tokyo'",
        "SET array_nulls = off",
        "SET lock_timeout = '1ms'",
        "SET client_min_messages = 'error'",
        "SET SESSION application_name = 'rota run 1 worker 1'",
        "SELECT set_config('rota.actor', 'root', false)",
    ],
    "search path": [
        "CREATE FUNCTION tricks.count(bigint) RETURNS bigint LANGUAGE sql AS"
        " $$SELECT tricks.spy('count')$$",
        "CREATE FUNCTION tricks.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS"
        " $$SELECT tricks.spy('set_config')::pg_catalog.text$$",
        "CREATE FUNCTION tricks.same(integer, integer) RETURNS boolean LANGUAGE sql AS"
        " $$SELECT tricks.spy('same') IS NOT NULL$$",
        "CREATE OPERATOR tricks.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = tricks.same)",
        "CREATE DOMAIN tricks.text AS pg_catalog.text CHECK (tricks.spy('domain') IS NOT NULL)",
        "CREATE DOMAIN tricks.jsonb AS pg_catalog.jsonb CHECK (tricks.spy('domain') IS NOT NULL)",
        "SET search_path = tricks, pg_catalog",
    ],
    "temporary objects": [
        "CREATE TEMP TABLE open_runs (id bigint)",
        "CREATE TEMP TABLE command_marks (n integer)",
        "CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql AS"
        " $$SELECT pg_catalog.now() FROM tricks.spy('now')$$",
        "SET search_path = pg_temp, pg_catalog",
    ],
    "what a commit does with temporary tables": [
        "CREATE FUNCTION tricks.lie(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS"
        " $$BEGIN RETURN tricks.spy('index'); END$$",
        "CREATE TEMP TABLE gone (n integer) ON COMMIT DROP",
        "CREATE TEMP TABLE emptied (n integer) ON COMMIT DELETE ROWS",
        "CREATE INDEX ON emptied ((tricks.lie(n) + tricks.lie(1)))",
        "CREATE TRIGGER t AFTER INSERT OR DELETE OR TRUNCATE ON emptied"
        " EXECUTE FUNCTION tricks.follow('SELECT 1')",
    ],
}


@pytest.mark.parametrize("trick", HARMLESS)
async def test_what_is_left_behind_does_not_run_as_the_worker(
    wall: Wall, run: Run, trick: str
) -> None:
    wall.execute(*HARMLESS[trick])
    ended = await run()
    assert (ended.state, wall.caught()) == ("succeeded", set())
    assert wall.admin.audit(ended.id) == []


AGAIN = {
    "immediate": "SELECT 1",
    "deferred again": "SET CONSTRAINTS ALL DEFERRED",
    "deferred again by name": "SET CONSTRAINTS tricks.again DEFERRED",
    "a cursor": "DECLARE c CURSOR WITH HOLD FOR SELECT tricks.spy(''late'')",
}


@pytest.mark.parametrize("trick", AGAIN)
async def test_constraints_are_settled_as_the_role(wall: Wall, run: Run, trick: str) -> None:
    wall.constraint(AGAIN[trick])
    wall.execute("INSERT INTO tricks.chain VALUES (1)")
    ended = await run()
    assert (ended.state, wall.caught()) == ("succeeded", set())
    assert wall.admin.one("SELECT count(*) FROM tricks.caught WHERE how = 'trigger 1'") == 1


@pytest.mark.parametrize("trick", ["deferred again", "deferred again by name"])
async def test_some_more_are_settled_as_well(wall: Wall, run: Run, trick: str) -> None:
    wall.constraint(AGAIN[trick])
    wall.execute("INSERT INTO tricks.chain VALUES (4)")
    ended = await run()
    assert (ended.state, wall.caught()) == ("succeeded", set())
    assert wall.admin.one("SELECT count(*) FROM tricks.chain") == 4


@pytest.mark.parametrize("trick", ["deferred again", "deferred again by name"])
async def test_constraints_that_do_not_settle_are_refused(wall: Wall, run: Run, trick: str) -> None:
    wall.constraint(AGAIN[trick])
    wall.execute("INSERT INTO tricks.chain VALUES (1000)")
    ended = await run()
    assert (ended.state, wall.caught()) == ("failed", set())
    (attempt,) = wall.admin.attempts(ended.id)
    assert "deferred constraints still write" in attempt["error"]


async def test_an_exclusion_is_checked_as_the_role(wall: Wall, run: Run) -> None:
    wall.own(
        """
        CREATE FUNCTION tricks.lie(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
        $$BEGIN PERFORM tricks.spy('exclusion'); RETURN $1; END$$;
        CREATE TABLE tricks.apart (n integer,
            EXCLUDE USING btree ((tricks.lie(n)) WITH =) DEFERRABLE INITIALLY DEFERRED)
        """
    )
    wall.execute("INSERT INTO tricks.apart VALUES (1), (1)", "UPDATE tricks.apart SET n = 2")
    ended = await run()
    assert (ended.state, wall.caught()) == ("failed", set())


REFUSED = {
    "SET ROLE": ("SET ROLE NONE", "42501"),
    "RESET ROLE": ("RESET ROLE", "42501"),
    "set_config": ("SELECT set_config('role', 'none', false)", "42501"),
    "SESSION AUTHORIZATION": ("SET SESSION AUTHORIZATION DEFAULT", "42501"),
    "COMMIT": ("DO $$ BEGIN COMMIT; END $$", "2D000"),
    "COPY TO PROGRAM": ("COPY (SELECT 1) TO PROGRAM 'true'", "42501"),
    "an event trigger": (
        "CREATE EVENT TRIGGER t ON sql_drop EXECUTE FUNCTION tricks.follow()",
        "42501",
    ),
    "a trigger on a table of ours": (
        "CREATE TRIGGER t AFTER INSERT ON rota.ended_runs EXECUTE FUNCTION tricks.follow('')",
        "42501",
    ),
    "another caller": (
        "CREATE OR REPLACE FUNCTION rota.{role}(function regprocedure, payload jsonb, nonce text,"
        " OUT answer jsonb, OUT proof text) LANGUAGE sql AS $$SELECT '1'::jsonb, nonce$$",
        "42501",
    ),
    "another name": ("ALTER FUNCTION rota.{role} RENAME TO mine", "42501"),
    "replication role": ("SET session_replication_role = replica", "42501"),
    "the worker's tables": ("DELETE FROM rota.open_runs", "42501"),
}


@pytest.mark.parametrize("trick", REFUSED)
async def test_what_is_refused(wall: Wall, run: Run, trick: str) -> None:
    statement, code = REFUSED[trick]
    wall.admin.conn.execute(f"GRANT USAGE ON SCHEMA rota TO {wall.role}".encode())
    wall.execute(statement.format(role=f"run_as_{wall.role}"))
    ended = await run()
    assert (ended.state, wall.caught()) == ("failed", set())
    (attempt,) = wall.admin.attempts(ended.id)
    assert code in attempt["error_type"]


_FAKE = """
CREATE OR REPLACE FUNCTION {caller}(function regprocedure, payload jsonb, nonce text,
    OUT answer jsonb, OUT proof text) LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN answer := '{{"success": true}}'; proof := nonce; END $$
"""
# What its owner may do to a function, and with CREATE on the schema, or a friend, do besides.
ALTERED = {
    "invoker": "ALTER FUNCTION {caller} SECURITY INVOKER",
    "invoker with the role": "ALTER FUNCTION {caller} SECURITY INVOKER SET role = {role}",
    "invoker with a path":
        "ALTER FUNCTION {caller} SECURITY INVOKER SET search_path = tricks, pg_catalog",
    "all of it": "ALTER FUNCTION {caller} SECURITY INVOKER SET role = {role}"
        " SET search_path = tricks, pg_catalog",
    "strict": "ALTER FUNCTION {caller} STRICT",
    "immutable": "ALTER FUNCTION {caller} IMMUTABLE",
    "stable": "ALTER FUNCTION {caller} STABLE",
    "parallel": "ALTER FUNCTION {caller} PARALLEL SAFE",
    "a setting": "ALTER FUNCTION {caller} SET search_path = tricks, pg_catalog",
    "another schema": "ALTER FUNCTION {caller} SET SCHEMA tricks",
    "another name": "ALTER FUNCTION {caller} RENAME TO mine",
    "dropped": "DROP FUNCTION {caller}",
    "another owner": "ALTER FUNCTION {caller} OWNER TO {friend}",
    "another body": _FAKE,
    "another function": "ALTER FUNCTION {caller} RENAME TO mine;" + _FAKE,
}  # fmt: skip
_SHADOWS = """
CREATE FUNCTION tricks.other(name, name) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN PERFORM tricks.spy('<>'); RETURN false; END$$;
CREATE OPERATOR tricks.<> (LEFTARG = name, RIGHTARG = name, FUNCTION = tricks.other);
CREATE DOMAIN tricks.text AS pg_catalog.text CHECK (tricks.spy('domain') IS NOT NULL);
CREATE DOMAIN tricks.jsonb AS pg_catalog.jsonb CHECK (tricks.spy('domain') IS NOT NULL)
"""


def altered(wall: Wall, trick: str) -> str:
    """The statement, for a role that may do all of them: it creates in the schema too."""
    friend = f"friend_of_{wall.role}"
    wall.friends.append(friend)
    for statement in (
        f"CREATE ROLE {friend}",
        f"GRANT {friend} TO {wall.role}",
        f"GRANT USAGE, CREATE ON SCHEMA rota TO {wall.role}, {friend}",
    ):
        wall.admin.conn.execute(statement.encode())
    return ALTERED[trick].format(caller=f"rota.run_as_{wall.role}", role=wall.role, friend=friend)


@pytest.mark.parametrize("trick", ALTERED)
async def test_a_caller_that_was_changed_is_refused(wall: Wall, run: Run, trick: str) -> None:
    wall.own(_SHADOWS)
    wall.constraint(AGAIN["deferred again"])
    wall.execute(SPY, "INSERT INTO tricks.chain VALUES (1)")
    wall.own(altered(wall, trick))
    ended = await run()
    assert (ended.state, wall.caught()) == ("failed", set())


@pytest.mark.parametrize("trick", ALTERED)
async def test_a_caller_that_the_job_itself_changes_is_refused(
    wall: Wall, run: Run, trick: str
) -> None:
    """What is deferred after the change would run at the commit, as the worker."""
    wall.own(_SHADOWS)
    wall.constraint(AGAIN["deferred again"])
    statement = altered(wall, trick).replace("RENAME TO mine;", "RENAME TO mine; ")
    wall.execute(*statement.split("; "), "INSERT INTO tricks.chain VALUES (3)")
    ended = await run()
    assert (ended.state, wall.caught()) == ("failed", set())


async def test_a_change_that_is_taken_back_is_noticed(wall: Wall, run: Run) -> None:
    caller = f"rota.run_as_{wall.role}"
    wall.admin.conn.execute(f"GRANT USAGE ON SCHEMA rota TO {wall.role}".encode())
    wall.execute(f"ALTER FUNCTION {caller} STRICT", f"ALTER FUNCTION {caller} CALLED ON NULL INPUT")
    ended = await run()
    assert ended.state == "failed"
    (attempt,) = wall.admin.attempts(ended.id)
    assert "was changed while the job ran" in attempt["error"]


def test_nobody_else_may_act_as_the_role(wall: Wall) -> None:
    """Default privileges, as `rota grant` sets them, are not for this function."""
    other = f"other_{wall.role}"
    wall.friends.append(other)
    conn = wall.admin.conn
    (owner,) = wall.admin.rows(
        "SELECT pg_get_userbyid(relowner) AS name FROM pg_class WHERE oid = 'rota.jobs'::regclass"
    )
    conn.execute(f"CREATE ROLE {other}".encode())
    conn.execute(f"DROP FUNCTION rota.run_as_{wall.role}".encode())
    conn.execute(f"GRANT {wall.role} TO {owner['name']}".encode())
    with conn.transaction():
        conn.execute(f"SET LOCAL ROLE {owner['name']}".encode())
        conn.execute("SELECT rota.grant_worker(%s)", [other])
        conn.execute("SELECT rota.allow_run_as(%s, %s)", [wall.role, wall.worker_role])
    conn.execute("SELECT rota.grant_worker(%s)", [other])
    caller = f"rota.run_as_{wall.role}(regprocedure, jsonb, text)"
    may = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
    assert wall.admin.one(may, other, caller) is False
    assert wall.admin.one(may, wall.role, caller) is True
    assert wall.admin.one(may, wall.worker_role, caller) is True
    conn.execute(f"DROP OWNED BY {other}".encode())


async def test_locks_end_with_the_session(wall: Wall, run: Run) -> None:
    wall.execute("SELECT pg_advisory_lock(4711)")
    ended = await run()
    assert ended.state == "succeeded"
    with wall.admin.conn.transaction():
        wall.admin.conn.execute("SET LOCAL lock_timeout = '20s'")
        wall.admin.conn.execute("SELECT pg_advisory_xact_lock(4711)")
