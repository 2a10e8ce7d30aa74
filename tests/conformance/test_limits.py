"""Limits by the SQL functions alone: who becomes ready, and what gives a slot back."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine, Row


def limit(engine: Engine, name: str = "few", /, **changes: Any) -> int:
    changes = {"jobs": ["work"], "cap": 2} | changes
    wanted = {key: value for key, value in changes.items() if value is not None}
    return int(engine.one("SELECT rota.set_limit(%s, %s)", name, json.dumps(wanted)))


def admit(engine: Engine, most: int = 1000) -> int:
    """As a worker does: until there is nothing more to do at once."""
    total = 0
    while True:
        (row,) = engine.rows("SELECT * FROM rota.admit_runs(%s)", most)
        total += row["admitted"]
        if row["next_seconds"] != 0:
            return total


def claim(engine: Engine, worker: int, most: int = 10, **options: Any) -> list[Row]:
    admit(engine)
    return engine.claim(worker, most, **options)


def in_use(engine: Engine) -> dict[str, int]:
    admit(engine)
    rows = engine.rows("SELECT key, in_use FROM rota.limit_slots WHERE in_use <> 0")
    return {row["key"].partition(":")[2]: row["in_use"] for row in rows}


def ids(rows: list[Row]) -> list[int]:
    return [row["id"] for row in rows]


def books(engine: Engine) -> None:
    assert engine.rows("SELECT * FROM rota.limit_differences()") == []


def test_no_more_than_the_cap_are_ready(engine: Engine) -> None:
    limit(engine)
    runs, worker = [engine.enqueue() for _ in range(5)], engine.worker()
    assert engine.claim(worker) == []  # nothing before its admission
    assert engine.run(runs[0])["held_by"] == "limit"
    first = claim(engine, worker)
    assert ids(first) == runs[:2]
    assert claim(engine, worker) == []
    engine.succeed(worker, first[0])
    assert ids(claim(engine, worker)) == [runs[2]]
    assert in_use(engine) == {"": 2}
    books(engine)


def test_runs_without_a_limit_are_ready_at_once(engine: Engine) -> None:
    limit(engine)
    engine.job("free")
    run, worker = engine.enqueue("free"), engine.worker("work", "free")
    assert ids(engine.claim(worker, jobs=["free"])) == [run]
    assert engine.one("SELECT count(*) FROM rota.limit_slots") == 0


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({"jobs": None, "queue": "mail"}, {"queue": "other"}),
        ({"jobs": None}, {}),
    ],
)
def test_a_limit_of_a_queue_or_of_all(
    engine: Engine, changes: dict[str, Any], others: dict[str, Any]
) -> None:
    limit(engine, cap=1, **changes)
    for _ in range(2):
        engine.enqueue(queue="mail")
        engine.enqueue(queue=others.get("queue", "mail"))
    worker = engine.worker()
    expected = 3 if others else 1
    assert len(claim(engine, worker, queues=["mail", "other"])) == expected


def test_a_limit_of_a_tenant_holds_only_its_runs(engine: Engine) -> None:
    engine.one("SELECT rota.set_limit('acme', '{\"cap\": 1}', tenant => 'acme')")
    for tenant in ("acme", "acme", "other", "other"):
        engine.enqueue(tenant=tenant)
    claims = claim(engine, engine.worker())
    assert sorted(engine.run(one["id"])["tenant"] for one in claims) == ["acme", "other", "other"]


def test_a_key_has_a_counter_for_each_of_its_values(engine: Engine) -> None:
    limit(engine, cap=1, key="customer:{customer.id}")
    for customer in (1, 1, 2, 2):
        engine.enqueue(payload={"customer": {"id": customer}})
    worker = engine.worker()
    assert len(claim(engine, worker)) == 2
    assert in_use(engine) == {"customer:1": 1, "customer:2": 1}


@pytest.mark.parametrize(
    ("template", "payload", "filled"),
    [
        ("{a}:{b}", {"a": "{b}", "b": "x"}, "{b}:x"),
        ("{b}-{a}-{b}", {"a": "1", "b": "{a}"}, "{a}-1-{a}"),
        ("plain", {}, "plain"),
        ("{deep.er}!", {"deep": {"er": 7}}, "7!"),
        ("{missing}", {}, ""),
    ],
)
def test_a_value_that_looks_like_a_field_stays_as_it_is(
    engine: Engine, template: str, payload: dict[str, Any], filled: str
) -> None:
    fill = "SELECT rota.fill_key(%s, %s, 'job', 'queue', 'tenant', NULL)"
    assert engine.one(fill, template, json.dumps(payload)) == filled


def test_a_run_under_two_limits_takes_both_or_none(engine: Engine) -> None:
    limit(engine, "all", cap=2)
    limit(engine, "each", cap=1, key="{customer}")
    runs = [engine.enqueue(payload={"customer": name}) for name in "aab"]
    worker = engine.worker()
    claims = claim(engine, worker)
    assert ids(claims) == [runs[0], runs[2]]  # the second waits for its customer, not before all
    assert in_use(engine) == {"": 2, "a": 1, "b": 1}
    engine.succeed(worker, *claims)
    assert ids(claim(engine, worker)) == [runs[1]]
    books(engine)


@pytest.mark.parametrize("how", ["finish", "span", "fail", "put_off", "cancel", "expire", "park"])
def test_whatever_leaves_gives_its_slot_back(engine: Engine, how: str) -> None:
    limit(engine, cap=1)
    later = engine.one("SELECT rota.now() + interval '30 s'") if how == "expire" else None
    run, worker = engine.enqueue(expires_at=later, max_attempts=2), engine.worker()
    admit(engine)
    if how == "cancel":
        engine.cancel(run)
    elif how == "expire":
        engine.advance(31)
        engine.one("SELECT rota.expire_runs(10)")
    elif how == "park":
        engine.conn.execute("UPDATE rota.workers SET state = 'gone', ended_at = now()")
        engine.one("SELECT rota.count_depths(0)")
        assert engine.one("SELECT rota.park_unknown_runs(10)") == 1
    else:
        (claimed,) = engine.claim(worker)
        if how == "finish":
            engine.succeed(worker, claimed)
        elif how == "span":
            assert engine.succeed_span(worker, claimed) == 1
        elif how == "fail":
            engine.fail(worker, claimed)
        else:
            engine.requeue(worker, claimed, delay=60)
    assert in_use(engine) == {}
    books(engine)
    if how == "park":
        engine.worker()
        assert engine.one("SELECT rota.free_known_runs(10)") == 1
        assert engine.run(run)["held_by"] == "limit"
    if how == "put_off":
        engine.advance(61)
        engine.promote()
        assert engine.run(run)["held_by"] == "limit"
    if how in ("park", "put_off"):
        assert admit(engine) == 1
        assert in_use(engine) == {"": 1}


@pytest.mark.parametrize("how", ["retry_now", "hand_back", "lost", "suspect"])
def test_whatever_stays_keeps_its_slot(engine: Engine, how: str) -> None:
    limit(engine, cap=1)
    engine.enqueue(max_attempts=5)
    second, worker = engine.enqueue(), engine.worker(lease=60)
    (claimed,) = claim(engine, worker)
    if how == "retry_now":
        engine.requeue(worker, claimed, delay=0.0)
    elif how == "hand_back":
        engine.hand_back(worker, claimed)
    else:
        engine.conn.execute("UPDATE rota.workers SET state = 'lost', ended_at = now()")
        engine.one("SELECT count(*) FROM rota.rescue_runs(10)")
    assert in_use(engine) == {"": 1}
    assert engine.run(second)["held_by"] == "limit"
    books(engine)


def test_a_retried_run_waits_for_its_place(engine: Engine) -> None:
    limit(engine, cap=1)
    run, worker = engine.enqueue(), engine.worker()
    engine.fail(worker, *claim(engine, worker))
    other = engine.enqueue()
    admit(engine)
    engine.retry(run)
    assert ids(claim(engine, worker)) == [other]
    assert engine.run(run)["held_by"] == "limit"


def test_a_cap_that_is_lowered_lets_go_on_what_runs(engine: Engine) -> None:
    limit(engine, cap=3)
    for _ in range(6):
        engine.enqueue()
    worker = engine.worker()
    claims = claim(engine, worker)
    limit(engine, cap=1)
    assert claim(engine, worker) == []
    engine.succeed(worker, *claims[:2])
    assert claim(engine, worker) == []
    engine.succeed(worker, claims[2])
    assert len(claim(engine, worker)) == 1
    limit(engine, cap=0)
    assert claim(engine, worker) == []
    limit(engine, cap=5)
    assert len(claim(engine, worker)) == 2
    deeds = [row["action"] for row in engine.audit("few")]
    assert deeds == ["limit.created"] + 3 * ["limit.updated"]


def test_a_new_limit_holds_what_waits_and_counts_what_runs(engine: Engine) -> None:
    for _ in range(4):
        engine.enqueue()
    worker = engine.worker()
    claims = engine.claim(worker, 2)
    limit(engine, cap=3)
    assert len(claim(engine, worker)) == 1
    assert in_use(engine) == {"": 3}
    engine.succeed(worker, *claims)
    assert len(claim(engine, worker)) == 1
    books(engine)


def pass_over(engine: Engine) -> bool:
    """The next pass over the runs from before a limit, now; returns whether others follow."""
    engine.conn.execute(
        "UPDATE rota.limits SET adopt_at = clock_timestamp() WHERE adopt_at < 'infinity'"
    )
    admit(engine)
    return bool(engine.one("SELECT count(*) FROM rota.limits WHERE adopt_at IS NOT NULL"))


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_runs_that_commit_late_do_not_escape(engine: Engine, other: Engine, tenant: str) -> None:
    """Nobody starts them before they are brought under the limit, however long that takes."""
    with other.conn.transaction():
        late = [other.enqueue(tenant=tenant) for _ in range(6)]
        limit(engine, cap=1)
        first = engine.enqueue(tenant=tenant)
        worker = engine.worker()
        assert ids(claim(engine, worker, lane=tenant)) == [first]
        assert [pass_over(engine) for _ in range(5)] == [True] * 5
    assert engine.claim(worker, lane=tenant) == [], "they are ready, and not brought under it"
    while pass_over(engine):
        pass
    assert in_use(engine) == {"": 1}
    assert {engine.run(run)["held_by"] for run in late} == {"limit"}
    assert engine.one("SELECT is_adopting FROM rota.settings") is False
    engine.succeed(worker, {"id": first, "attempt": 1})
    assert ids(claim(engine, worker, lane=tenant)) == [late[0]]
    books(engine)


def test_a_run_that_somebody_holds_is_looked_at_again(engine: Engine, other: Engine) -> None:
    run = engine.enqueue()
    limit(engine, cap=0)
    with other.conn.transaction():
        other.rows("SELECT FROM rota.open_runs FOR UPDATE")
        assert [pass_over(engine) for _ in range(5)] == [True] * 5
    while pass_over(engine):
        pass
    assert engine.run(run)["held_by"] == "limit"


def test_a_number_from_another_server_ends_the_passes(engine: Engine) -> None:
    """After a restore: the transactions that it speaks of are none of this server's."""
    limit(engine)
    pass_over(engine)
    engine.conn.execute("UPDATE rota.limits SET adopt_xid = '99999999999'")
    assert pass_over(engine) is False


@pytest.mark.parametrize("state", ["running", "lost", "cut off"])
def test_every_start_needs_a_token(engine: Engine, state: str) -> None:
    """Also one after a rescue or a shutdown, and that of a run that ran when the limit came."""
    if state != "running":
        limit(engine, kind="rate", cap=1, period_seconds=120)
    run, worker = engine.enqueue(max_attempts=9), engine.worker()
    (first,) = claim(engine, worker)
    if state == "running":
        limit(engine, kind="rate", cap=1, period_seconds=120)
        engine.enqueue()
        admit(engine)
        engine.requeue(worker, first, 0.0)
    elif state == "lost":
        engine.lose(worker)
        engine.rescue()
    else:
        engine.requeue(worker, first, None, state="cancelled", spent=False)
    fresh = engine.worker()
    claims = [*claim(engine, fresh), *engine.claim_suspect(fresh)]
    assert run not in ids(claims)
    assert engine.run(run)["held_by"] == "limit"
    engine.advance(130)
    admit(engine)
    claims = [*engine.claim(fresh), *engine.claim_suspect(fresh)]
    assert run in ids(claims)


def test_what_is_wasted_by_no_start_costs_no_token(engine: Engine) -> None:
    limit(engine, kind="rate", cap=1, period_seconds=120)
    engine.enqueue()
    worker = engine.worker()
    (first,) = claim(engine, worker, batch=3)
    engine.hand_back(worker, first)
    assert len(claim(engine, worker)) == 1


def test_what_waits_for_a_limit_that_is_removed_goes_on(engine: Engine) -> None:
    limit(engine, cap=1)
    for _ in range(3):
        engine.enqueue()
    worker = engine.worker()
    first = claim(engine, worker)
    assert engine.one("SELECT rota.remove_limit('few', reason => 'enough')") == "removed"
    assert len(claim(engine, worker)) == 2
    engine.succeed(worker, *first)
    admit(engine)
    assert engine.one("SELECT count(*) FROM rota.limit_releases") == 0
    assert engine.one("SELECT count(*) FROM rota.limit_slots") == 0
    assert engine.audit("few")[-1]["reason"] == "enough"


def test_bulk_enqueues_are_held_too(engine: Engine) -> None:
    limit(engine, cap=2, key="{n}")
    engine.one("SELECT rota.enqueue_batch('work', %s)", json.dumps([{"n": 1}] * 3))
    engine.rows("SELECT * FROM rota.enqueue_many(ARRAY['work'], %s::jsonb[])", ['{"n": 2}'] * 3)
    engine.one("SELECT rota.enqueue_plain('work', '{\"n\": 3}')")
    assert len(claim(engine, engine.worker(), 100)) == 5


def test_a_replaced_run_gives_back_what_its_old_payload_had(engine: Engine) -> None:
    limit(engine, cap=1, key="{n}")
    engine.enqueue(payload={"n": 1}, key="k")
    admit(engine)
    engine.enqueue(payload={"n": 2}, key="k", on_conflict="replace")
    assert admit(engine) == 1
    assert in_use(engine) == {"2": 1}
    books(engine)


# Sequences.


def test_a_sequence_goes_by_age_whatever_the_priority(engine: Engine) -> None:
    limit(engine, kind="sequence", cap=1, next_after="end", key="{order}")
    runs = [engine.enqueue(payload={"order": 1}, priority=p) for p in (5, 0, 9)]
    worker = engine.worker()
    for run in runs:
        (claimed,) = claim(engine, worker)
        assert claimed["id"] == run
        engine.fail(worker, claimed)


def test_in_a_sequence_nobody_overtakes_a_run_that_is_put_off(engine: Engine) -> None:
    limit(engine, kind="sequence", cap=1, next_after="end")
    runs, worker = [engine.enqueue(max_attempts=3) for _ in range(2)], engine.worker()
    engine.requeue(worker, *claim(engine, worker), delay=60)
    assert claim(engine, worker) == []
    engine.advance(61)
    engine.promote()
    (again,) = claim(engine, worker)
    assert again["id"] == runs[0]
    engine.succeed(worker, again)
    assert ids(claim(engine, worker)) == [runs[1]]
    books(engine)


def test_a_sequence_that_needs_success_waits_for_the_retry(engine: Engine) -> None:
    limit(engine, kind="sequence", cap=1, next_after="success")
    runs, worker = [engine.enqueue() for _ in range(2)], engine.worker()
    engine.fail(worker, *claim(engine, worker))
    assert claim(engine, worker) == []
    engine.retry(runs[0])
    (again,) = claim(engine, worker)
    assert again["id"] == runs[0]
    engine.fail(worker, again)
    assert claim(engine, worker) == []
    assert engine.one("SELECT rota.unblock_limit('few', reason => 'by hand')") == 1
    assert ids(claim(engine, worker)) == [runs[1]]
    with pytest.raises(psycopg.Error, match="is not blocked"):
        engine.one("SELECT rota.unblock_limit('few')")


def test_a_turn_in_a_sequence_is_kept_while_another_limit_is_full(engine: Engine) -> None:
    limit(engine, "all", cap=1)
    limit(engine, "line", kind="sequence", cap=1, next_after="end", key="{n}")
    runs = [engine.enqueue(payload={"n": n}) for n in (1, 2, 2)]
    worker = engine.worker()
    for run in runs:
        (claimed,) = claim(engine, worker)
        assert claimed["id"] == run
        engine.succeed(worker, claimed)
    books(engine)


# Rates.


def test_a_rate_admits_its_number_in_each_period(engine: Engine) -> None:
    limit(engine, kind="rate", cap=3, period_seconds=60)
    engine.conn.execute("SELECT rota.set_clock('2031-01-01 00:00:00Z')")
    for _ in range(7):
        engine.enqueue()
    worker = engine.worker()
    assert len(claim(engine, worker)) == 3
    assert claim(engine, worker) == []
    until = engine.one("SELECT wait_until - rota.now() FROM rota.limit_slots").total_seconds()
    assert 59 < until < 61
    engine.advance(50)
    assert claim(engine, worker) == []
    engine.advance(11)
    assert len(claim(engine, worker)) == 3


def test_a_rate_is_kept_in_every_window(engine: Engine, other: Engine) -> None:
    """By the server's real clock, and two who admit."""
    limit(engine, kind="rate", cap=10, period_seconds=0.2)
    engine.one("SELECT rota.enqueue_batch('work', %s)", json.dumps([{}] * 60))
    while engine.one("SELECT count(*) FROM rota.open_runs WHERE held_by IS NOT NULL"):
        admit(engine)
        admit(other)
    most = engine.one(
        "SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY enqueued_at RANGE BETWEEN CURRENT ROW"
        " AND '0.199999 s' FOLLOWING) AS n FROM rota.open_runs) w"
    )
    assert most == 10


def test_a_rate_spends_what_a_run_costs(engine: Engine) -> None:
    limit(engine, kind="rate", cap=10, period_seconds=60, cost="pages")
    runs = [engine.enqueue(payload={"pages": pages}) for pages in (6, 5, 1)]
    worker = engine.worker()
    assert ids(claim(engine, worker)) == runs[:1]  # nobody overtakes the one that costs 5
    engine.advance(61)
    assert ids(claim(engine, worker)) == runs[1:]


def test_a_burst_spreads_a_rate(engine: Engine) -> None:
    limit(engine, kind="rate", cap=60, period_seconds=60, burst=2)
    for _ in range(10):
        engine.enqueue()
    worker = engine.worker()
    assert len(claim(engine, worker)) == 2
    engine.advance(3)
    assert len(claim(engine, worker)) == 2
    engine.advance(1)
    assert len(claim(engine, worker)) == 1


def test_a_retry_needs_a_token_again(engine: Engine) -> None:
    limit(engine, kind="rate", cap=1, period_seconds=60)
    run, worker = engine.enqueue(max_attempts=3), engine.worker()
    engine.requeue(worker, *claim(engine, worker), delay=0.0)
    assert claim(engine, worker) == []
    assert engine.run(run)["held_by"] == "limit"
    engine.advance(61)
    assert len(claim(engine, worker)) == 1


def test_a_rate_that_is_raised_admits_at_once(engine: Engine) -> None:
    limit(engine, kind="rate", cap=1, period_seconds=3600)
    for _ in range(3):
        engine.enqueue()
    worker = engine.worker()
    assert len(claim(engine, worker)) == 1
    limit(engine, kind="rate", cap=2, period_seconds=3600)
    assert len(claim(engine, worker)) == 1


# When it is full.


def test_skip_ends_what_finds_the_limit_full(engine: Engine) -> None:
    limit(engine, cap=1, on_full="skip")
    runs, worker = [engine.enqueue() for _ in range(3)], engine.worker()
    assert ids(claim(engine, worker)) == [runs[0]]
    assert {engine.run(run)["end_reason"] for run in runs[1:]} == {"skipped (limit few)"}


def test_replace_keeps_the_newest_of_those_who_wait(engine: Engine) -> None:
    limit(engine, cap=1, on_full="replace")
    first, worker = engine.enqueue(), engine.worker()
    claimed = claim(engine, worker)
    second, third = engine.enqueue(), engine.enqueue()
    assert claim(engine, worker) == []
    assert engine.run(second)["end_reason"] == f"replaced by run {third} (limit few)"
    engine.succeed(worker, *claimed)
    assert ids(claim(engine, worker)) == [third]
    assert engine.state(first) == "succeeded"


def test_cancel_running_makes_room_for_the_newest(engine: Engine) -> None:
    limit(engine, cap=1, on_full="cancel_running")
    first, worker = engine.enqueue(), engine.worker()
    claim(engine, worker)
    engine.enqueue()
    newest = engine.enqueue()
    admit(engine)
    asked = engine.rows("SELECT run_id, requested_by, reason FROM rota.cancel_requests")
    assert [row["run_id"] for row in asked] == [first]
    assert asked[0]["reason"] == f"replaced by run {newest} (limit few)"
    assert engine.state(newest) == "queued"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"cap": -1}, "cap -1 is not between"),
        ({"kind": "speed"}, "its kind must be concurrency, rate or sequence"),
        ({"kind": "rate"}, "a rate requires period_seconds"),
        ({"key": "a{"}, "is not a valid template"),
        ({"on_full": "explode"}, "on_full must be wait, skip"),
        ({"colour": 1}, 'unknown setting "colour"'),
        ({"kind": "sequence", "cap": 2}, "the cap of a sequence must be 1"),
    ],
)
def test_what_makes_no_sense_is_refused(engine: Engine, changes: Any, match: str) -> None:
    with pytest.raises(psycopg.Error, match=match) as caught:
        limit(engine, **changes)
    assert caught.value.sqlstate == "RO017"


def test_a_counter_that_differs_is_mended_and_told(engine: Engine) -> None:
    limit(engine, cap=1)
    engine.enqueue()
    admit(engine)
    engine.conn.execute("DELETE FROM rota.open_runs")  # past every function of Rota
    assert len(engine.rows("SELECT * FROM rota.limit_differences()")) == 1
    assert engine.one("SELECT rota.mend_limits()") == 1
    books(engine)
    (said,) = engine.rows("SELECT * FROM rota.audit WHERE action = 'limit.mended'")
    assert (said["actor"], said["before"]["in_use"], said["after"]["in_use"]) == ("rota", 1, 0)
    assert engine.one("SELECT rota.mend_limits()") == 0


# Two at once.


def test_a_counter_that_somebody_holds_stops_only_its_key(engine: Engine, other: Engine) -> None:
    limit(engine, cap=1, key="{n}")
    for n in (1, 2, 1, 2):
        engine.enqueue(payload={"n": n})
    worker = engine.worker()
    first = claim(engine, worker)
    with other.conn.transaction():
        other.rows("SELECT * FROM rota.limit_slots WHERE key LIKE '%%:1' FOR UPDATE")
        other.rows("SELECT * FROM rota.limits FOR UPDATE")
        assert len(engine.succeed(worker, *first)) == 2  # who ends waits for nobody
        assert [row["payload"] for row in claim(engine, worker)] == [{"n": 2}]
    assert [row["payload"] for row in claim(engine, worker)] == [{"n": 1}]
    books(engine)


def test_two_who_admit_at_once_never_exceed(engine: Engine, other: Engine) -> None:
    limit(engine, cap=1)
    for _ in range(3):
        engine.enqueue()
    with other.conn.transaction():
        assert admit(other) == 1
        row = engine.rows("SELECT * FROM rota.admit_runs()")[0]
        assert (row["admitted"], row["next_seconds"]) == (0, 0.1)
    assert admit(engine) == 0
    books(engine)


def test_an_end_that_is_rolled_back_gives_nothing_back(engine: Engine, other: Engine) -> None:
    limit(engine, cap=1)
    for _ in range(2):
        engine.enqueue()
    worker = engine.worker()
    (claimed,) = claim(engine, worker)
    with other.conn.transaction(force_rollback=True):
        other.succeed(worker, claimed)
        assert admit(engine) == 0
    assert admit(engine) == 0
    engine.succeed(worker, claimed)
    assert admit(engine) == 1


def test_nobody_looks_again_where_nothing_waits(engine: Engine) -> None:
    """The next look is when somebody calls: every worker asks, and would ask all the time."""
    limit(engine, cap=5)
    admit(engine)
    engine.rows("UPDATE rota.limits SET adopted_id = NULL, adopt_at = NULL, adopt_xid = NULL")
    worker = engine.worker()
    assert engine.rows("SELECT next_seconds FROM rota.admit_runs()") == [{"next_seconds": None}]
    engine.enqueue()
    (first,) = claim(engine, worker)
    engine.succeed(worker, first)
    admit(engine)
    assert engine.rows("SELECT next_seconds FROM rota.admit_runs()") == [{"next_seconds": None}]
