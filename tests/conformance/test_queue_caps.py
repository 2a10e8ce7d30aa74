"""How many runs may wait in a queue: every way in, by plain SQL."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from rota.testing.patience import eventually_sync
from tests.sql_engine import Engine


def cap(
    engine: Engine, most: int | None, when_full: str = "refuse", queue: str = "default"
) -> None:
    settings = json.dumps({"max_waiting": most, "when_full": when_full})
    engine.rows("SELECT rota.set_queue(%s, %s, 'test')", queue, settings)
    tend(engine)


def tend(engine: Engine) -> int:
    """As workers do every second, until there is nothing left to do."""
    total = 0
    while moved := engine.one("SELECT moved FROM rota.tend_caps()"):
        total += moved
    return total


def refusal(engine: Engine, query: str, *params: Any) -> str | None:
    """What the database says, or None where there is room."""
    try:
        engine.rows(query, *params)
    except psycopg.Error as error:
        return str(error.diag.message_primary) if error.sqlstate == "RO032" else error.sqlstate
    return None


def forget(engine: Engine) -> None:
    """Nobody has counted for a while."""
    engine.rows("UPDATE rota.queue_caps SET counted_at = clock_timestamp() - interval '1 minute'")


def waiting(engine: Engine) -> list[int]:
    rows = engine.rows("SELECT id FROM rota.open_runs WHERE state <> 'running' ORDER BY id")
    return [row["id"] for row in rows]


WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
ONE = "SELECT rota.enqueue('work')"


def test_a_queue_without_a_cap_takes_any_number(engine: Engine) -> None:
    assert engine.one("SELECT capped_queues FROM rota.settings") == []
    for _ in range(5):
        engine.enqueue()
    assert engine.rows("SELECT * FROM rota.queue_caps") == []
    cap(engine, 0, queue="mail")
    engine.enqueue()
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_capped") == 0


def test_what_is_too_much_is_refused_with_what_to_do(engine: Engine) -> None:
    cap(engine, 2)
    for _ in range(2):
        engine.enqueue()
    tend(engine)
    with pytest.raises(psycopg.Error) as caught:
        engine.enqueue()
    assert caught.value.sqlstate == "RO032"
    said = caught.value.diag
    assert said.message_primary == 'queue "default" is full: 2 runs wait, and its cap is 2'
    assert "raise max_waiting of the queue" in (said.message_hint or "")
    assert len(waiting(engine)) == 2
    assert engine.one("SELECT last_value FROM rota.queue_refusals") == 1


def test_there_is_room_when_one_has_started(engine: Engine) -> None:
    cap(engine, 1)
    engine.enqueue()
    tend(engine)
    assert refusal(engine, ONE) is not None
    engine.claim(engine.worker())
    tend(engine)
    assert refusal(engine, ONE) is None


@pytest.mark.parametrize("delay", ["0", "1 hour"])
def test_what_is_for_later_and_what_is_held_waits_too(engine: Engine, delay: str) -> None:
    cap(engine, 2)
    engine.enqueue(delay=delay)
    engine.enqueue()
    engine.rows("UPDATE rota.open_runs SET held_by = 'no_worker' WHERE state = 'queued'")
    tend(engine)
    assert refusal(engine, ONE) is not None


@pytest.mark.parametrize(
    "way",
    [
        "SELECT rota.enqueue('work')",
        "SELECT rota.enqueue_run('work', key => 'k')",
        "SELECT rota.enqueue_plain('work', '{}')",
        "SELECT rota.enqueue_batch('work', '[{}]')",
        "SELECT rota.enqueue_many('{work}', ARRAY['{}']::jsonb[])",
        "SELECT rota.enqueue_many('{work,other}', ARRAY['{}', '{}']::jsonb[])",
        "SELECT rota.enqueue_many('{other}', ARRAY['{}']::jsonb[], queues => '{default}')",
        "SELECT rota.enqueue_many('{work}', ARRAY['{}']::jsonb[], keys => '{k}')",
        "SELECT rota.emit('order.placed', '{}')",
        "SELECT rota.emit_many('order.placed', ARRAY['{}']::jsonb[])",
        "SELECT rota.trigger_schedule('s')",
        "SELECT rota.backfill_schedule('s', ARRAY[now()], ARRAY[NULL::timestamptz], ARRAY[now()],"
        " now(), now())",
        "SELECT rota.retry_run(1)",
    ],
)
def test_every_way_in_is_refused(engine: Engine, way: str) -> None:
    engine.job("other", queue="mail")
    engine.rows("UPDATE rota.jobs SET events = '{order.placed}' WHERE name = 'work'")
    engine.rows("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '0 0 1 1 *')")
    engine.rows("SELECT setval('rota.run_ids', 1, false)")
    engine.cancel(engine.enqueue())
    cap(engine, 0)
    before = engine.one("SELECT count(*) FROM rota.runs")
    assert (refusal(engine, way) or "").startswith('queue "default" is full')
    assert engine.one("SELECT count(*) FROM rota.runs") == before
    cap(engine, 10)
    assert refusal(engine, way) is None
    run = engine.one("SELECT max(id) FROM rota.open_runs WHERE queue = 'default'")
    assert engine.one("SELECT is_capped FROM rota.open_runs WHERE id = %s", run) is True
    assert engine.one("SELECT bool_or(is_capped) FROM rota.open_runs WHERE queue <> 'default'") in (
        None,
        False,
    )


def test_a_bulk_that_does_not_fit_is_refused_as_a_whole(engine: Engine) -> None:
    cap(engine, 5)
    engine.enqueue()
    tend(engine)
    words = refusal(engine, "SELECT rota.enqueue_batch('work', '[{}, {}, {}, {}, {}]')")
    assert words == 'queue "default" is full: 1 run waits, and its cap is 5; 5 more do not fit'
    assert refusal(engine, "SELECT rota.enqueue_batch('work', '[{}, {}, {}, {}]')") is None


def test_a_bulk_retry_says_of_each_run_that_it_was_refused(engine: Engine) -> None:
    runs = [engine.enqueue() for _ in range(2)]
    for run in runs:
        engine.cancel(run)
    cap(engine, 0)
    rows = engine.rows("SELECT * FROM rota.act_on_runs('retry', %s)", runs)
    assert [row["code"] for row in rows] == ["RO032", "RO032"]
    assert [engine.state(run) for run in runs] == ["cancelled", "cancelled"]


def test_what_is_in_the_queue_stays_in_it(engine: Engine) -> None:
    """Retries, snoozes and what is handed back are no new runs."""
    run = engine.enqueue(max_attempts=3)
    cap(engine, 0)
    worker = engine.worker()
    claim = engine.claim_one(worker)
    engine.hand_back(worker, claim)
    assert engine.state(run) == "queued"
    claim = engine.claim_one(worker)
    engine.requeue(worker, claim)
    assert engine.state(run) in ("queued", "scheduled")


def test_a_key_that_is_held_answers_its_run(engine: Engine) -> None:
    run = engine.enqueue_run(key="k")
    cap(engine, 1)
    again = engine.enqueue_run(key="k")
    assert (again["run_id"], again["is_duplicate"]) == (run["run_id"], True)


def test_a_cap_holds_at_once_for_what_waits_already(engine: Engine) -> None:
    for _ in range(20):
        engine.enqueue()
    engine.count_depths()
    engine.rows("SELECT rota.set_queue('default', '{\"max_waiting\": 10}')")
    assert refusal(engine, ONE) is not None, "by the count of all queues"
    assert tend(engine) == 20
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_capped") == 20
    assert refusal(engine, ONE) is not None
    engine.rows("SELECT rota.set_queue('default', '{\"max_waiting\": 30}')")
    assert refusal(engine, ONE) is None, "effective at once"
    engine.rows("SELECT rota.set_queue('default', '{\"max_waiting\": null}')")
    assert engine.rows("SELECT * FROM rota.queue_caps") == []
    assert engine.one("SELECT capped_queues FROM rota.settings") == []
    assert refusal(engine, ONE) is None


def test_runs_from_before_are_marked_in_portions(engine: Engine) -> None:
    for _ in range(7):
        engine.enqueue()
    engine.enqueue(queue="mail")
    engine.rows(
        'SELECT rota.set_queue(\'default\', \'{"max_waiting": 3, "when_full": "drop_lowest"}\')'
    )
    engine.one("SELECT moved FROM rota.tend_caps(4)")
    assert len(waiting(engine)) == 8, "nothing is dropped before all are known"
    while engine.one("SELECT moved FROM rota.tend_caps(4)"):
        pass
    assert len(waiting(engine)) == 4
    assert engine.one("SELECT adopted_id FROM rota.queue_caps") is None


def test_runs_that_commit_late_count_too(engine: Engine, other: Engine) -> None:
    with other.conn.transaction():
        for _ in range(6):
            other.enqueue()
        engine.rows("SELECT rota.set_queue('default', '{\"max_waiting\": 3}')")
        engine.one("SELECT moved FROM rota.tend_caps()")
        assert refusal(engine, ONE) is None
        for _ in range(4):
            pass_over(engine)
    while pass_over(engine):
        pass
    assert engine.one("SELECT waiting FROM rota.queue_caps") == 7
    assert refusal(engine, ONE) is not None


def pass_over(engine: Engine) -> bool:
    """The next pass over the runs from before the cap, now; returns whether others follow."""
    engine.conn.execute(
        "UPDATE rota.queue_caps SET adopt_at = clock_timestamp() WHERE adopt_at < 'infinity'"
    )
    engine.one("SELECT moved FROM rota.tend_caps()")
    return engine.one("SELECT adopt_at FROM rota.queue_caps") is not None


def test_where_nobody_counts_the_enqueue_does(engine: Engine) -> None:
    cap(engine, 3)
    for _ in range(3):
        engine.enqueue()
    assert refusal(engine, ONE) is None, "as it was counted a moment ago"
    forget(engine)
    assert refusal(engine, ONE) is not None


# The least important go.


def test_the_least_important_and_of_those_the_newest_go(engine: Engine) -> None:
    cap(engine, 3, "drop_lowest")
    low = [engine.enqueue(priority=9) for _ in range(2)]
    usual = [engine.enqueue() for _ in range(2)]
    high = [engine.enqueue(priority=0) for _ in range(2)]
    assert tend(engine) == 3
    assert waiting(engine) == sorted([usual[0], *high])
    for run in [*low, usual[1]]:
        row = engine.run(run)
        assert (row["state"], row["end_reason"]) == ("cancelled", "queue full")
    (count,) = engine.rows(
        "SELECT labels, amount FROM rota.count_changes WHERE name = 'runs_dropped'"
    )
    assert count == {"labels": {"queue": "default"}, "amount": 3}


def test_a_new_one_that_is_the_least_important_goes_itself(engine: Engine) -> None:
    cap(engine, 2, "drop_lowest")
    runs = [engine.enqueue(priority=1) for _ in range(2)]
    new = engine.enqueue(priority=2)
    tend(engine)
    assert waiting(engine) == runs
    assert engine.state(new) == "cancelled"


def test_what_is_for_later_and_held_goes_as_well(engine: Engine) -> None:
    cap(engine, 1, "drop_lowest")
    later = engine.enqueue(priority=8, delay="1 hour")
    held = engine.enqueue(priority=7)
    engine.rows("UPDATE rota.open_runs SET held_by = 'no_worker' WHERE id = %s", held)
    first = engine.enqueue(priority=1)
    tend(engine)
    assert waiting(engine) == [first]
    assert engine.state(later) == engine.state(held) == "cancelled"


def test_what_has_been_at_work_and_what_runs_stays(engine: Engine) -> None:
    begun, running = engine.enqueue(priority=9), engine.enqueue(priority=9)
    worker = engine.worker()
    claims = {claim["id"]: claim for claim in engine.claim(worker, 2)}
    engine.requeue(worker, claims[begun])
    cap(engine, 0, "drop_lowest")
    tend(engine)
    assert waiting(engine) == [begun]
    assert engine.state(running) == "running"


def test_the_key_of_a_dropped_run_is_free(engine: Engine) -> None:
    cap(engine, 0, "drop_lowest")
    first = engine.enqueue_run(key="k")
    tend(engine)
    again = engine.enqueue_run(key="k")
    assert again["is_duplicate"] is False
    assert again["run_id"] != first["run_id"]


def test_the_ledger_says_that_the_queue_was_full(engine: Engine) -> None:
    engine.rows("INSERT INTO rota.schedules (name, job, run_at) VALUES ('s', 'work', rota.now())")
    cap(engine, 0, "drop_lowest")
    tick = """[{"id": %s, "tick_version": %s, "cursor_at": "%s", "new_cursor_at": "%s",
        "next_run_at": null, "is_finished": true, "occurrences":
        [{"nominal_at": "%s", "decision": "ran", "start_at": "%s"}]}]"""
    (row,) = engine.rows(
        "SELECT id, tick_version, cursor_at, run_at FROM rota.schedules s"
        " JOIN rota.schedule_state t ON t.schedule_id = s.id WHERE name = 's'"
    )
    at = row["run_at"].isoformat()
    told = tick % (row["id"], row["tick_version"], row["cursor_at"].isoformat(), at, at, at)
    engine.rows("SELECT rota.write_ticks(0, %s)", told)
    run = engine.one("SELECT id FROM rota.open_runs")
    assert tend(engine) == 1
    (kept,) = engine.rows("SELECT decision, reason, details FROM rota.ledger")
    assert (kept["decision"], kept["reason"]) == ("skipped", "queue_full")
    assert kept["details"] == {"queue": "default", "run": run}


def test_where_nobody_tends_an_enqueue_makes_room(engine: Engine) -> None:
    cap(engine, 2, "drop_lowest")
    for _ in range(4):
        engine.enqueue()
    forget(engine)
    runs = [engine.enqueue(priority=1) for _ in range(3)]
    assert waiting(engine) == runs, "it drops what it finds over the cap, and comes itself"


# Two at once.


def test_a_run_that_somebody_holds_is_passed_over(engine: Engine, other: Engine) -> None:
    cap(engine, 1, "drop_lowest")
    runs = [engine.enqueue() for _ in range(3)]
    with other.conn.transaction():
        other.rows("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", runs[2])
        assert engine.one("SELECT moved FROM rota.tend_caps()") == 2
    assert waiting(engine) == [runs[2]]


def test_one_tends_at_a_time_and_nobody_waits(engine: Engine, other: Engine) -> None:
    cap(engine, 1, "drop_lowest")
    for _ in range(3):
        engine.enqueue()
    with other.conn.transaction():
        assert other.one("SELECT moved FROM rota.tend_caps()") == 2
        assert engine.one("SELECT moved FROM rota.tend_caps()") == 0
        engine.enqueue()
    assert tend(engine) == 1


def test_two_who_set_caps_see_each_other(engine: Engine, other: Engine) -> None:
    cap(engine, 1, queue="old")
    with ThreadPoolExecutor(1) as pool, other.conn.transaction():
        other.rows("SELECT rota.set_queue('old', '{\"max_waiting\": null}')")
        new = pool.submit(engine.rows, "SELECT rota.set_queue('new', '{\"max_waiting\": 1}')")
        eventually_sync(lambda: other.one(WAITS, engine.conn.info.backend_pid))
    new.result()
    assert engine.one("SELECT capped_queues FROM rota.settings") == ["new"]


def test_an_open_transaction_of_an_enqueue_stops_nobody(engine: Engine, other: Engine) -> None:
    cap(engine, 2)
    forget(engine)
    with other.conn.transaction():
        other.enqueue()
        engine.enqueue()
        tend(engine)
        assert engine.one("SELECT waiting FROM rota.queue_caps") == 1
    tend(engine)
    assert refusal(engine, ONE) is not None


# Edits.


def test_changes_are_audited_by_whatever_statement(engine: Engine) -> None:
    engine.rows(
        "SELECT rota.set_queue('mail', '{\"max_waiting\": 5}', reason => 'busy', actor => 'anna')"
    )
    engine.rows("UPDATE rota.queues SET when_full = 'drop_lowest' WHERE name = 'mail'")
    first, second = engine.audit("mail")
    assert (first["action"], first["actor"], first["reason"]) == ("queue.updated", "anna", "busy")
    assert (first["before"], first["after"]) == ({"max_waiting": None}, {"max_waiting": 5})
    assert second["after"] == {"when_full": "drop_lowest"}
    engine.rows("SELECT rota.set_queue('mail', '{\"max_waiting\": 5}')")
    assert len(engine.audit("mail")) == 2, "nothing changed"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('{"max_waiting": -1}', "must be a whole number from 0 to 1000000000, not -1"),
        ('{"max_waiting": 1.5}', "not 1.5"),
        ('{"max_waiting": "x"}', 'not "x"'),
        ('{"max_waiting": 1e12}', "not 1000000000000"),
        ('{"when_full": "wait"}', "when_full must be refuse or drop_lowest, not wait"),
        ('{"cap": 1}', 'unknown queue setting "cap"'),
        ("[]", "must be a JSON object"),
        (None, "must be a JSON object"),
    ],
)
def test_odd_settings_are_refused(engine: Engine, settings: str | None, words: str) -> None:
    with pytest.raises(psycopg.Error, match=words) as caught:
        engine.rows("SELECT rota.set_queue('mail', %s)", settings)
    assert caught.value.sqlstate == "RO002"


def test_plain_updates_are_held_to_the_same(engine: Engine) -> None:
    cap(engine, 1, queue="mail")
    for wrong in ("max_waiting = -1", "when_full = 'wait'", "when_full = NULL"):
        with pytest.raises(psycopg.Error) as caught:
            engine.rows(f"UPDATE rota.queues SET {wrong} WHERE name = 'mail'")
        assert caught.value.sqlstate == "RO002"


def test_rotas_own_queue_has_no_cap(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match="belongs to Rota"):
        engine.rows("SELECT rota.set_queue('rota.system', '{\"max_waiting\": 1}')")


def test_what_an_operator_changed_stays_and_can_be_reset(engine: Engine) -> None:
    def stored() -> tuple[Any, ...]:
        (row,) = engine.rows("SELECT * FROM rota.queues WHERE name = 'mail'")
        return row["max_waiting"], row["when_full"], row["is_edited"]

    assert engine.one("SELECT rota.put_queue('mail', 100)") is True
    assert engine.one("SELECT rota.put_queue('mail', 100)") is False
    assert stored() == (100, "refuse", False)
    engine.rows("SELECT rota.set_queue('mail', '{\"max_waiting\": 7}')")
    engine.rows("SELECT rota.put_queue('mail', 200, 'drop_lowest')")
    assert stored() == (7, "refuse", True)
    engine.rows("SELECT rota.reset_queue('mail')")
    assert stored() == (200, "drop_lowest", False)
    engine.rows("SELECT rota.put_queue('mail', 300, 'drop_lowest')")
    assert stored() == (300, "drop_lowest", False)


def test_a_cap_that_was_set_before_any_code_spoke_of_it_stays(engine: Engine) -> None:
    cap(engine, 7, queue="mail")
    engine.rows("SELECT rota.put_queue('mail', 100)")
    assert engine.one("SELECT max_waiting FROM rota.queues WHERE name = 'mail'") == 7


def test_pause_and_resume_leave_the_cap_alone(engine: Engine) -> None:
    cap(engine, 7, queue="mail")
    engine.rows("SELECT rota.pause_queue('mail')")
    engine.rows("SELECT rota.resume_queue('mail')")
    assert engine.one("SELECT max_waiting FROM rota.queues WHERE name = 'mail'") == 7
    assert engine.one("SELECT count(*) FROM rota.queue_caps") == 1
