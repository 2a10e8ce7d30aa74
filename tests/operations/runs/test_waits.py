"""Waiting for the end of a run: told by whoever ends it, and by asking where that is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.errors import RotaError, RunFailed, RunNotFound, WaitTimeout
from rota.jobs.handle import Run
from rota.operations.runs import end_watch
from rota.operations.runs.reader import HandleReader
from rota.postgres.runs.waits import WaitStatements
from rota.postgres.sessions import connection
from rota.postgres.sessions.pool import Database
from rota.testing import eventually
from tests.proxy import Proxy
from tests.sql_engine import Engine, Row

Conn = psycopg.Connection[Any]
Connect = Callable[..., Conn]


class Bench:
    """Runs that a test ends itself, by plain SQL, while the application waits for them."""

    def __init__(self, app: rota.App, engine: Engine) -> None:
        self.app, self.engine = app, engine
        engine.job("work")
        self.worker = engine.worker()

    def start(self) -> tuple[Run, Row]:
        run_id = self.engine.enqueue()
        return Run(run_id, "work", reader=HandleReader(self.app.runs)), self.engine.claim_one(
            self.worker
        )

    async def announced(self, *runs: Run) -> None:
        ids = [run.id for run in runs]
        query = "SELECT count(DISTINCT run_id) FROM rota.waits WHERE run_id = ANY (%s)"
        await eventually(lambda: self.engine.one(query, ids) == len(ids))

    def connections(self) -> list[int]:
        query = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE application_name = 'rota waits' AND datname = current_database()"
        )
        return [row["pid"] for row in self.engine.rows(query)]


@pytest.fixture
def engine(conn: Conn) -> Engine:
    return Engine(conn)


@pytest.fixture
def bench(app: rota.App, engine: Engine) -> Bench:
    return Bench(app, engine)


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not told waits for ever."""
    monkeypatch.setattr(end_watch, "_GAPS", (3600.0,))
    monkeypatch.setattr(end_watch, "_GAPS_UNTOLD", (3600.0,))


@pytest.mark.both_loops
@pytest.mark.usefixtures("untold")
async def test_who_waits_is_told_the_result(bench: Bench) -> None:
    run, claim = bench.start()
    first = asyncio.create_task(run.wait())
    second = asyncio.create_task(run.wait(timeout=60))
    third = asyncio.create_task(asyncio.to_thread(run.wait_sync))
    whole = asyncio.create_task(bench.app.runs.wait(run.id))
    await bench.announced(run)
    await asyncio.sleep(0)
    result = {"text": "grüße\nzwei", "n": 12345678901234567890, "list": [1.5, None]}
    await eventually(lambda: len(bench.app.runs.waits._ends._awaited[run.id].ends) == 4)
    bench.engine.succeed(bench.worker, claim, result=result)
    assert [await one for one in (first, second, third)] == [result] * 3
    assert (await whole).result == result
    await eventually(lambda: bench.engine.one("SELECT count(*) FROM rota.waits") == 0)


@pytest.mark.usefixtures("untold")
async def test_who_waits_is_told_of_every_end(bench: Bench) -> None:
    (failed, claim), (none, other) = bench.start(), bench.start()
    waiting = Run(bench.engine.enqueue(), "work", reader=HandleReader(bench.app.runs))
    expiring = Run(
        bench.engine.enqueue(expires_at="2100-01-01"), "work", reader=HandleReader(bench.app.runs)
    )
    runs = (failed, none, waiting, expiring)
    ends = [asyncio.create_task(run.wait()) for run in runs]
    await bench.announced(*runs)
    bench.engine.fail(bench.worker, claim, "boom")
    bench.engine.succeed(bench.worker, other)
    bench.engine.cancel(waiting.id, "not needed")
    bench.engine.conn.execute(
        "UPDATE rota.open_runs SET expires_at = rota.now() WHERE id = %s", [expiring.id]
    )
    bench.engine.one(
        "SELECT count(*) FROM rota.end_waiting_runs(%s, 'cancelled', 'x')", [expiring.id]
    )
    with pytest.raises(RunFailed) as caught:
        await ends[0]
    assert (caught.value.state, caught.value.error) == ("failed", "boom")
    assert caught.value.end_reason == "attempts used up"
    assert await ends[1] is None
    for end, reason in ((ends[2], "not needed"), (ends[3], "expired")):
        with pytest.raises(RunFailed) as caught:
            await end
        assert caught.value.state == "cancelled"
        assert reason in str(caught.value)


@pytest.mark.usefixtures("untold")
async def test_a_result_too_long_for_a_call_is_fetched(bench: Bench) -> None:
    (long, claim), (middle, other) = bench.start(), bench.start()
    ends = [asyncio.create_task(run.wait()) for run in (long, middle)]
    await bench.announced(long, middle)
    bench.engine.succeed(bench.worker, claim, result="x" * 100_000)
    bench.engine.succeed(bench.worker, other, result=["é" * 3900])  # fits in none, if not in bytes
    assert await ends[0] == "x" * 100_000
    assert await ends[1] == ["é" * 3900]


async def test_an_end_whose_writer_saw_nobody_waiting_is_found_by_asking(
    bench: Bench, connect: Connect
) -> None:
    run, claim = bench.start()
    writer = connect(autocommit=False)
    Engine(writer).succeed(bench.worker, claim, result=1)
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    writer.commit()
    assert await waiting == 1


async def test_an_end_before_the_wait_is_found_at_once(bench: Bench) -> None:
    run, claim = bench.start()
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await run.wait(timeout=30) == 1
    assert run.wait_sync(timeout=0) == 1


@pytest.mark.usefixtures("untold")
async def test_a_rolled_back_end_tells_nobody(bench: Bench, connect: Connect) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    writer = connect(autocommit=False)
    Engine(writer).succeed(bench.worker, claim, result="never")
    writer.rollback()
    bench.engine.succeed(bench.worker, claim, result="so")
    assert await waiting == "so"


@pytest.mark.usefixtures("untold")
async def test_a_late_writer_does_not_pass_for_the_end(bench: Bench) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    assert bench.engine.succeed(bench.worker + 1000, claim, result="another's") == []
    late = claim | {"attempt": claim["attempt"] + 1}
    assert bench.engine.succeed(bench.worker, late, result="another's") == []
    bench.engine.succeed(bench.worker, claim, result="ours")
    assert await waiting == "ours"


async def test_a_run_that_is_put_back_to_work_is_waited_for_again(bench: Bench) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    bench.engine.fail(bench.worker, claim)
    with pytest.raises(RunFailed):
        await waiting
    bench.engine.retry(run.id)
    again = asyncio.create_task(run.wait())
    await bench.announced(run)
    bench.engine.succeed(bench.worker, bench.engine.claim_one(bench.worker), result=2)
    assert await again == 2


async def test_a_run_that_does_not_exist_or_was_deleted(bench: Bench) -> None:
    run, claim = bench.start()
    bench.engine.succeed(bench.worker, claim)
    await bench.app.runs.delete(run.id)
    for gone in (run, Run(10**15, "work", reader=HandleReader(bench.app.runs))):
        with pytest.raises(RunNotFound):
            await gone.wait(timeout=30)
        with pytest.raises(RunNotFound):
            gone.wait_sync(timeout=30)


@pytest.mark.both_loops
@pytest.mark.usefixtures("untold")
async def test_a_killed_listener_is_replaced(bench: Bench) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    (pid,) = bench.connections()
    bench.engine.conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    await eventually(lambda: bench.connections() not in ([], [pid]))
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await waiting == 1


async def test_a_connection_that_ends_while_nobody_waits_is_not_replaced(bench: Bench) -> None:
    run, claim = bench.start()
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await run.wait() == 1
    (pid,) = bench.connections()
    bench.engine.conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    await eventually(lambda: bench.app.runs.waits._ends._thread is None)
    assert bench.connections() == []
    assert await run.wait() == 1


@pytest.mark.usefixtures("untold")
async def test_an_end_while_the_listener_is_away_is_found_when_it_is_back(bench: Bench) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    (pid,) = bench.connections()
    with bench.engine.conn.transaction():
        bench.engine.conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        bench.engine.succeed(bench.worker, claim, result=1)
    assert await waiting == 1


@pytest.mark.both_loops
async def test_a_listener_whose_network_is_reset_is_replaced(bench: Bench, proxy: Proxy) -> None:
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    assert proxy.reset() > 0
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await waiting == 1


async def test_a_network_that_is_silent_costs_an_answer_and_no_end(
    bench: Bench, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_watch, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(connection, "CALL_OFF_SECONDS", 0.2)
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    again = asyncio.Event()
    loop, connect = asyncio.get_running_loop(), bench.app.database.connect_sync

    def connect_again(*args: Any, **options: Any) -> Any:
        loop.call_soon_threadsafe(again.set)
        return connect(*args, **options)

    monkeypatch.setattr(bench.app.database, "connect_sync", connect_again)
    proxy.freeze()
    bench.engine.succeed(bench.worker, claim, result=1)
    await again.wait()
    proxy.heal()
    assert await waiting == 1


async def test_a_database_that_is_gone_is_said(bench: Bench, proxy: Proxy) -> None:
    run, _ = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    proxy.refuse()
    proxy.reset()
    with pytest.raises(rota.DatabaseError):
        await waiting


async def test_who_has_no_session_of_his_own_asks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "has_sessions", False)
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await eventually(lambda: len(bench.connections()) == 1)
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await waiting == 1
    assert bench.engine.one("SELECT count(*) FROM rota.waits") == 0


async def test_who_hears_nothing_asks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitStatements, "listen", lambda *_: None)
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await waiting == 1


async def test_who_may_not_announce_asks(bench: Bench, connect: Connect) -> None:
    run, claim = bench.start()
    with connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE rota.waits IN ACCESS EXCLUSIVE MODE NOWAIT")
        waiting = asyncio.create_task(run.wait())
        await eventually(lambda: bench.app.runs.waits._ends._announce_from > 0)
        holder.rollback()
        bench.engine.succeed(bench.worker, claim, result=1)
        assert await waiting == 1


@pytest.mark.usefixtures("untold")
async def test_all_who_wait_share_a_connection_which_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_watch, "_REST_SECONDS", 0.05)
    started = [bench.start() for _ in range(20)]
    ends = [asyncio.create_task(run.wait()) for run, _ in started]
    ends += [asyncio.create_task(asyncio.to_thread(run.wait_sync)) for run, _ in started[:3]]
    await bench.announced(*(run for run, _ in started))
    assert len(bench.connections()) == 1
    await eventually(lambda: sum(map(len, _ends(bench))) == 23)
    bench.engine.succeed(bench.worker, *(claim for _, claim in started), result=1)
    assert await asyncio.gather(*ends) == [1] * 23
    await eventually(lambda: bench.connections() == [])
    run, claim = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    bench.engine.succeed(bench.worker, claim, result=2)
    assert await waiting == 2


def _ends(bench: Bench) -> list[list[Any]]:
    return [one.ends for one in list(bench.app.runs.waits._ends._awaited.values())]


async def test_who_stops_waiting_leaves_nothing_behind(bench: Bench) -> None:
    (run, _), (other, claim) = bench.start(), bench.start()
    with pytest.raises(WaitTimeout):
        await run.wait(timeout=0.01)
    with pytest.raises(WaitTimeout):
        run.wait_sync(timeout=0.01)
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    waiting.cancel()
    bench.engine.succeed(bench.worker, claim, result=1)
    assert await other.wait() == 1
    await eventually(lambda: bench.engine.one("SELECT count(*) FROM rota.waits") == 0)
    assert not bench.app.runs.waits._ends._awaited


async def test_who_waits_when_the_application_is_closed_is_told_so(bench: Bench) -> None:
    run, _ = bench.start()
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    await bench.app.close()
    with pytest.raises(RotaError, match="closed"):
        await waiting


async def test_ends_that_nobody_waits_for_call_nobody(bench: Bench, connect: Connect) -> None:
    (awaited, claim), (_, other), (_, third) = bench.start(), bench.start(), bench.start()
    listener = connect()
    listener.execute("LISTEN elsewhere")
    assert bench.engine.rows("SELECT rota.await_runs('elsewhere', %s)", [awaited.id, 7]) == [
        {"await_runs": 7}
    ]
    bench.engine.succeed(bench.worker, other, third)
    bench.engine.succeed(bench.worker, claim, result=[1])
    (call,) = listener.notifies(timeout=10, stop_after=1)
    assert call.payload.startswith(f'{{"id" : {awaited.id}, "state" : "succeeded"')
    assert call.payload.endswith("\n[1]")


@pytest.mark.usefixtures("untold")
async def test_a_walk_over_ids_tells_too(bench: Bench, connect: Connect) -> None:
    (run, _), (open_still, other) = bench.start(), bench.start()
    listener = connect()
    listener.execute("LISTEN elsewhere")
    bench.engine.rows("SELECT rota.await_runs('elsewhere', %s)", [open_still.id])
    waiting = asyncio.create_task(run.wait())
    await bench.announced(run)
    walk = "SELECT rota.finish_span(%s, %s, 1, %s, %s::text[]::jsonb[])"
    assert bench.engine.one(walk, bench.worker, run.id, [5, -1], ["7", None]) == 1
    assert await waiting == 7
    bench.engine.succeed(bench.worker, other)
    (call,) = listener.notifies(timeout=10, stop_after=1)
    assert '"succeeded"' in call.payload


def test_whatever_ends_runs_tells_who_waits(conn: Conn) -> None:
    rows = conn.execute(
        "SELECT proname, prosrc LIKE '%%PERFORM rota.tell\\_waiting(%%' FROM pg_proc"
        " WHERE pronamespace = 'rota'::regnamespace AND prosrc LIKE '%%INTO rota.ended\\_runs%%'"
    ).fetchall()
    assert len(rows) >= 3
    assert [name for name, tells in rows if not tells] == []


def test_waits_of_those_who_went_without_a_word_are_swept(engine: Engine) -> None:
    engine.rows("SELECT rota.await_runs('gone', ARRAY[1, 2])")
    engine.conn.execute("UPDATE rota.waits SET until = now() - interval '1 second'")
    engine.conn.execute("UPDATE rota.wait_marks SET until = now()")
    engine.rows("SELECT rota.await_runs('here', ARRAY[3])")
    assert engine.rows("SELECT run_id, channel FROM rota.waits") == [
        {"run_id": 3, "channel": "here"}
    ]
    assert engine.one("SELECT count(*) FROM rota.wait_marks") == 1
