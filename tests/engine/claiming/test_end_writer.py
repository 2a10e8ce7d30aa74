"""In a drain the ends go over a connection of their own, beside the claims."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.claiming import ends as module
from rota.engine.claiming import plan
from rota.engine.claiming.loop import ClaimLoop
from rota.engine.claiming.state import ClaimState
from rota.postgres.pipeline.claims import ClaimRequest
from rota.postgres.pipeline.ends import Ends
from rota.postgres.pipeline.exchange import Exchange
from rota.testing import eventually
from tests.engine.claiming.test_claim_commit import waiting_backends
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_loops

SECOND = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'rota worker ends%%'"
)


class Exchanges:
    """What went over each connection."""

    def __init__(self) -> None:
        self.firsts: list[tuple[int, ClaimRequest | None]] = []
        self.seconds: list[int] = []
        self.error: Exception | None = None

    def note(self, feed: Exchange, ends: Ends, request: ClaimRequest | None) -> None:
        if not feed._name.startswith("rota worker ends"):
            self.firsts.append((len(ends), request))
            return
        self.seconds.append(len(ends))
        assert request is None
        if self.error is not None:
            raise self.error


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Exchanges:
    found = Exchanges()
    original = Exchange.exchange

    async def exchange(self: Exchange, ends: Ends, request: Any, *rest: Any) -> Any:
        found.note(self, ends, request)
        return await original(self, ends, request, *rest)

    monkeypatch.setattr(Exchange, "exchange", exchange)
    return found


class Notes:
    """A job that writes down that it ran."""

    def __init__(self, app: rota.App) -> None:
        self._app = app
        self.ran: list[int] = []

        @app.job
        async def note(n: int) -> None:
            self.ran.append(n)

        self._job = note

    async def enqueue(self, runs: int) -> None:
        await self._app.enqueue_many([self._job.call(n=n) for n in range(runs)])


@pytest.fixture
def notes(app: rota.App) -> Notes:
    return Notes(app)


async def until_ended(engine: Engine) -> None:
    await eventually(lambda: engine.one("SELECT count(*) = 0 FROM rota.open_runs"), timeout=60)


def assert_all_succeeded_once(engine: Engine, notes: Notes, runs: int) -> None:
    assert sorted(notes.ran) == list(range(runs))
    ended = engine.rows("SELECT state, attempt, count(*) FROM rota.ended_runs GROUP BY 1, 2")
    assert ended == [{"state": "succeeded", "attempt": 1, "count": runs}]


async def test_ends_go_beside_claims(
    app: rota.App, engine: Engine, notes: Notes, exchanges: Exchanges
) -> None:
    await notes.enqueue(3000)
    async with app.worker():
        await until_ended(engine)
    assert_all_succeeded_once(engine, notes, 3000)
    assert sum(exchanges.seconds) > 1500
    alone = [request for ends, request in exchanges.firsts if request is not None and not ends]
    assert sum(request.limit for request in alone) > 1500
    assert engine.one(SECOND) == 0


async def test_one_run_after_the_other_needs_one_connection(
    app: rota.App, engine: Engine, notes: Notes, exchanges: Exchanges
) -> None:
    async with app.worker():
        for n in range(5):
            engine.enqueue("note", {"n": n})
            await eventually(lambda n=n: n in notes.ran)
        await until_ended(engine)
        assert engine.one(SECOND) == 0
    assert exchanges.seconds == []


@pytest.mark.parametrize(
    "error", [psycopg.OperationalError("too many connections"), RuntimeError("anything")]
)
async def test_after_an_error_the_first_does_everything(
    app: rota.App, engine: Engine, notes: Notes, exchanges: Exchanges, error: Exception
) -> None:
    exchanges.error = error
    await notes.enqueue(2000)
    async with app.worker():
        await until_ended(engine)
    assert_all_succeeded_once(engine, notes, 2000)
    assert len(exchanges.seconds) == 1, "it was tried again at once"


async def test_it_comes_back(
    app: rota.App,
    engine: Engine,
    notes: Notes,
    exchanges: Exchanges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ASIDE_SECONDS", 0.0)
    exchanges.error = psycopg.OperationalError("gone")
    await notes.enqueue(2000)
    async with app.worker():
        await eventually(lambda: bool(exchanges.seconds))
        exchanges.error = None
        await until_ended(engine)
    assert_all_succeeded_once(engine, notes, 2000)
    assert len(exchanges.seconds) > 1


async def test_claims_wait_for_a_write_that_waits(
    app: rota.App, engine: Engine, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a crash would repeat stays bounded."""
    engine.conn.execute(
        "CREATE FUNCTION public.at_commit() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;"
        " CREATE CONSTRAINT TRIGGER at_commit AFTER DELETE ON rota.open_runs"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " WHEN (OLD.seq % 5000 > 2000 AND"
        " current_setting('application_name') LIKE 'rota worker ends%')"
        " EXECUTE FUNCTION public.at_commit()"
    )
    engine.conn.execute("SELECT pg_advisory_lock(1)")
    await notes.enqueue(9000)

    loops: list[ClaimLoop] = []
    rest = ClaimLoop._rest

    async def note(self: ClaimLoop, state: ClaimState) -> None:
        loops.append(self)
        await rest(self, state)

    monkeypatch.setattr(ClaimLoop, "_rest", note)
    monkeypatch.setattr(plan, "_FAST_MS", 1000.0)  # whatever else this machine does

    def stands_still() -> bool:
        if not loops or not waiting_backends(engine):
            return False
        is_resting = loops[-1]._waiter is not None and not loops[-1]._slots.held_ids()
        return is_resting and len(loops[-1]._ends) > 500

    async with app.worker():
        await eventually(stands_still)
        written = engine.one("SELECT count(*) FROM rota.ended_runs")
        claimed = engine.one("SELECT count(*) FROM rota.open_runs WHERE worker IS NOT NULL")
        assert len(notes.ran) > written + 500, "nothing went on beside the write"
        # A claim goes out with at most 500 ends waiting and 417 runs to start; 500 more start when
        # it is answered, and as many have been claimed. The write took at most as many ends.
        assert claimed < 7 * 500, "nothing stopped the claims"
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
        await until_ended(engine)
    assert_all_succeeded_once(engine, notes, 9000)


async def test_a_connection_without_work_is_closed(
    app: rota.App,
    engine: Engine,
    notes: Notes,
    exchanges: Exchanges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.05)
    async with app.worker():
        for _ in range(2):
            exchanges.seconds.clear()
            await notes.enqueue(2000)
            await until_ended(engine)
            assert exchanges.seconds
            await eventually(lambda: engine.one(SECOND) == 0)
