"""Ends on their way to the database: sent until they are known to be written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

import rota
from rota.model.outcome import CUT_OFF, Ended, Failure, Outcome, Requeue
from rota.model.run import Claim
from rota.runtime.claiming.end_buffer import EndBuffer
from rota.runtime.metrics.counters import Counters
from rota.store.pipeline.claims import ClaimRequest
from rota.store.pipeline.feed import Feed
from tests.engine import Engine

FAILED = Ended("failed", "failed", "gave up", failure=Failure("E", "words"))


class Desk:
    """A worker without a runtime: what it has claimed, and its ends."""

    def __init__(self, engine: Engine, app: rota.App) -> None:
        engine.job()
        self._engine = engine
        self.worker = engine.worker()
        self.feed = Feed(app.database, self.worker, ["work"])
        self.written = 0
        self.ends = EndBuffer(Counters(), self._note)

    def _note(self) -> None:
        self.written += 1

    def claim(self, runs: int) -> list[Claim]:
        for _ in range(runs):
            self._engine.enqueue()
        rows = self._engine.claim(self.worker, runs)
        return [Claim(*row.values())._replace(payload=b"{}", extras=None) for row in rows]

    def request(self, limit: int) -> ClaimRequest:
        return ClaimRequest(limit, ["default"], limit, [], None, None)

    def break_connection(self) -> None:
        self._engine.rows(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = %s",
            f"rota worker {self.worker}",
        )


@pytest.fixture
async def desk(engine: Engine, app: rota.App) -> AsyncIterator[Desk]:
    await app.database.open()
    desk = Desk(engine, app)
    yield desk
    await desk.feed.close()


async def test_one_round_trip_ends_and_claims(desk: Desk, engine: Engine) -> None:
    first, second, third = desk.claim(3)
    engine.enqueue()
    desk.ends.succeeded(first, 1.0, '{"n": 1}')
    desk.ends.ended(second, 2.0, FAILED)
    desk.ends.ended(third, 3.0, CUT_OFF)
    assert (len(desk.ends), desk.ends.ids()) == (3, {first.id, second.id, third.id})
    claims, has_later = await desk.ends.exchange(desk.feed, desk.request(1))
    assert claims is not None
    assert [one.id for one in claims] == [third.id], "it has its old place"
    assert not has_later
    assert engine.run(first.id)["result"] == {"n": 1}
    assert (engine.state(first.id), engine.state(second.id)) == ("succeeded", "failed")
    assert desk.ends.is_settled
    assert desk.written == 1


async def test_nothing_written_is_told_to_nobody(desk: Desk) -> None:
    assert await desk.ends.exchange(desk.feed, None) == ([], False)
    assert desk.written == 0


@pytest.mark.parametrize(
    ("outcome", "is_later"),
    [
        (Requeue("failed", 5.0, is_spent=True), True),
        (Requeue("failed", 0, is_spent=True), False),
        (CUT_OFF, False),
        (FAILED, False),
    ],
)
async def test_it_says_whether_something_was_put_off(
    desk: Desk, outcome: Outcome, is_later: bool
) -> None:
    (claim,) = desk.claim(1)
    desk.ends.ended(claim, 1.0, outcome)
    _, has_later = await desk.ends.exchange(desk.feed, None)
    assert has_later is is_later


async def test_what_was_not_written_is_sent_again_first(desk: Desk, engine: Engine) -> None:
    first, second = desk.claim(2)
    await desk.feed.open()
    desk.ends.succeeded(first, 1.0, None)
    desk.break_connection()
    with pytest.raises(psycopg.OperationalError):
        await desk.ends.exchange(desk.feed, None)
    desk.ends.succeeded(second, 1.0, None)
    assert desk.ends._ends.ids == [first.id, second.id]
    await desk.feed.close()
    await desk.ends.exchange(desk.feed, None)
    assert {engine.state(first.id), engine.state(second.id)} == {"succeeded"}
    assert desk.ends.is_settled


async def test_a_row_that_somebody_holds_keeps_nobody_waiting(desk: Desk, engine: Engine) -> None:
    held, free = desk.claim(2)
    with engine.conn.transaction():
        engine.one("SELECT id FROM rota.open_runs WHERE id = %s FOR UPDATE", held.id)
        for claim in (held, free):
            desk.ends.succeeded(claim, 1.0, None)
        claims, _ = await desk.ends.exchange(desk.feed, desk.request(1))
        assert claims is None, "the request went with what was refused"
        assert (len(desk.ends), desk.ends.ids()) == (0, {held.id})
        assert not desk.ends.is_settled
        assert desk.ends.seconds_to_held is not None
        assert engine.state(free.id) == "succeeded"
        await desk.ends.try_held(desk.feed)
        assert desk.ends.ids() == {held.id}
    await desk.ends.try_held(desk.feed)
    assert engine.state(held.id) == "succeeded"
    assert desk.ends.is_settled


async def test_an_end_that_cannot_be_stored_keeps_none_of_the_others(
    desk: Desk, engine: Engine
) -> None:
    first, bad, last = desk.claim(3)
    desk.ends.succeeded(first, 1.0, None)
    desk.ends.ended(bad, 1.0, Ended("succeeded", "succeeded", details="{no json"))
    desk.ends.ended(last, 1.0, FAILED)
    claims, _ = await desk.ends.exchange(desk.feed, None)
    assert claims is None
    assert engine.state(first.id) == "succeeded"
    assert engine.run(last.id)["end_reason"] == "gave up"
    assert engine.run(bad.id)["end_reason"] == "its result could not be stored"
    assert desk.ends.is_settled
