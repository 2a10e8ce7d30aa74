"""Tables that emit: what is told, by whom, in which transaction; and what may be installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def orders(conn: Connection) -> Connection:
    conn.execute("CREATE TABLE orders (id int PRIMARY KEY, status text, total numeric, owner text)")
    return conn


def watch(conn: Connection, table: str = "orders", **options: Any) -> int:
    named = "".join(f", {key} => %({key})s" for key in options)
    query = f"SELECT rota.watch_table(%(table)s{named})"
    row = conn.execute(query.encode(), {"table": table, **options}).fetchone()
    assert row is not None
    return int(row[0])


def told(conn: Connection) -> list[tuple[str, Any, Any]]:
    rows = conn.execute("SELECT name, payload FROM rota.events ORDER BY id").fetchall()
    return [(name, payload["old"], payload["new"]) for name, payload in rows]


def drift(conn: Connection) -> list[list[str]]:
    return [row[0] for row in conn.execute("SELECT drift FROM rota.watches()").fetchall()]


def test_every_row_is_told(orders: Connection) -> None:
    watch(orders)
    orders.execute("INSERT INTO orders VALUES (1, 'open', 5, 'a'), (2, 'open', 7.5, NULL)")
    orders.execute("UPDATE orders SET status = 'paid'")
    orders.execute("UPDATE orders SET status = 'lost' WHERE false")
    orders.execute("DELETE FROM orders WHERE id = 2")
    first = {"id": 1, "status": "open", "total": 5, "owner": "a"}
    second = {"id": 2, "status": "open", "total": 7.5, "owner": None}
    assert told(orders) == [
        ("orders.insert", None, first),
        ("orders.insert", None, second),
        ("orders.update", first, first | {"status": "paid"}),
        ("orders.update", second, second | {"status": "paid"}),
        ("orders.delete", second | {"status": "paid"}, None),
    ]


@pytest.mark.commits
def test_who_where_and_what_are_known_to_the_run(orders: Connection) -> None:
    orders.execute(
        "INSERT INTO rota.jobs (name, events, event_filters) VALUES"
        ' (\'ship\', \'{orders.*}\', \'{"orders.*": {"new": {"status": "paid"}}}\')'
    )
    number = watch(orders, operations=["insert", "update"])
    with orders.transaction():
        orders.execute("SET LOCAL rota.actor = 'ada'")
        orders.execute("INSERT INTO orders VALUES (1, 'open', 5), (2, 'paid', 5)")
    (row,) = orders.execute("SELECT payload, triggered_by FROM rota.runs").fetchall()
    assert row[0]["new"]["id"] == 2
    (role,) = orders.execute("SELECT session_user").fetchone() or ("",)
    assert row[1] == {
        "type": "event", "event": "orders.insert", "event_id": 2, "actor": "ada", "role": role,
        "table": "public.orders", "operation": "insert", "trigger": f"rota_watch_{number}_insert",
    }  # fmt: skip
    orders.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
    assert orders.execute("SELECT count(*) FROM rota.runs").fetchone() == (2,)


def test_a_rollback_leaves_nothing(orders: Connection) -> None:
    watch(orders)
    with orders.transaction(force_rollback=True):
        orders.execute("INSERT INTO orders VALUES (1)")
    assert told(orders) == []


def test_conditions_and_columns(orders: Connection) -> None:
    watch(orders, operations=["insert", "update"], update_of=["status", "total"],
          condition="new.total > 100 AND coalesce(new.owner, '(') <> 'it''s; --'",
          columns=["id", "total"], event="big", tenant_column=None)  # fmt: skip
    orders.execute("INSERT INTO orders VALUES (1, 'open', 5), (2, 'open', 500)")
    orders.execute("UPDATE orders SET owner = 'x'")
    orders.execute("UPDATE orders SET status = 'open'")
    orders.execute("UPDATE orders SET total = 600")
    assert told(orders) == [
        ("big.insert", None, {"id": 2, "total": 500}),
        ("big.update", {"id": 1, "total": 5}, {"id": 1, "total": 600}),
        ("big.update", {"id": 2, "total": 500}, {"id": 2, "total": 600}),
    ]


def test_a_column_may_say_the_tenant(orders: Connection) -> None:
    watch(orders, tenant="none", tenant_column="owner")
    orders.execute("INSERT INTO orders VALUES (1, 'a', 1, 'acme'), (2, 'a', 1, NULL)")
    rows = orders.execute("SELECT tenant FROM rota.events ORDER BY id").fetchall()
    assert rows == [("acme",), ("none",)]


@pytest.mark.commits
def test_a_bulk_load_is_one_call(orders: Connection) -> None:
    """Ten thousand rows wake a waiting worker once, not ten thousand times."""
    orders.execute("INSERT INTO rota.jobs (name, events) VALUES ('ship', '{orders.insert}')")
    orders.execute("SELECT rota.register_worker('w', 'h', 1, '', '{}', '{ship}', 1, 600)")
    orders.execute("UPDATE rota.workers SET is_waiting = true, channel = 'rota_w'")
    watch(orders, operations=["insert"])
    orders.execute("LISTEN rota_w")
    orders.execute("INSERT INTO orders SELECT n, 'open', n FROM generate_series(1, 10500) n")
    assert orders.execute("SELECT count(*) FROM rota.runs").fetchone() == (10500,)
    heard = [one.payload for one in orders.notifies(timeout=1)]
    assert heard == ["queue default"]
    assert orders.execute(
        "SELECT array_agg((payload #>> '{new,id}')::bigint ORDER BY id) = array_agg(n ORDER BY n)"
        " FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM rota.events) e"
    ).fetchone() == (True,)


def test_copy_partitions_cascades_and_upserts(orders: Connection) -> None:
    watch(orders)
    with orders.cursor() as cursor, cursor.copy("COPY orders (id, status) FROM STDIN") as copy:
        copy.write_row((1, "copied"))
    orders.execute("INSERT INTO orders VALUES (1), (2) ON CONFLICT (id) DO UPDATE SET status = 'u'")
    assert sorted(name for name, *_ in told(orders)) == [
        "orders.insert", "orders.insert", "orders.update",
    ]  # fmt: skip
    orders.execute("CREATE TABLE items (id int, order_id int REFERENCES orders ON DELETE CASCADE)")
    orders.execute("INSERT INTO items VALUES (1, 1), (2, 1)")
    watch(orders, "items", operations=["delete"])
    orders.execute("DELETE FROM orders WHERE id = 1")
    assert [name for name, *_ in told(orders)].count("items.delete") == 2
    orders.execute("CREATE TABLE parts (id int, day int) PARTITION BY LIST (day)")
    orders.execute("CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1)")
    orders.execute("CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2)")
    watch(orders, "parts")
    orders.execute("INSERT INTO parts VALUES (1, 1), (2, 2)")
    orders.execute("UPDATE parts SET day = 3 - day")
    moved = [one for one in told(orders) if one[0] == "parts.update"]
    assert sorted((old["id"], old["day"], new["id"], new["day"]) for _, old, new in moved) == [
        (1, 1, 1, 2), (2, 2, 2, 1),
    ]  # fmt: skip


def test_what_runs_cannot_have_does_not_fail_the_write(orders: Connection) -> None:
    orders.execute("INSERT INTO rota.jobs (name, events) VALUES ('ship', '{orders.*}')")
    orders.execute("UPDATE rota.settings SET payload_bytes = 5000")
    watch(orders, operations=["insert"])
    watch(orders, operations=["insert"], condition="new.id > 0", event="some")
    large = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n"
    orders.execute(f"INSERT INTO orders VALUES (1, ({large}), 7)".encode())
    orders.execute("INSERT INTO orders VALUES (2, 'x', ('1' || repeat('0', 400))::numeric)")
    assert [new for _, _, new in told(orders)] == [{"id": 1}, {"id": 1}, {"id": 2}, {"id": 2}]


HOSTILE = "Ta\"ble; DROP TABLE x; -- '%s {} é"


def test_hostile_names(conn: Connection) -> None:
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    column = '"' + 'co""l, b; --\'$$%' + '"'
    conn.execute(f"CREATE TABLE {quoted} (id int, {column} text)".encode())
    watch(conn, quoted, columns=["id", "co\"l, b; --'$$%"], update_of=["co\"l, b; --'$$%"])
    watch(conn, quoted, event="plain", operations=["insert"])
    conn.execute(f"INSERT INTO {quoted} VALUES (1, 'x')".encode())
    conn.execute(f"UPDATE {quoted} SET {column} = 'y'".encode())
    names = [name for name, *_ in told(conn)]
    assert sorted(names)[-1] == "plain.insert"
    assert len(names) == 3
    assert conn.execute("SELECT count(*) FROM rota.watches() WHERE drift = '{}'").fetchone() == (2,)
    conn.execute("SELECT rota.unwatch_table(%s)", [quoted])
    assert conn.execute(
        "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'rota_watch%'"
    ).fetchone() == (0,)


@pytest.mark.parametrize(
    "options",
    [
        {"table": "nothing"},
        {"table": "orders; DROP TABLE orders"},
        {"table": "orders) EXECUTE FUNCTION x(); --"},
        {"table": ""},
        {"table": "rota.jobs"},
        {"table": "pg_catalog.pg_class"},
        {"table": "a_view"},
        {"operations": ["truncate"]},
        {"operations": []},
        {"columns": ["nothing"]},
        {"columns": ["id) FROM rota_new_rows; DROP TABLE orders; --"]},
        {"columns": []},
        {"update_of": ["nothing"]},
        {"operations": ["insert"], "update_of": ["id"]},
        {"tenant_column": "nothing"},
        {"tenant_column": "owner", "columns": ["id"]},
        {"event": "a b"},
        {"event": "a*"},
        {"event": "x" * 200},
        {"tenant": "x" * 201},
        {"condition": "new.nothing = 1"},
        {"condition": "old.id = 1"},
        {"condition": "new.total"},
        {"condition": "true) EXECUTE FUNCTION rota.watch_rows(); DROP TABLE orders; --"},
        {"condition": "true); DROP TABLE orders; SELECT (1"},
        {"condition": "(SELECT true)"},
        {"condition": "true -- x"},
        {"condition": "true /* x"},
        {"condition": "$$x$$ = 'x'"},
        {"condition": "E'\\' = ''"},
        {"condition": "'unfinished"},
        {"condition": "  "},
        {"condition": ")("},
    ],
)
def test_what_cannot_be_installed(orders: Connection, options: dict[str, Any]) -> None:
    orders.execute("CREATE VIEW a_view AS SELECT 1 AS id")
    with pytest.raises(psycopg.Error) as refused:
        watch(orders, **({"table": "orders"} | options))
    assert refused.value.sqlstate == "RO002", str(refused.value)
    left = "SELECT (SELECT count(*) FROM rota.table_watches), (SELECT count(*) FROM orders)"
    assert orders.execute(left).fetchone() == (0, 0)


def test_drift(orders: Connection) -> None:
    number = watch(orders, columns=["id", "status"])
    assert drift(orders) == [[]]
    orders.execute(f"ALTER TABLE orders DISABLE TRIGGER rota_watch_{number}_insert".encode())
    assert drift(orders) == [[f"the trigger rota_watch_{number}_insert is disabled"]]
    orders.execute(f"DROP TRIGGER rota_watch_{number}_insert ON orders".encode())
    assert drift(orders) == [[f"the trigger rota_watch_{number}_insert was dropped"]]
    orders.execute(
        "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    )
    orders.execute(
        f"CREATE TRIGGER rota_watch_{number}_insert AFTER INSERT ON orders"
        " EXECUTE FUNCTION other()".encode()
    )
    assert "calls another function" in drift(orders)[0][0]
    orders.execute("ALTER TABLE orders RENAME COLUMN status TO state")
    assert drift(orders)[0][0] == "the table has no column status"
    orders.execute("INSERT INTO orders VALUES (1)")
    orders.execute("UPDATE orders SET state = 'x'")
    assert told(orders) == [("orders.update", {"id": 1}, {"id": 1})]
    orders.execute("ALTER TABLE orders RENAME TO bills")
    assert drift(orders)[0][0] == "the table was renamed to public.bills"
    orders.execute("UPDATE bills SET state = 'y'")
    orders.execute("DROP TABLE bills")
    assert drift(orders) == [["the table was dropped"]]
    orders.execute("SELECT rota.unwatch_table(watch => %s)", [number])
    assert drift(orders) == []
    with pytest.raises(psycopg.Error) as refused:
        orders.execute("SELECT rota.unwatch_table(watch => %s)", [number])
    assert refused.value.sqlstate == "RO021"


class Roles(NamedTuple):
    """Roles belong to the whole server: these are of one test's database."""

    conn: Connection
    owner: str
    writer: str

    def do(self, query: str) -> None:
        self.conn.execute(query.format(owner=self.owner, writer=self.writer).encode())


@pytest.fixture
def roles(conn: Connection) -> Iterator[Roles]:
    made = Roles(conn, f"owner_{conn.info.dbname}", f"writer_{conn.info.dbname}")
    made.do("CREATE ROLE {owner}")
    made.do("CREATE ROLE {writer}")
    made.do("GRANT CREATE, USAGE ON SCHEMA public TO {owner}")
    conn.execute("SELECT rota.grant_worker(%s)", [made.owner])
    yield made
    conn.execute("RESET ROLE")
    made.do("DROP OWNED BY {owner}, {writer} CASCADE")
    made.do("DROP ROLE {owner}, {writer}")


@pytest.mark.commits
def test_who_may_install_and_who_may_write(roles: Roles) -> None:
    """A writer needs no right on Rota's schema, and its functions do nothing for it."""
    conn = roles.conn
    roles.do("SET ROLE {owner}")
    conn.execute("CREATE TABLE things (id int, name text)")
    roles.do("GRANT INSERT ON things TO {writer}")
    watch(conn, "things", operations=["insert"])
    watch(conn, "things", operations=["insert"], event="some", condition="new.id > 0")
    roles.do("SET ROLE {writer}")
    with conn.transaction():
        conn.execute("CREATE TEMP TABLE settings (payload_bytes int)")
        conn.execute("SET LOCAL search_path = pg_temp, public")
        conn.execute("INSERT INTO things VALUES (1, 'x')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("SELECT rota.emit('x')")
    conn.execute("RESET ROLE")
    rows = conn.execute("SELECT name, role FROM rota.events ORDER BY id").fetchall()
    assert sorted(rows) == [("some.insert", roles.writer), ("things.insert", roles.writer)]
    conn.execute("CREATE TABLE not_theirs (id int)")
    roles.do("GRANT ALL ON not_theirs TO {owner}")
    roles.do("SET ROLE {owner}")
    with pytest.raises(psycopg.Error, match="the owner of") as refused:
        watch(conn, "not_theirs")
    assert refused.value.sqlstate == "RO002"


@pytest.mark.parametrize("condition", [None, "new.id > 0"])
def test_a_type_of_the_tables_owner_runs_nothing_with_our_rights(
    roles: Roles, condition: str | None
) -> None:
    conn = roles.conn
    roles.do("SET ROLE {owner}")
    conn.execute("CREATE TABLE seen (who text)")
    conn.execute("GRANT INSERT ON seen TO PUBLIC")
    conn.execute("CREATE TYPE mood AS (word text)")
    for target in ("json", "text"):
        conn.execute(
            f"CREATE FUNCTION spy_{target}(mood) RETURNS {target} LANGUAGE plpgsql AS $$ BEGIN"
            f" INSERT INTO public.seen VALUES (current_user); RETURN '1'; END $$".encode()
        )
        cast = f"CREATE CAST (mood AS {target}) WITH FUNCTION spy_{target}(mood) AS ASSIGNMENT"
        conn.execute(cast.encode())
    conn.execute("CREATE DOMAIN small AS int")
    conn.execute("CREATE TYPE colour AS ENUM ('red')")
    conn.execute("CREATE TABLE things (id int, m mood, ms mood[], n small, c colour, e colour)")
    watch(conn, "things", condition=condition, operations=["insert"])
    conn.execute("INSERT INTO things VALUES (1, ROW('x'), ARRAY[ROW('y')::mood], 3, 'red', NULL)")
    conn.execute("RESET ROLE")
    assert conn.execute("SELECT * FROM seen").fetchall() == []
    assert told(conn)[0][2] == {
        "id": 1, "m": "(x)", "ms": "{(y)}", "n": "3", "c": "red", "e": None,
    }  # fmt: skip


def test_the_triggers_functions_are_not_for_everybody(roles: Roles) -> None:
    roles.do("GRANT CREATE, USAGE ON SCHEMA public TO {writer}")
    roles.do("SET ROLE {writer}")
    roles.do("CREATE TABLE mine (id int)")
    for function in ("watch_row", "watch_rows"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            roles.conn.execute(
                "CREATE TRIGGER t AFTER INSERT ON mine REFERENCING NEW TABLE AS rota_new_rows"
                f" EXECUTE FUNCTION rota.{function}('1', 'x', '', '', '')".encode()
            )


def test_wide_tables(conn: Connection) -> None:
    columns = ", ".join(f"c{n} int DEFAULT {n}" for n in range(150))
    conn.execute(f"CREATE TABLE wide ({columns})".encode())
    conn.execute("ALTER TABLE wide DROP COLUMN c3")
    watch(conn, "wide")
    conn.execute("INSERT INTO wide DEFAULT VALUES")
    assert told(conn)[0][2] == {f"c{n}": n for n in range(150) if n != 3}


def test_replays(conn: Connection) -> None:
    replay = "SELECT * FROM rota.replay_events('late', event => %s, dry_run => %s, again => %s)"
    for n in range(4):
        conn.execute("SELECT rota.emit('order.paid', jsonb_build_object('n', %s::int))", [n])
    conn.execute(
        "INSERT INTO rota.jobs (name, events, event_filters)"
        " VALUES ('late', '{order.*}', '{\"order.*\": {\"n\": {\">\": 0}}}')"
    )
    conn.execute("SELECT rota.emit('order.paid', '{\"n\": 9}')")
    assert conn.execute(replay, ["order.*", True, False]).fetchone() == (5, 3, 1, 1, 0, 0)
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (1,)
    assert conn.execute(replay, ["order.*", False, False]).fetchone() == (5, 3, 1, 1, 0, 0)
    assert conn.execute(replay, ["order.*", False, False]).fetchone() == (5, 0, 4, 1, 0, 0)
    assert conn.execute(replay, ["order.paid", False, True]).fetchone() == (5, 4, 0, 1, 0, 0)
    rows = conn.execute(
        "SELECT payload ->> 'n', triggered_by ? 'replayed_by' FROM rota.runs ORDER BY id LIMIT 4"
    ).fetchall()
    assert rows == [("9", False), ("1", True), ("2", True), ("3", True)]
    audits = conn.execute(
        "SELECT after ->> 'started' FROM rota.audit WHERE action = 'event.replayed'"
    )
    assert [one for (one,) in audits.fetchall()] == ["3", "0", "4"]
    for wrong in ("'nobody', event => 'x'", "'late'", "'late', event => 'x', ids => '{1}'"):
        with pytest.raises(psycopg.Error):
            conn.execute(f"SELECT rota.replay_events({wrong})".encode())


def test_a_replay_leaves_out_what_somebody_holds(conn: Connection, database_url: str) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('late')")
    conn.execute("SELECT rota.emit('a'), rota.emit('a')")
    conn.execute("SELECT rota.emit('a')")
    (first,) = conn.execute("SELECT min(id) FROM rota.events").fetchone() or (0,)
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM rota.events WHERE id = %s FOR UPDATE", [first])
        found = conn.execute("SELECT * FROM rota.replay_events('late', event => 'a')").fetchone()
        assert found == (2, 1, 0, 0, 1, 0) or found == (3, 2, 0, 0, 1, 0)


def test_a_table_that_somebody_holds_is_given_up_soon(
    orders: Connection, database_url: str
) -> None:
    orders.execute("ALTER FUNCTION rota.watch_table SET lock_timeout = '100ms'")
    orders.execute("ALTER FUNCTION rota.unwatch_table SET lock_timeout = '100ms'")
    number = watch(orders, operations=["insert"])
    with psycopg.connect(database_url) as other:
        other.execute("INSERT INTO orders VALUES (1)")
        for sql in ("SELECT rota.watch_table('orders')", "SELECT rota.unwatch_table('orders')"):
            with pytest.raises(psycopg.Error, match="in use") as refused:
                orders.execute(sql.encode())
            assert refused.value.sqlstate == "RO005"
    assert drift(orders) == [[]]
    assert orders.execute("SELECT id FROM rota.watches()").fetchall() == [(number,)]
