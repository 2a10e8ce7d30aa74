"""Every way in which a run can be claimed again calls somebody: nobody waits for a poll.

The ways are read from the text of the schema: whatever inserts an open run, or writes what decides
whether it can be claimed. A new one is missing here until somebody says whom it calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from tests.conformance.test_limits import admit, limit
from tests.scheduling import Schedules
from tests.schema.topics import functions
from tests.sql_engine import Engine, Row, listen_to_all

Connect = Callable[..., psycopg.Connection[Any]]
Act = Callable[[Engine], object]

WRITES = re.compile(
    r"INSERT INTO rota\.open_runs\b"
    r"|UPDATE rota\.open_runs \w+\s+SET\b(?:(?!\bWHERE\b).)*?(?<![.\w])(?:state|held_by) =",
    re.S,
)
# They take runs out of the line, or move them from one hold to another on behalf of one above.
NOT_WAYS = {
    "claim_runs": "takes it",
    "claim_suspect": "takes it",
    "park_unknown_runs": "holds it",
    "hold_runs_of": "holds it",
    "adopt_runs": "holds it, for the admission that calls it",
    "hold_refused_runs": "holds it",
}


def run_of(engine: Engine, **options: Any) -> int:
    return engine.enqueue(**options)


def claimed(engine: Engine, **options: Any) -> tuple[int, Row]:
    run_of(engine, **options)
    worker = engine.worker()
    admit(engine)
    return worker, engine.claim_one(worker, lane=options.get("tenant", ""))


def suspect(engine: Engine, **options: Any) -> int:
    worker, claim = claimed(engine, max_attempts=9, **options)
    engine.lose(worker)
    engine.rescue()
    admit(engine)
    return int(claim["id"])


def rate(engine: Engine) -> None:
    limit(engine, "often", kind="rate", cap=100, period_seconds=1)


def replace(engine: Engine) -> Act:
    run_of(engine, key="k", delay="1 hour")
    return lambda engine: run_of(engine, key="k", on_conflict="replace")


def fill(engine: Engine) -> Act:
    limit(engine, cap=1)
    worker, claim = claimed(engine)
    run_of(engine)
    engine.succeed(worker, claim)
    return admit


def retry(engine: Engine) -> Act:
    worker, claim = claimed(engine)
    engine.fail(worker, claim)
    return lambda engine: engine.retry(claim["id"])


def hand_back(engine: Engine) -> Act:
    worker, claim = claimed(engine)
    return lambda engine: engine.hand_back(worker, claim)


def hand_back_suspect(engine: Engine) -> Act:
    suspect(engine)
    worker = engine.worker()
    claims = engine.claim_suspect(worker)
    return lambda engine: engine.hand_back(worker, *claims)


def requeue(delay: float | None, state: str = "failed", is_rated: bool = False) -> Any:
    def prepare(engine: Engine) -> Act:
        if is_rated:
            rate(engine)
        worker, claim = claimed(engine)
        return lambda engine: engine.requeue(
            worker, claim, delay, state=state, spent=state != "cancelled"
        )

    return prepare


def rescue(runs: int = 1, is_rated: bool = False, is_started: bool = True) -> Any:
    def prepare(engine: Engine) -> Act:
        if is_rated:
            rate(engine)
        worker = engine.worker()
        for _ in range(runs):
            run_of(engine, max_attempts=9)
        admit(engine)
        assert len(engine.claim(worker, batch=None if is_started else 7)) == runs
        engine.lose(worker)
        return lambda engine: engine.rescue()

    return prepare


def promote(engine: Engine) -> Act:
    run_of(engine, delay="1 hour")
    engine.advance(3601)
    return lambda engine: engine.promote()


def promote_limited(engine: Engine) -> Act:
    limit(engine)
    return promote(engine)


def promote_suspect(engine: Engine) -> Act:
    suspect(engine)
    worker = engine.worker()
    (claim,) = engine.claim_suspect(worker)
    engine.requeue(worker, claim, 3600.0, state="lost")
    engine.advance(3601)
    return lambda engine: engine.promote()


def free_known(make: Callable[[Engine], object]) -> Any:
    def prepare(engine: Engine) -> Act:
        make(engine)
        engine.conn.execute(
            "UPDATE rota.workers SET state = 'gone', ended_at = clock_timestamp()"
            " WHERE channel IS NULL"
        )
        engine.conn.execute("UPDATE rota.workers SET jobs = '{other}'")
        engine.park()
        engine.worker()
        return lambda engine: engine.free()

    return prepare


def limited(engine: Engine) -> None:
    limit(engine, cap=5)
    run_of(engine)
    admit(engine)


def resume_tenant(make: Callable[[Engine], object]) -> Any:
    def prepare(engine: Engine) -> Act:
        make(engine)
        engine.one("SELECT rota.pause_tenant('acme')")
        return lambda engine: engine.one("SELECT rota.resume_tenant('acme')")

    return prepare


def end_an_overlap(engine: Engine) -> Act:
    run_of(engine)
    engine.conn.execute("UPDATE rota.open_runs SET held_by = 'overlap', schedule_id = 7")
    return lambda engine: engine.one("SELECT rota.free_held_runs('{7}')")


def leave_a_limit(engine: Engine) -> Act:
    limit(engine)
    run = run_of(engine)
    engine.conn.execute("DELETE FROM rota.limits")
    return lambda engine: engine.one("SELECT rota.limit_run(%s)", run)


def remove_a_limit(engine: Engine) -> Act:
    limit(engine, cap=0)
    run_of(engine)
    engine.conn.execute("DELETE FROM rota.limits")
    return admit


def admit_a_suspect(engine: Engine) -> Act:
    limit(engine, cap=5)
    suspect(engine, tenant="acme")
    engine.one("SELECT rota.pause_tenant('acme')")
    engine.one("SELECT rota.resume_tenant('acme')")
    return admit


def start_an_init(**job: Any) -> Any:
    def prepare(engine: Engine) -> Act:
        engine.job("early", **job)
        engine.conn.execute(
            "INSERT INTO rota.schedules (name, job, init) VALUES ('early', 'early', 'once')"
        )
        worker = engine.worker("early")
        return lambda engine: engine.rows("SELECT rota.run_inits(%s, NULL)", worker)

    return prepare


def resume_queue(make: Callable[[Engine], object]) -> Any:
    def prepare(engine: Engine) -> Act:
        make(engine)
        engine.one("SELECT rota.pause_queue('default')")
        return lambda engine: engine.one("SELECT rota.resume_queue('default')")

    return prepare


def end_a_pause(engine: Engine) -> Act:
    run_of(engine)
    engine.one("SELECT rota.pause_queue('default', until => rota.now() + interval '1 hour')")
    engine.advance(3601)
    return lambda engine: engine.promote()


def enable_a_job(make: Callable[[Engine], object]) -> Any:
    def prepare(engine: Engine) -> Act:
        make(engine)
        engine.conn.execute("UPDATE rota.jobs SET is_enabled = false WHERE name = 'work'")
        return lambda engine: engine.conn.execute(
            "UPDATE rota.jobs SET is_enabled = true WHERE name = 'work'"
        )

    return prepare


def raise_a_cap(engine: Engine) -> Act:
    limit(engine, cap=0)
    run_of(engine)
    return lambda engine: limit(engine, cap=1)


def unblock(engine: Engine) -> Act:
    limit(engine, kind="sequence", cap=None, next_after="success")
    worker, claim = claimed(engine)
    run_of(engine)
    engine.fail(worker, claim)
    admit(engine)
    return lambda engine: engine.one("SELECT rota.unblock_limit('few')")


def taken_by(engine: Engine, intake: int) -> None:
    """The worker that waits takes payloads of this kind."""
    engine.conn.execute("UPDATE rota.workers SET intakes = ARRAY[%s]", [intake])


def refuse(engine: Engine) -> Act:
    worker, claim = claimed(engine)
    taken_by(engine, 2)
    return lambda engine: engine.rows(
        "SELECT rota.refuse_runs(%s, ARRAY[%s::bigint], ARRAY[%s], '{1}', '{1}', '{1}', '{E}',"
        " '{no}', '{no}')",
        worker, claim["id"], claim["attempt"],
    )  # fmt: skip


def take_a_refused_one(engine: Engine) -> Act:
    run_of(engine)
    engine.conn.execute("UPDATE rota.open_runs SET held_by = 'payload', refused_by = '{1}'")
    taken_by(engine, 2)
    return lambda engine: engine.one("SELECT rota.free_refused_runs(10)")


def retry_a_refused_one(engine: Engine) -> Act:
    run = run_of(engine)
    engine.conn.execute("UPDATE rota.open_runs SET held_by = 'payload', refused_by = '{1}'")
    return lambda engine: engine.retry(run)


def asked(statement: str, *params: Any) -> Any:
    return lambda _: lambda engine: engine.rows(statement, *params)


PAYLOADS = json.dumps([{}, {}])
# The function, what happens, and what is heard.
WAYS: list[tuple[str, str, Any, str]] = [
    ("enqueue_run", "one", asked("SELECT rota.enqueue('work')"), "queue default"),
    ("enqueue_run", "soon", asked("SELECT rota.enqueue('work', delay => '1 s')"), "due"),
    ("enqueue_run", "replaced", replace, "queue default"),
    ("enqueue_plain", "one", asked("SELECT rota.enqueue_plain('work', '{}')"), "queue default"),
    ("enqueue_batch", "some", asked("SELECT rota.enqueue_batch('work', %s)", PAYLOADS),
     "queue default"),
    ("enqueue_many", "some",
     asked("SELECT rota.enqueue_many('{work}', '{\"{}\",\"{}\"}'::jsonb[])"), "queue default"),
    ("retry_run", "failed", retry, "queue default"),
    ("refuse_runs", "others take it", refuse, "queue default"),
    ("free_refused_runs", "somebody came", take_a_refused_one, "queue default"),
    ("retry_refused", "by hand", retry_a_refused_one, "queue default"),
    ("run_inits", "now", start_an_init(), "queue default"),
    ("run_inits", "soon", start_an_init(delay_seconds=1), "due"),
    ("hand_back_runs", "unstarted", hand_back, "queue default"),
    ("hand_back_runs", "suspect", hand_back_suspect, "suspects"),
    ("requeue_runs", "at once", requeue(0.0), "queue default"),
    ("requeue_runs", "soon", requeue(1.0), "due"),
    ("requeue_runs", "cut off", requeue(None, "cancelled"), "queue default"),
    ("requeue_runs", "cut off, rated", requeue(None, "cancelled", True), "limits"),
    ("requeue_runs", "killed its process", requeue(None, "lost"), "suspects"),
    ("rescue_runs", "alone", rescue(), "suspects"),
    ("rescue_runs", "together", rescue(2), "queue default"),
    ("rescue_runs", "rated", rescue(2, is_rated=True), "limits"),
    ("rescue_runs", "unstarted", rescue(2, is_started=False), "queue default"),
    ("promote_runs", "due", promote, "queue default"),
    ("promote_runs", "limited", promote_limited, "limits"),
    ("promote_runs", "suspect", promote_suspect, "suspects"),
    ("free_known_runs", "plain", free_known(run_of), "queue default"),
    ("free_known_runs", "limited", free_known(limited), "limits"),
    ("free_known_runs", "suspect", free_known(suspect), "suspects"),
    ("free_runs_of", "plain", resume_tenant(lambda e: run_of(e, tenant="acme")), "queue default"),
    ("free_runs_of", "suspect", resume_tenant(lambda e: suspect(e, tenant="acme")), "suspects"),
    ("free_held_runs", "overlap", end_an_overlap, "queue default"),
    ("limit_run", "left", leave_a_limit, "queue default"),
    ("make_ready", "freed", fill, "queue default"),
    ("make_ready", "suspect", admit_a_suspect, "suspects"),
    ("forget_key", "removed", remove_a_limit, "queue default"),
    # Not the run is written, but what kept it back.
    ("", "queue resumed", resume_queue(run_of), "queue default"),
    ("", "queue resumed, suspect", resume_queue(suspect), "suspects"),
    ("", "pause over", end_a_pause, "queue default"),
    ("", "job enabled", enable_a_job(lambda e: run_of(e, queue="aside")), "queue aside"),
    ("", "job enabled, suspect", enable_a_job(suspect), "suspects"),
    ("", "cap raised", raise_a_cap, "limits"),
    ("", "sequence unblocked", unblock, "limits"),
]  # fmt: skip


def test_every_way_is_known() -> None:
    writing = {function.name for function in functions() if WRITES.search(function.text)}
    # Ticks have their own test below.
    assert writing - NOT_WAYS.keys() == {name for name, *_ in WAYS if name} | {"write_ticks"}


WAITER = """
    INSERT INTO rota.workers (name, host, pid, concurrency, lease_seconds, is_waiting, channel,
        jobs, lease_expires_at)
    VALUES ('w', 'h', 1, 1, 600, true, 'a', '{work}', now() + interval '10 min')
"""


@pytest.fixture
def heard(engine: Engine, connect: Connect) -> Callable[[], set[str]]:
    """What a worker hears that waits, from now on."""
    engine.job("work")
    engine.conn.execute(WAITER)
    hearing = connect()

    def listen() -> set[str]:
        engine.one("SELECT rota.call_workers('end')")
        found = set()
        for call in hearing.notifies(timeout=20):
            if call.payload == "end":
                return found
            found.add(call.payload)
        raise AssertionError("it hears nothing")

    hearing.execute("LISTEN a")
    listen_to_all(hearing)
    return listen


@pytest.mark.parametrize(
    ("prepare", "words"),
    [pytest.param(*way[2:], id=f"{way[0]} {way[1]}".strip()) for way in WAYS],
)
def test_somebody_is_called(
    engine: Engine, heard: Callable[[], set[str]], prepare: Any, words: str
) -> None:
    act = prepare(engine)
    heard()
    act(engine)
    assert words in heard()


@pytest.mark.parametrize("limits", [0, 1])
async def test_a_tick_calls(app: rota.App, engine: Engine, connect: Connect, limits: int) -> None:
    engine.job("work")
    await app.database.open()
    schedules = Schedules(engine, app.database)
    if limits:
        limit(engine)
    engine.conn.execute(WAITER)
    schedules.add()
    hearing = connect()
    hearing.execute("LISTEN a")
    await schedules.tick(seconds=61)
    calls = {call.payload for call in hearing.notifies(timeout=20, stop_after=1)}
    assert calls == {"limits" if limits else "queue default"}


# Transactions that are prepared for a two-phase commit.


def test_a_transaction_that_calls_nobody_can_be_prepared(
    engine: Engine, heard: Callable[[], set[str]], connect: Connect
) -> None:
    """While a worker waits, too, whatever it enqueues; COMMIT PREPARED makes it visible."""
    if engine.one("SHOW max_prepared_transactions") == "0":
        pytest.skip("this server does not prepare transactions")
    branch = connect(autocommit=False)
    branch.execute("SET LOCAL rota.notify = off")
    run = branch.execute("SELECT rota.enqueue('work')").fetchone()
    branch.execute("SELECT rota.enqueue('work', delay => '1 s')")
    branch.execute("SELECT rota.enqueue_batch('work', '[{}, {}]')")
    branch.execute("SELECT rota.pause_queue('aside')")
    branch.execute("PREPARE TRANSACTION 'branch'")
    assert run is not None
    engine.conn.execute("COMMIT PREPARED 'branch'")
    assert heard() == set()
    assert engine.state(run[0]) == "queued"
    engine.one("SELECT rota.wake('{default}')")
    assert heard() == {"queue default"}


def test_all_calls_go_by_one_function() -> None:
    """So that one setting stops them all, and every channel is one that cannot be guessed."""
    assert [function.name for function in functions() if "pg_notify(" in function.text] == [
        "notify"
    ]


def test_strangers_do_not_know_the_channel(engine: Engine) -> None:
    assert re.fullmatch("rota_[0-9a-f]{32}", engine.one("SELECT channel FROM rota.settings"))
    rights = engine.one("SELECT has_schema_privilege('pg_monitor', 'rota', 'USAGE')")
    assert rights is False
