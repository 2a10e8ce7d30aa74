"""`app.doctor`: each check, provoked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

import rota
from rota.model.finding import Finding, Report
from rota.model.metrics import FleetHealth
from rota.operations.reports.checks import schema, server, storage, transactions, upkeep, workers
from rota.postgres.migrate import latest
from rota.postgres.reports.doctor import (
    CounterAge,
    DeadRows,
    KeepingRows,
    LeaseState,
    PartitionsAhead,
    ServerState,
    UpkeepState,
)
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


def found(report: Report, check: str) -> Finding:
    (one,) = [it for it in report.findings if it.check == check]
    return one


@pytest.fixture
def engine(conn: Conn) -> Engine:
    return Engine(conn)


async def test_an_installation_that_is_well(app: rota.App, engine: Engine) -> None:
    engine.worker()
    report = await app.doctor.get()

    # The servers of tests need not survive a crash.
    assert {it.check for it in report.findings if it.verdict == "bad"} <= {"durability"}
    assert report.ok == sum(it.verdict == "ok" for it in report.findings) > 10
    assert found(report, "schema").figure == f"{latest():04}"
    assert found(report, "server").title.startswith("PostgreSQL 1")
    assert found(report, "connections").limit == "80 %"
    assert found(report, "partitions").verdict == "ok"
    order = ["bad", "warn", "ok"]
    verdicts = [order.index(it.verdict) for it in report.findings]
    assert verdicts == sorted(verdicts), "the worst first"
    assert app.doctor.sync.get().ok >= report.ok - 1


async def test_no_worker_is_live(app: rota.App) -> None:
    one = found(await app.doctor.get(), "workers")
    assert (one.verdict, one.title, one.commands) == ("bad", "No worker is live", ["rota worker"])


async def test_a_lease_that_ran_out_and_one_that_is_late(app: rota.App, engine: Engine) -> None:
    worker = engine.worker(lease=60)
    assert found(await app.doctor.get(), "lease").verdict == "ok"
    engine.rows("UPDATE rota.workers SET lease_expires_at = clock_timestamp() + interval '9 s'")
    assert found(await app.doctor.get(), "lease").title == "w renews its lease late"
    engine.expire(worker)
    assert found(await app.doctor.get(), "lease").title == "The lease of w has expired"


async def test_workers_in_trouble_and_of_two_releases(app: rota.App, engine: Engine) -> None:
    engine.worker()
    engine.worker()
    engine.rows("UPDATE rota.workers SET version = id::text, is_stuck = (id % 2 = 0)")
    report = await app.doctor.get()
    assert found(report, "worker_troubles").figure == "1 stuck"
    assert found(report, "releases").verdict == "warn"


async def test_a_transaction_that_stays_open(
    app: rota.App, connect: Callable[..., Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connect(autocommit=False, application_name="bi export")
    other.execute("SELECT 1")
    assert found(await app.doctor.get(), "oldest_transaction").verdict == "ok"
    monkeypatch.setattr(transactions, "_WARN", 0)
    one = found(await app.doctor.get(), "oldest_transaction")

    assert one.verdict == "warn"
    assert "bi export: idle in transaction" in str(one.detail)
    assert one.commands[0] == f"SELECT pg_terminate_backend({other.info.backend_pid});"
    assert one.commands[1].startswith('ALTER ROLE "postgres" SET')
    other.rollback()


async def test_a_transaction_that_holds_what_work_needs(
    app: rota.App, engine: Engine, connect: Callable[..., Conn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key, whose run has ended meanwhile; a run whose end is kept; rows that people edit."""
    engine.job("work")
    worker = engine.worker()
    keyed, kept = engine.enqueue(key="k"), engine.enqueue()
    other = connect(autocommit=False, application_name="psql")
    other.execute("SELECT FROM rota.keys FOR UPDATE")
    other.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [kept])
    other.execute("UPDATE rota.jobs SET description = 'x' WHERE name = 'work'")
    assert found(await app.doctor.get(), "held_rows").verdict == "ok"
    monkeypatch.setattr(transactions, "_HELD_WARN", 0)
    claims = engine.claim(worker)
    engine.succeed(worker, *[claim for claim in claims if claim["id"] == keyed])
    engine.rows(
        "INSERT INTO rota.kept_ends (run_id, attempt, worker, attempt_state, state)"
        " VALUES (%s, 1, %s, 'succeeded', 'succeeded')",
        kept,
        worker,
    )
    one = found(await app.doctor.get(), "held_rows")
    assert one.verdict == "warn"
    for part in (
        f"the end of run {kept}",
        f'the key "k" of run {keyed}',
        "job work",
        "psql: idle in",
    ):
        assert part in str(one.detail)
    assert one.commands == [f"SELECT pg_terminate_backend({other.info.backend_pid});"]
    other.rollback()
    monkeypatch.undo()
    assert found(await app.doctor.get(), "held_rows").verdict == "ok"


def test_two_phase_transactions_and_slots_that_nobody_reads() -> None:
    row = KeepingRows("prepared", "it's", "ada", None, None, 1000.0, 3_000_000_000)
    (prepared,) = transactions._prepared(row)
    assert (prepared.verdict, prepared.commands) == ("bad", ["ROLLBACK PREPARED 'it''s';"])
    (slot,) = transactions._slots(row)
    assert (slot.verdict, slot.figure) == ("warn", "3.0 GB")
    (hidden,) = transactions._hidden(row)
    assert hidden.verdict == "warn"
    assert not [*transactions._prepared(None), *transactions._slots(None)]
    assert transactions.quoted('a"b') == '"a""b"'


@pytest.mark.parametrize(
    ("live", "dead", "verdict"),
    [
        (0, 0, "ok"),
        (10, 49_000, "ok"),
        (10, 51_000, "warn"),
        (1_000_000, 60_000, "ok"),
        (5, 2_000_000, "bad"),
    ],
)
def test_dead_rows(live: int, dead: int, verdict: str) -> None:
    one = storage.dead_rows(DeadRows("open_runs", live, dead, 120.0))
    assert one.verdict == verdict
    if verdict != "ok":
        assert "vacuumed 2 min ago" in str(one.detail)
        assert one.commands == ["VACUUM (VERBOSE) rota.open_runs;"]


@pytest.mark.parametrize(("days", "verdict"), [(7, "ok"), (1, "warn"), (0.1, "bad"), (-3, "bad")])
def test_partitions_ahead(days: float, verdict: str) -> None:
    assert storage.partitions_ahead(PartitionsAhead("logs", days * 86_400)).verdict == verdict


async def test_partitions_that_nobody_made(app: rota.App, engine: Engine) -> None:
    engine.advance(30 * 86_400)
    one = found(await app.doctor.get(), "partitions")
    assert one.verdict == "bad"
    assert "ensure_partitions" in one.commands[0]
    moved = found(await app.doctor.get(), "business_clock")
    assert (moved.verdict, moved.figure) == ("warn", "30 d")


SERVER = ServerState(
    number=170_000, version="17.0", up_seconds=1.0, bytes=1, is_fsync=True, is_full_page=True,
    is_autovacuum=True, synchronous_commit="on", connections=10, most_connections=100,
    own_connections=3, notify_usage=0.0, xid_age=1000, freeze_age=200_000_000,
    clock=datetime(2026, 1, 1, tzinfo=UTC), clock_offset=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("judge", "change", "verdict"),
    [
        (server._release, {"number": 130_000}, "bad"),
        (server._connections, {"connections": 85}, "warn"),
        (server._connections, {"connections": 96}, "bad"),
        (server._notifications, {"notify_usage": 0.2}, "warn"),
        (server._notifications, {"notify_usage": 0.6}, "bad"),
        (server._wraparound, {"xid_age": 500_000_000}, "warn"),
        (server._wraparound, {"xid_age": 1_600_000_000}, "bad"),
        (server._offset, {"clock_offset": -90.0}, "warn"),
        (lambda row: next(iter(server._settings(row))), {"is_fsync": False}, "bad"),
        (lambda row: next(iter(server._settings(row))), {"synchronous_commit": "off"}, "warn"),
        (lambda row: [*server._settings(row)][1], {"is_autovacuum": False}, "bad"),
        (lambda row: server._clock(row, 4.2), {}, "warn"),
    ],
)
def test_limits_of_the_server(judge: Any, change: dict[str, Any], verdict: str) -> None:
    one = judge(replace(SERVER, **change))
    assert one.verdict == verdict
    assert one.detail
    assert one.advice


def test_schemas_older_and_newer() -> None:
    assert schema.judged(40, 41).verdict == "bad"
    assert schema.judged(42, 41).verdict == "warn"
    assert schema.judged(41, 41).verdict == "ok"


STAND = FleetHealth(
    live=0, draining=0, stopping=0, stuck=0, failing=0, silent=0, asleep=0, lost=0, slots=0,
    heartbeat_seconds=None, memory_bytes=None, memory_most_bytes=None, cpu_cores=None,
    schedules_active=3, schedules_paused=0, schedules_parked=0, overdue_seconds=0.0, duplicates=0,
    events=0, event_starts=0, hook_refusals=0, queues_paused=0, queues_full=0, queue_refusals=0,
)  # fmt: skip


def test_ticks() -> None:
    assert upkeep._ticks([], STAND).title == "No worker has processed schedules yet"
    ticks = CounterAge("ticks", None, amount=1, age=130.0)
    assert upkeep._ticks([ticks], STAND).verdict == "warn"
    assert upkeep._ticks([replace(ticks, age=1.0)], STAND).verdict == "ok"
    assert upkeep._ticks([], replace(STAND, schedules_active=0)).verdict == "ok"
    late, parked = upkeep._overdue(replace(STAND, overdue_seconds=700.0, schedules_parked=2))
    assert (late.verdict, parked.figure) == ("bad", "2")


async def test_upkeep_that_does_not_go_round(app: rota.App, engine: Engine) -> None:
    engine.one("SELECT rota.count_attempt('work', 'default', 'failed', 1.0)")
    assert found(await app.doctor.get(), "upkeep").verdict == "ok"
    engine.advance(3601)
    assert found(await app.doctor.get(), "upkeep").verdict == "bad"


async def test_errors_of_loops_and_lines_that_were_dropped(app: rota.App, engine: Engine) -> None:
    engine.rows(
        "INSERT INTO rota.count_changes (name, labels, amount) VALUES"
        " ('loop_errors', '{\"loop\": \"promoter\"}', 3), ('lines_dropped', '{}', 12)"
    )
    report = await app.doctor.get()
    assert found(report, "loops").figure == "promoter"
    assert "12 in total" in str(found(report, "log_lines").detail)


def test_retention() -> None:
    row = UpkeepState(None, None, None, None, None, installed_seconds=100.0)
    assert not list(upkeep._retention(row)), "a young installation has had no night"
    (never,) = upkeep._retention(replace(row, installed_seconds=3.0 * 86_400))
    (failed,) = upkeep._retention(replace(row, pruned_seconds=5.0, pruned="failed"))
    (late,) = upkeep._retention(replace(row, pruned_seconds=3.0 * 86_400, pruned="succeeded"))
    (well,) = upkeep._retention(replace(row, pruned_seconds=5.0, pruned="succeeded"))
    assert [it.verdict for it in (never, failed, late, well)] == ["warn", "warn", "warn", "ok"]


async def test_commands_name_the_schema_of_the_installation(
    app: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rota.operations.reports.doctor import _here

    one = storage.dead_rows(DeadRows("open_runs", 0, 60_000, None))
    assert _here(one, "jobs").commands == ['VACUUM (VERBOSE) "jobs".open_runs;']
    none = LeaseState(0, 0, None, None, None, None, [])
    assert workers._live(none, STAND).commands == ["rota worker"]
    assert workers._live(none, replace(STAND, asleep=2)).verdict == "ok"


async def test_walls_between_roles(app: rota.App, engine: Engine) -> None:
    engine.rows("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # as PostgreSQL 15 has it
    report = await app.doctor.get()
    assert found(report, "open_schemas").verdict == "ok"
    assert found(report, "owner").verdict == "ok"
    engine.rows("GRANT CREATE ON SCHEMA public TO PUBLIC")
    engine.rows("GRANT EXECUTE ON FUNCTION rota.drop_part(text) TO pg_monitor")
    report = await app.doctor.get()
    one = found(report, "open_schemas")
    assert (one.verdict, one.figure) == ("warn", "public")
    assert one.commands == ['REVOKE CREATE ON SCHEMA "public" FROM PUBLIC;']
    engine.rows("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    engine.rows('CREATE SCHEMA "a"" FROM x; DROP TABLE t; --"')
    engine.rows('GRANT CREATE ON SCHEMA "a"" FROM x; DROP TABLE t; --" TO PUBLIC')
    (command,) = found(await app.doctor.get(), "open_schemas").commands
    assert command == 'REVOKE CREATE ON SCHEMA "a"" FROM x; DROP TABLE t; --" FROM PUBLIC;'
    assert found(report, "owner").verdict == "warn"
