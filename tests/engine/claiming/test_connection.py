"""A claim that is ready before the call and sent in the moment of it, and where its runs go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest

import rota
from rota.engine.claiming.connection import ClaimConnection
from rota.engine.claiming.ends import EndBuffer
from rota.engine.claiming.slots import ClaimCommit, Slots
from rota.engine.metrics.counters import Counters
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest, ConnectionTurn, ReadyClaim
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.pipeline.prepared import Early
from rota.testing import eventually
from tests.engine.claiming.test_claim_commit import HOLD, at_commit_of_a_claim, waiting_backends
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_loops


@pytest.fixture
def made_ready(monkeypatch: pytest.MonkeyPatch) -> list[ClaimConnection]:
    """One entry for each time that a worker goes to rest with a claim that is ready."""
    found: list[ClaimConnection] = []
    original = ClaimConnection.prepare

    def prepare(self: ClaimConnection, request: ClaimRequest) -> None:
        original(self, request)
        if self._prepared is not None:
            found.append(self)

    monkeypatch.setattr(ClaimConnection, "prepare", prepare)
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[ReadyClaim]:
    found: list[ReadyClaim] = []
    original = ReadyClaim.send

    def send(self: ReadyClaim, early: Early[Claim]) -> bool:
        is_sent = original(self, early)
        if is_sent:
            found.append(self)
        return is_sent

    monkeypatch.setattr(ReadyClaim, "send", send)
    return found


@pytest.fixture
def ran(app: rota.App) -> list[int]:
    ran = []

    @app.job
    async def note(n: int) -> None:
        ran.append(n)

    return ran


async def send_one(
    engine: Engine, made_ready: list[ClaimConnection], sent: list[ReadyClaim]
) -> int:
    """The run of a claim that went out with its call, and whose commit waits for lock 1."""
    await eventually(lambda: bool(made_ready))
    at_commit_of_a_claim(engine, HOLD)
    engine.conn.execute("SELECT pg_advisory_lock(1)")
    run = engine.enqueue("note", {"n": 1})
    await eventually(lambda: bool(sent) and bool(waiting_backends(engine)))
    return run


async def test_a_call_sends_what_is_ready(
    app: rota.App,
    engine: Engine,
    ran: list[int],
    made_ready: list[ClaimConnection],
    sent: list[ReadyClaim],
) -> None:
    async def pick_up(n: int) -> None:
        made_ready.clear()
        await eventually(lambda: bool(made_ready))
        engine.enqueue("note", {"n": n})
        await eventually(lambda: n in ran)

    async with app.worker():
        for n in range(30):
            await pick_up(n)
            if len(sent) == 3:  # on a busy machine a look of its own may come before a call
                break
    assert ran == [*range(n + 1)]
    assert len(sent) == 3


async def test_a_queue_that_nobody_knew_is_looked_into_as_ever(
    app: rota.App,
    engine: Engine,
    ran: list[int],
    made_ready: list[ClaimConnection],
    sent: list[ReadyClaim],
) -> None:
    async with app.worker():
        await eventually(lambda: bool(made_ready))
        run = engine.enqueue("note", {"n": 1}, queue="new")
        await eventually(lambda: engine.state(run) == "succeeded")
    assert sent == []


async def test_a_stop_right_after_the_call_loses_nothing(
    app: rota.App,
    engine: Engine,
    ran: list[int],
    made_ready: list[ClaimConnection],
    sent: list[ReadyClaim],
) -> None:
    async with app.worker() as worker:
        run = await send_one(engine, made_ready, sent)
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
        await stopping
    # The runs of the claim were ready before the stop: they finish, like all that has started.
    assert (ran, engine.state(run)) == ([1], "succeeded")


async def test_a_claim_that_breaks_off_starts_nothing(
    app: rota.App,
    engine: Engine,
    ran: list[int],
    made_ready: list[ClaimConnection],
    sent: list[ReadyClaim],
) -> None:
    async with app.worker():
        run = await send_one(engine, made_ready, sent)
        (pid,) = waiting_backends(engine)
        engine.conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
        await eventually(lambda: engine.state(run) == "succeeded")
    assert ran == [1]
    assert engine.run(run)["attempts_used"] == 1


async def test_a_lost_lease_calls_it_off(
    app: rota.App,
    engine: Engine,
    ran: list[int],
    made_ready: list[ClaimConnection],
    sent: list[ReadyClaim],
) -> None:
    async with app.worker() as worker:
        run = await send_one(engine, made_ready, sent)
        identity = worker._identity
        assert identity is not None
        await identity.claim_loop.abandon()
        assert ran == []
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
    assert engine.state(run) == "queued"


# The turn.


async def test_a_free_turn_is_taken_at_once() -> None:
    turn = ConnectionTurn()
    assert turn.take()
    assert not turn.take()
    turn.release()
    async with turn:
        assert not turn.take()
    assert turn.take()


async def test_who_has_waited_longer_goes_first() -> None:
    turn = ConnectionTurn()
    order: list[str] = []

    async def wait() -> None:
        async with turn:
            order.append("waited")

    assert turn.take()
    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    turn.release()
    assert not turn.take()
    await waiting
    assert order == ["waited"]
    assert turn.take()


# Without a worker: what becomes of what a claim brought.


class Desk:
    """A claim connection whose slots start nothing."""

    def __init__(self, engine: Engine, app: rota.App) -> None:
        engine.job()
        self.worker = engine.worker()
        self._feed = Exchange(app.database, self.worker, ["work"])
        self.slots = Slots(10, _never)
        self.connection = ClaimConnection(self._feed, self.slots)
        self.ends = EndBuffer(Counters())

    async def claim(
        self, limit: int, batch: int | None = None, start_batch: int | None = None
    ) -> None:
        request = ClaimRequest(limit, ["default"], max(limit, 1), [], batch, start_batch)
        claims = await self.connection.exchange(request, self.ends, is_alone=False)
        assert claims is not None
        self.connection.take(request, claims)

    @property
    def ready(self) -> list[int]:
        return [claim.id for claim in self.slots.ready]

    async def close(self) -> None:
        await self._feed.close()


async def _never(*_: object) -> None:
    raise AssertionError("nothing starts here")


@pytest.fixture
async def desk(engine: Engine, app: rota.App) -> AsyncIterator[Desk]:
    await app.database.open()
    desk = Desk(engine, app)
    yield desk
    await desk.close()


async def test_a_claim_for_free_slots_is_in_them_once(desk: Desk, engine: Engine) -> None:
    late, soon = engine.enqueue(priority=7), engine.enqueue(priority=1)
    await desk.claim(5)
    assert desk.ready == [soon, late]
    assert desk.connection.held_ids() == {soon, late}


async def test_runs_are_in_the_slots_with_their_commit(
    desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[tuple[int, ClaimCommit | None]] = []
    original = desk.slots.add

    def add(claims: Sequence[Claim], commit: ClaimCommit | None = None) -> None:
        added.append((len(claims), commit))
        original(claims, commit)

    monkeypatch.setattr(desk.slots, "add", add)
    engine.enqueue()
    await desk.claim(5)
    ((count, commit),) = added
    assert commit is not None
    assert (count, commit.is_committed) == (1, True)
    engine.enqueue()
    await desk.claim(5)
    assert added[1] == (1, None), "others waited in the slots: this one came after its commit"


async def test_a_batch_ahead_starts_with_the_next_claim(desk: Desk, engine: Engine) -> None:
    first = engine.enqueue()
    await desk.claim(1, batch=1)
    assert (desk.ready, desk.connection.ahead, desk.connection.ahead_batch) == ([], 1, 1)
    second = engine.enqueue()
    await desk.claim(1, batch=2, start_batch=1)
    assert (desk.ready, desk.connection.ahead_batch) == ([first], 2)
    assert desk.connection.held_ids() == {first, second}


async def test_what_was_claimed_after_a_stop_goes_back(desk: Desk, engine: Engine) -> None:
    run = engine.enqueue()
    desk.connection.is_claiming = False
    await desk.claim(1)
    assert desk.ready == []
    assert desk.connection.held_ids() == {run}
    await desk.connection.hand_back()
    assert desk.connection.handed_back == 1
    assert (engine.state(run), engine.run(run)["attempts_used"]) == ("queued", 0)
    assert not desk.connection.held_ids()


async def test_what_could_not_be_handed_back_is_not_counted(
    desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(_plan: object) -> None:
        raise psycopg.OperationalError("gone")

    engine.enqueue()
    await desk.claim(1)
    monkeypatch.setattr(desk.connection._feed, "fetch", fetch)
    with pytest.raises(psycopg.OperationalError):
        await desk.connection.hand_back()
    assert desk.connection.handed_back == 0


async def test_what_only_the_database_knows_of_goes_back(desk: Desk, engine: Engine) -> None:
    known, stray, ended = engine.enqueue(), engine.enqueue(), engine.enqueue()
    await desk.claim(1)
    rows = engine.claim(desk.worker, 2)
    by_id = {row["id"]: Claim(*row.values())._replace(extras=None) for row in rows}
    desk.ends.succeeded(by_id[ended], 1.0, None)
    await desk.connection.recover(desk.ends)
    assert desk.ready == [known]
    assert [engine.state(run) for run in (known, stray, ended)] == ["running", "queued", "running"]
