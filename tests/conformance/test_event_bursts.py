"""Events that are debounced and throttled for a job, whichever way they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sql_engine import Engine, Row

LAST = {"debounce_seconds": 10, "longest_seconds": 25, "key": "order:{id}"}
FIRST = {"throttle_seconds": 60, "key": "order:{id}"}


@pytest.fixture
def shop(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)


def bind(shop: Engine, rule: Any, *events: str, job: str = "sync") -> None:
    shop.job(job, events=list(events or ("order.*",)), event_delivery=Jsonb(rule))


def emit(shop: Engine, event: str = "order.changed", /, **payload: Any) -> Row:
    """The one delivery of the event, as it is kept."""
    shop.rows("SELECT * FROM rota.emit(%s, %s)", event, Jsonb(payload))
    return delivery(shop)


def delivery(shop: Engine) -> Row:
    (only,) = shop.one("SELECT deliveries FROM rota.events ORDER BY id DESC LIMIT 1")
    return dict(only)


def outcomes(shop: Engine) -> list[str]:
    rows = shop.rows(
        "SELECT rota.event_outcome(deliveries, duplicate_of) AS it FROM rota.events ORDER BY id"
    )
    return [row["it"] for row in rows]


def runs(shop: Engine) -> list[tuple[str, Any]]:
    found = shop.rows("SELECT state, payload FROM rota.runs ORDER BY id")
    return [(row["state"], row["payload"]) for row in found]


def why(shop: Engine, subject: str) -> dict[str, str]:
    rows = shop.rows("SELECT code, sentence FROM rota.why(%s)", subject)
    return {row["code"]: row["sentence"] for row in rows}


def test_the_last_event_of_a_burst_runs(shop: Engine) -> None:
    bind(shop, LAST)
    first = emit(shop, id=1, n=1)
    assert first == {"job": "sync", "run": first["run"], "debounced": True}
    shop.advance(6)
    assert emit(shop, "order.paid", id=1, n=2) == first | {"is_duplicate": True}
    other = emit(shop, id=2, n=3)
    assert other["run"] != first["run"], "another key is another burst"
    shop.advance(6)
    assert shop.promote() == 0
    shop.advance(5)
    assert shop.promote() == 2
    claims = shop.claim(shop.worker("sync"), jobs=["sync"])
    assert [it["payload"]["n"] for it in claims] == [2, 3]
    cause = shop.run(first["run"])["triggered_by"]
    assert (cause["event"], cause["event_id"], cause["debounced"]) == ("order.paid", 2, 2)
    assert emit(shop, id=1, n=4)["run"] not in (first["run"], other["run"]), "a new burst begins"
    assert outcomes(shop) == ["debounced"] * 4


def test_a_burst_that_does_not_end_runs_after_the_longest_wait(shop: Engine) -> None:
    bind(shop, LAST)
    for n in range(3):
        emit(shop, id=1, n=n)
        shop.advance(9)
    assert shop.promote() == 1
    assert runs(shop) == [("queued", {"id": 1, "n": 2})]


def test_the_first_event_of_each_period_runs(shop: Engine) -> None:
    bind(shop, FIRST)
    first = emit(shop, id=1, n=1)
    assert first == {"job": "sync", "run": first["run"]}
    until = shop.one("SELECT to_jsonb(expires_at) FROM rota.keys")
    later = emit(shop, id=1, n=2)
    assert later == first | {"is_duplicate": True, "throttled_until": until}
    emit(shop, id=2, n=3)
    shop.advance(61)
    assert emit(shop, id=1, n=4)["run"] != first["run"]
    assert [payload["n"] for _, payload in runs(shop)] == [1, 3, 4]
    assert outcomes(shop) == ["started", "throttled", "started", "started"]


@pytest.mark.parametrize(
    ("rule", "expected"), [(LAST, [(1, 9), (2, 10)]), (FIRST, [(1, 1), (2, 2)])]
)
def test_a_bulk_load_is_one_run_for_each_burst(
    shop: Engine, rule: Any, expected: list[tuple[int, int]]
) -> None:
    bind(shop, rule | {"key": "{new.owner}"}, "orders.insert")
    shop.conn.execute("CREATE TABLE orders (id int, owner int)")
    shop.conn.execute("SELECT rota.watch_table('orders')")
    shop.conn.execute("INSERT INTO orders SELECT n, 2 - n % 2 FROM generate_series(1, 10) n")
    found = [(payload["new"]["owner"], payload["new"]["id"]) for _, payload in runs(shop)]
    assert found == expected
    shop.conn.execute("INSERT INTO orders VALUES (11, 1)")
    assert len(runs(shop)) == 2, "the next statement joins them"
    got = shop.rows("SELECT payload #>> '{new,owner}' AS owner, deliveries FROM rota.events")
    by_owner = {row["owner"]: row["deliveries"][0]["run"] for row in got}
    assert all(row["deliveries"][0]["run"] == by_owner[row["owner"]] for row in got)
    fresh = [row for row in got if "is_duplicate" not in row["deliveries"][0]]
    assert len(fresh) == 2


def test_rows_under_a_condition_too(shop: Engine) -> None:
    bind(shop, LAST | {"key": "{new.owner}"}, "orders.insert")
    shop.conn.execute("CREATE TABLE orders (id int, owner int)")
    shop.conn.execute(
        "SELECT rota.watch_table('orders', ARRAY['insert'], condition => 'new.id > 1')"
    )
    shop.conn.execute("INSERT INTO orders SELECT n, 7 FROM generate_series(1, 5) n")
    ((state, payload),) = runs(shop)
    assert (state, payload["new"]["id"]) == ("scheduled", 5)
    assert shop.one("SELECT triggered_by ->> 'debounced' FROM rota.open_runs") == "4"


def test_the_key_and_the_name_of_the_event_are_words_of_the_template(shop: Engine) -> None:
    bind(shop, {"throttle_seconds": 60, "key": "{event.name}/{event.key}"})
    for event, key in (("order.a", "x"), ("order.b", "x"), ("order.a", "x"), ("order.a", "y")):
        shop.rows("SELECT * FROM rota.emit(%s, key => %s)", event, key)
    assert outcomes(shop) == ["started", "started", "throttled", "started"]
    keys = shop.rows("SELECT key FROM rota.keys ORDER BY key")
    assert [row["key"] for row in keys] == [
        "event:order.a/x", "event:order.a/y", "event:order.b/x",
    ]  # fmt: skip


def test_a_webhook_that_sends_twice_counts_once_before_that(shop: Engine) -> None:
    """Its key has a period: what is sent again is a duplicate, and puts nothing off."""
    bind(shop, LAST | {"key": "{event.key}"}, "hook.*")
    for _ in range(2):
        shop.rows("SELECT * FROM rota.emit('hook.push', key => 'd1', period_seconds => 60)")
    assert outcomes(shop) == ["debounced", "duplicate"]
    assert shop.one("SELECT triggered_by ->> 'debounced' FROM rota.open_runs") == "1"
    assert shop.one("SELECT key FROM rota.keys") == "event:d1"


def test_tenants_have_bursts_of_their_own(shop: Engine) -> None:
    bind(shop, {"debounce_seconds": 5})
    for tenant in ("acme", "zeta", "acme"):
        shop.rows("SELECT * FROM rota.emit('order.x', tenant => %s)", tenant)
    assert shop.one("SELECT array_agg(tenant ORDER BY id) FROM rota.open_runs") == ["acme", "zeta"]


@pytest.mark.parametrize(("rule", "expected"), [(LAST, 3), (FIRST, 1)])
def test_a_replay_is_a_burst(shop: Engine, rule: Any, expected: int) -> None:
    for n in (1, 2, 3):
        shop.rows("SELECT * FROM rota.emit('order.x', %s)", Jsonb({"id": 1, "n": n}))
    shop.rows("SELECT * FROM rota.emit('order.x', %s)", Jsonb({"id": 2, "n": 9}))
    bind(shop, rule)
    replay = "SELECT * FROM rota.replay_events('sync', event => 'order.x', dry_run => %s)"
    told = {"events": 4, "started": 2, "joined": 2, "delivered_before": 0, "filtered": 0, "held": 0}
    assert shop.rows(replay, True) == [told]
    assert runs(shop) == []
    assert shop.rows(replay, False) == [told]
    assert [payload["n"] for _, payload in runs(shop)] == [expected, 9]
    again = told | {"started": 0, "joined": 0, "delivered_before": 4}
    assert shop.rows(replay, False) == [again]
    (got,) = shop.one("SELECT deliveries FROM rota.events ORDER BY id LIMIT 1")
    assert got["replayed_by"]
    assert got["run"] == shop.one("SELECT min(id) FROM rota.runs")
    assert shop.audit("sync")[-2]["after"]["joined"] == 2


def test_a_rollback_leaves_the_burst_as_it_was(shop: Engine) -> None:
    bind(shop, LAST)
    emit(shop, id=1, n=1)
    with shop.conn.transaction(force_rollback=True):
        emit(shop, id=1, n=2)
    assert runs(shop) == [("scheduled", {"id": 1, "n": 1})]
    assert shop.one("SELECT triggered_by ->> 'debounced' FROM rota.open_runs") == "1"


def test_others_of_a_burst_wait_for_its_transaction(
    shop: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """And then one of them is the last: no second run, and none lost."""
    bind(shop, LAST)
    other = Engine(connect())
    with shop.conn.transaction():
        emit(shop, id=1, n=1)
        other.conn.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            emit(other, id=1, n=2)
        emit(other, id=2, n=3)
    other.conn.execute("SET lock_timeout = 0")
    emit(other, id=1, n=4)
    assert sorted(payload["n"] for _, payload in runs(shop)) == [3, 4]


def test_a_filter_comes_before_the_burst(shop: Engine) -> None:
    shop.job(
        "sync", events=["order.*"], event_filters=Jsonb({"order.*": {"total": {">": 5}}}),
        event_delivery=Jsonb({"debounce_seconds": 10}),
    )  # fmt: skip
    emit(shop, total=9)
    assert emit(shop, total=1) == {"job": "sync", "skipped": "filter"}
    assert runs(shop) == [("scheduled", {"total": 9})]


@pytest.mark.commits
def test_why_says_it(shop: Engine) -> None:
    bind(shop, LAST)
    run = emit(shop, id=1)["run"]
    emit(shop, id=1)
    assert "the latest of 2 events" in why(shop, str(run))["debounced"]
    bind(shop, FIRST, "bill.*", job="bill")
    first = emit(shop, "bill.made", id=1)["run"]
    emit(shop, "bill.made", id=1)
    said = why(shop, "bill")["event_throttled"]
    assert said.startswith("Event 4, ")
    assert f"run {first} " in said


@pytest.mark.parametrize(
    "rule",
    [
        [], "x", {}, {"key": "a"}, {"debounce_seconds": 1, "throttle_seconds": 1},
        {"debounce_seconds": "1"}, {"debounce_seconds": 0}, {"throttle_seconds": 1e9},
        {"throttle_seconds": 5, "longest_seconds": 9},
        {"debounce_seconds": 5, "longest_seconds": 4},
        {"debounce_seconds": 1, "key": ""}, {"debounce_seconds": 1, "key": "{"},
        {"debounce_seconds": 1, "key": 7}, {"debounce_seconds": 1, "quiet": 7},
        {"debounce_seconds": 1, "key": "{a b}"}, {"debounce_seconds": None},
    ],
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused(shop: Engine, rule: Any) -> None:
    with pytest.raises(psycopg.Error, match="event_delivery") as caught:
        bind(shop, rule)
    assert caught.value.sqlstate == "RO002"
