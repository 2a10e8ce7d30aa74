"""Events by plain SQL: what is kept, what is bound, what a filter lets through."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[tuple[Any, ...]]


def bind(conn: Connection, job: str, *events: str, **filters: Any) -> None:
    by_event = dict.fromkeys(events, filters["where"]) if filters else {}
    conn.execute(
        "INSERT INTO rota.jobs (name, events, event_filters) VALUES (%s, %s, %s)",
        [job, list(events), Jsonb(by_event)],
    )


def emit(conn: Connection, event: str, payload: Any = None, **options: Any) -> list[Any]:
    named = "".join(f", {key} => %({key})s" for key in options)
    query = f"SELECT job, run_id, is_duplicate FROM rota.emit(%(event)s, %(payload)s{named})"
    return conn.execute(
        query.encode(), {"event": event, "payload": Jsonb(payload or {}), **options}
    ).fetchall()


def kept(conn: Connection) -> list[Any]:
    return conn.execute(
        "SELECT name, rota.event_outcome(deliveries, duplicate_of), deliveries"
        " FROM rota.events ORDER BY id"
    ).fetchall()


def test_every_event_is_kept_with_what_it_came_to(conn: Connection) -> None:
    bind(conn, "ship", "order.paid")
    bind(conn, "big", "order.paid", where={"total": {">=": 100}})
    bind(conn, "off", "order.lost")
    conn.execute("UPDATE rota.jobs SET is_enabled = false WHERE name = 'off'")
    emit(conn, "nobody.cares")
    ((_, ship, _),) = emit(conn, "order.paid", {"total": 5}, key="7")
    emit(conn, "order.paid", {"total": 5}, key="7")
    ((_, off, _),) = emit(conn, "order.lost")
    conn.execute("UPDATE rota.jobs SET events = '{}' WHERE name = 'ship'")
    emit(conn, "order.paid", {"total": 5})
    skipped = {"job": "big", "skipped": "filter"}
    assert kept(conn) == [
        ("nobody.cares", "unbound", None),
        ("order.paid", "started", [skipped, {"job": "ship", "run": ship}]),
        ("order.paid", "duplicate", [skipped, {"job": "ship", "run": ship, "is_duplicate": True}]),
        ("order.lost", "started", [{"job": "off", "run": off, "is_disabled": True}]),
        ("order.paid", "filtered", [skipped]),
    ]


def test_a_rollback_leaves_nothing(conn: Connection) -> None:
    bind(conn, "ship", "order.paid")
    with conn.transaction(force_rollback=True):
        emit(conn, "order.paid", key="k", period_seconds=60)
        emit(conn, "nobody.cares")
    for table in ("events", "event_keys", "runs"):
        assert conn.execute(f"SELECT count(*) FROM rota.{table}".encode()).fetchone() == (0,)


def test_in_a_trigger_of_a_bulk_load(conn: Connection) -> None:
    """All of it, or with the load nothing."""
    bind(conn, "ship", "order.*")
    conn.execute("CREATE TABLE orders (id int)")
    conn.execute(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM rota.emit('order.new', jsonb_build_object('id', NEW.id)); RETURN NEW; END $$"
    )
    conn.execute("CREATE TRIGGER tell AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION tell()")
    conn.execute("INSERT INTO orders SELECT generate_series(1, 500)")
    with pytest.raises(psycopg.Error):
        conn.execute("INSERT INTO orders SELECT 1 / (500 - n) FROM generate_series(1, 500) n")
    counts = "SELECT (SELECT count(*) FROM rota.events), (SELECT count(*) FROM rota.runs)"
    assert conn.execute(counts).fetchone() == (500, 500)


@pytest.mark.parametrize(
    ("pattern", "fits", "not_these"),
    [
        ("order.*", ["order.paid", "order.item.added", "order."],
         ["order", "orders.paid", "xorder.a"]),
        ("*", ["a", "order.paid"], []),
        ("*.paid", ["order.paid", ".paid"], ["paid", "order.paid.twice"]),
        ("a*b*c", ["abc", "axxbxxc"], ["acb", "abcd"]),
        ("100%_*", ["100%_x"], ["100xyx", "100%xx"]),
        ("a\\*", ["a\\b"], ["ab"]),
        ("Order.*", ["Order.x"], ["order.x"]),
        ("[a].*", ["[a].b"], ["a.b"]),
        ("größe.*", ["größe.neu"], ["grösse.neu"]),
    ],
)  # fmt: skip
def test_patterns(conn: Connection, pattern: str, fits: list[str], not_these: list[str]) -> None:
    bind(conn, "j", pattern)
    for name in fits:
        assert len(emit(conn, name)) == 1, name
    for name in not_these:
        assert emit(conn, name) == [], name


def test_a_job_that_several_bindings_reach_gets_one_run(conn: Connection) -> None:
    bind(conn, "j", "order.*", "order.paid", "*")
    assert len(emit(conn, "order.paid")) == 1
    conn.execute('UPDATE rota.jobs SET event_filters = \'{"*": {"a": 1}, "order.*": {"b": 1}}\'')
    assert len(emit(conn, "order.paid", {})) == 1, "the name itself has no filter"
    assert len(emit(conn, "order.lost", {"a": 1})) == 1
    assert emit(conn, "order.lost", {"a": 2}) == []


@pytest.mark.parametrize(
    ("where", "fits", "not_these"),
    [
        ({"status": "paid"}, [{"status": "paid", "x": 1}],
         [{}, {"status": "lost"}, {"status": None}]),
        ({"new": {"status": "paid"}}, [{"new": {"status": "paid", "id": 1}}],
         [{"new": None}, {"status": "paid"}]),
        ({"total": {">=": 100}}, [{"total": 100}, {"total": 1e9}],
         [{"total": 99.9}, {"total": "100"}, {}]),
        ({"total": {">": 1, "<": 3}}, [{"total": 2}], [{"total": 1}, {"total": 3}]),
        ({"a": {"!=": 1}}, [{"a": 2}, {}, {"a": None}], [{"a": 1}]),
        ({"a": {"=": None}}, [{"a": None}], [{"a": 1}, {}]),
        ({"c": {"in": ["de", "at"]}}, [{"c": "at"}], [{"c": "fr"}, {}]),
        ({"c": {"not_in": ["de", "at"]}}, [{"c": "fr"}, {}], [{"c": "de"}]),
        ({"c": {"exists": True}}, [{"c": None}, {"c": 1}], [{}]),
        ({"c": {"exists": False}}, [{}], [{"c": None}]),
        ({"on": {">=": "2026-01-01"}}, [{"on": "2026-05-01"}], [{"on": "2025-12-31"}]),
        ({"old": {"status": {"!=": "paid"}}, "new": {"status": "paid"}},
         [{"old": {"status": "open"}, "new": {"status": "paid"}}],
         [{"old": {"status": "paid"}, "new": {"status": "paid"}}]),
        ({'q"uo\\te ; drop': {">": 1}}, [{'q"uo\\te ; drop': 2}], [{'q"uo\\te ; drop': 1}]),
        ({"s": {"=": 'x" || true || "'}}, [{"s": 'x" || true || "'}], [{"s": "x"}]),
        ({"tags": ["a"]}, [{"tags": ["b", "a"]}], [{"tags": ["b"]}]),
        ({}, [{}, {"a": 1}], []),
    ],
)  # fmt: skip
def test_filters(conn: Connection, where: Any, fits: list[Any], not_these: list[Any]) -> None:
    bind(conn, "j", "e", where=where)
    for payload in fits:
        assert len(emit(conn, "e", payload)) == 1, payload
        assert conn.execute(
            "SELECT rota.fits(%s, %s)", [Jsonb(payload), Jsonb(where)]
        ).fetchone() == (True,)
    for payload in not_these:
        assert emit(conn, "e", payload) == [], payload
        assert conn.execute(
            "SELECT rota.fits(%s, %s)", [Jsonb(payload), Jsonb(where)]
        ).fetchone() == (False,)


@pytest.mark.parametrize(
    "where",
    [
        {"a": {">": 1, "like": "x"}},
        {"a": {">": {"b": 1}}},
        {"a": {"in": []}},
        {"a": {"in": "x"}},
        {"a": {"in": [[1]]}},
        {"a": {"exists": 1}},
    ],
)
def test_a_filter_that_is_none_is_refused_when_it_is_written(conn: Connection, where: Any) -> None:
    with pytest.raises(psycopg.Error) as refused:
        bind(conn, "j", "e", where=where)
    assert refused.value.sqlstate == "RO002"
    with pytest.raises(psycopg.Error):
        conn.execute("INSERT INTO rota.jobs (name, event_filters) VALUES ('x', '{\"e\": 1}')")


def test_a_job_that_leaves_the_code_or_is_deleted_is_bound_to_nothing(conn: Connection) -> None:
    bind(conn, "gone", "e")
    bind(conn, "deleted", "e")
    conn.execute("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = 'gone'")
    conn.execute("SELECT rota.delete_job('deleted')")
    assert emit(conn, "e") == []
    conn.execute("UPDATE rota.jobs SET deleted_from_code_at = NULL WHERE name = 'gone'")
    assert [job for job, *_ in emit(conn, "e")] == ["gone"]


def test_a_period_of_its_own_holds_whatever_becomes_of_the_runs(conn: Connection) -> None:
    bind(conn, "ship", "order.paid")
    ((_, first, _),) = emit(conn, "order.paid", key="k", period_seconds=60)
    conn.execute("SELECT rota.cancel_run(%s)", [first])
    assert emit(conn, "order.paid", key="k", period_seconds=60) == [("ship", first, True)]
    assert len(emit(conn, "order.paid", key="k", period_seconds=60, tenant="acme")) == 1
    assert emit(conn, "nobody", key="k", period_seconds=60) == []
    assert emit(conn, "nobody", key="k", period_seconds=60) == []
    assert [one[1] for one in kept(conn)] == [
        "started", "duplicate", "started", "unbound", "duplicate",
    ]  # fmt: skip
    conn.execute("SELECT rota.set_clock(rota.now() + interval '61 seconds')")
    ((_, again, is_duplicate),) = emit(conn, "order.paid", key="k", period_seconds=60)
    assert (again != first, is_duplicate) == (True, False)
    conn.execute("SELECT rota.set_clock(rota.now() + interval '61 seconds')")
    assert conn.execute("SELECT rota.prune_event_keys(rota.now(), 100)").fetchone() == (3,)


@pytest.mark.parametrize(
    "options",
    [
        {"period_seconds": 1.0},
        {"key": "k", "period_seconds": 0.0},
        {"key": "k", "period_seconds": float("nan")},
        {"key": "k", "period_seconds": 1e12},
        {"key": "k", "period_seconds": 1.0, "key_seconds": 1.0},
        {"key": ""},
        {"key": "k" * 401},
        {"tenant": "t" * 201},
        {"tenant": None},
        {"metadata": Jsonb([1])},
    ],
)
def test_what_cannot_be_is_refused_also_where_nobody_listens(
    conn: Connection, options: dict[str, Any]
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        emit(conn, "nobody.cares", **options)
    assert refused.value.sqlstate == "RO002"


@pytest.mark.parametrize("event", ["a b", "", "a*", "x" * 201, "a\nb", None])
def test_hostile_names(conn: Connection, event: Any) -> None:
    with pytest.raises(psycopg.Error) as refused:
        emit(conn, event)
    assert refused.value.sqlstate == "RO002"


@pytest.mark.commits
def test_it_says_who_and_from_where(conn: Connection) -> None:
    bind(conn, "ship", "order.paid")
    writer = f"writer_{conn.info.dbname}"
    conn.execute(f"CREATE ROLE {writer}".encode())
    try:
        conn.execute("SELECT rota.grant_worker(%s)", [writer])
        with conn.transaction():
            conn.execute(f"SET LOCAL ROLE {writer}".encode())
            conn.execute("SET LOCAL rota.actor = 'ada'")
            ((_, run, _),) = emit(conn, "order.paid", hook="django.post_save")
        found = conn.execute("SELECT actor, role, source FROM rota.events").fetchone()
        assert found == ("ada", writer, {"hook": "django.post_save"})
        query = "SELECT triggered_by FROM rota.runs WHERE id = %s"
        (by,) = conn.execute(query, [run]).fetchone() or ({},)
        assert by == {
            "type": "event", "event": "order.paid", "event_id": 1, "actor": "ada",
            "role": writer, "hook": "django.post_save",
        }  # fmt: skip
    finally:
        conn.execute(f"DROP OWNED BY {writer}".encode())
        conn.execute(f"DROP ROLE {writer}".encode())


def test_there_is_room_after_weeks_without_a_worker(conn: Connection) -> None:
    conn.execute("UPDATE rota.settings SET clock_offset = interval '90 days'")
    emit(conn, "nobody.cares")
    assert len(kept(conn)) == 1


def test_odd_rows_are_read(conn: Connection) -> None:
    for deliveries in ("[]", "7", '"x"', '[1, null, {"run": "x"}]', '{"run": 1}'):
        conn.execute(
            "INSERT INTO rota.events (name, id, at, payload, deliveries)"
            " VALUES ('odd', 1, rota.now(), '[]', %s)", [deliveries],
        )  # fmt: skip
        conn.execute("SELECT rota.event_outcome(deliveries, duplicate_of) FROM rota.events")
        conn.execute("DELETE FROM rota.events")
