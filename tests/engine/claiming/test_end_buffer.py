"""Ends on their way to the database: sent until they are known to be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.claiming.ends import EndBuffer, EndNews
from rota.engine.loops.kept_ends import KeptEnds
from rota.engine.metrics.counters import Counters
from rota.model.outcome import CUT_OFF, Ended, Failure, Outcome, Requeue
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.runs import claimed
from tests.sql_engine import Engine

FAILED = Ended("failed", "failed", "gave up", failure=Failure("E", "words"))


class Desk:
    """A worker without a runtime: what it has claimed, and its ends."""

    def __init__(self, engine: Engine, app: rota.App) -> None:
        engine.job()
        self._engine = engine
        self.worker = engine.worker()
        self.feed = Exchange(app.database, self.worker, ["work"])
        self.ends = EndBuffer(Counters())

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


def _nothing() -> None: ...


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
    claims = await desk.ends.exchange(desk.feed, desk.request(1))
    assert claims is not None
    assert [claim.id for claim in claims] == [third.id], "it has its old place"
    assert desk.ends.take_news() == EndNews(is_written=True)
    assert engine.run(first.id)["result"] == {"n": 1}
    assert (engine.state(first.id), engine.state(second.id)) == ("succeeded", "failed")
    assert desk.ends.is_settled


async def test_nothing_written_is_told_to_nobody(desk: Desk) -> None:
    assert await desk.ends.exchange(desk.feed, None) == []
    assert desk.ends.take_news() == EndNews()


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
    await desk.ends.exchange(desk.feed, None)
    assert desk.ends.take_news().has_delayed is is_later


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


async def test_a_row_that_somebody_holds_keeps_nobody_waiting(
    desk: Desk, engine: Engine, app: rota.App
) -> None:
    held, free = desk.claim(2)
    kept_ends = KeptEnds(app.database, on_written=_nothing)
    with engine.conn.transaction():
        engine.one("SELECT id FROM rota.open_runs WHERE id = %s FOR UPDATE", held.id)
        for claim in (held, free):
            desk.ends.succeeded(claim, 1.0, None)
        claims = await desk.ends.exchange(desk.feed, desk.request(1))
        assert claims is None, "the request went with what was refused"
        assert desk.ends.is_settled, "it is kept, and nobody waits for it"
        assert desk.ends.take_news().has_kept
        assert engine.state(free.id) == "succeeded"
        assert await kept_ends.run_once() < 1
        assert engine.state(held.id) == "running"
    assert await kept_ends.run_once() > 1
    assert engine.state(held.id) == "succeeded"
    assert engine.one("SELECT count(*) FROM rota.kept_ends") == 0


@pytest.mark.parametrize(
    ("outcome", "states", "attempt_state"),
    [
        (None, ["succeeded"], "succeeded"),
        (
            Ended("succeeded", "succeeded", result='{"n": 1}', message="m"),
            ["succeeded"],
            "succeeded",
        ),
        (FAILED, ["failed"], "failed"),
        (Requeue("failed", 60.0, True, "m", Failure("E", "words", "t")), ["scheduled"], "failed"),
        (Requeue("snoozed", 60.0, is_spent=False), ["scheduled"], "snoozed"),
        (CUT_OFF, ["queued"], "cancelled"),
    ],
)
@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_is_known_of_an_attempt_outlives_its_worker(
    desk: Desk,
    engine: Engine,
    app: rota.App,
    outcome: Outcome | None,
    states: list[str],
    attempt_state: str,
    is_lost: bool,
) -> None:
    """A worker that gives up keeps what it knows; no rescue takes the run for lost."""
    (claim,) = desk.claim(1)
    if outcome is None:
        desk.ends.succeeded(claim, 1.0, '{"n": 1}')
    else:
        desk.ends.ended(claim, 1.0, outcome)
    await desk.ends.keep_all(desk.feed)
    assert desk.ends.is_settled
    assert engine.state(claim.id) == "running"
    if is_lost:
        engine.lose(desk.worker)
        assert engine.rescue() == {}
    assert await app.database.fetch(claimed.strays(desk.worker)) == []
    await KeptEnds(app.database, on_written=_nothing).run_once()
    row = engine.run(claim.id)
    assert row["state"] in states
    assert engine.attempt_states(claim.id) == [attempt_state]
    if row["state"] == "succeeded":
        assert row["result"] == {"n": 1}


async def test_an_end_that_comes_too_late_is_not_kept(desk: Desk, engine: Engine) -> None:
    (claim,) = desk.claim(1)
    engine.lose(desk.worker)
    engine.rescue()
    desk.ends.succeeded(claim, 1.0, None)
    await desk.ends.keep_all(desk.feed)
    assert engine.one("SELECT count(*) FROM rota.kept_ends") == 0


async def test_a_kept_end_that_cannot_be_stored_is_dropped_and_the_run_rescued(
    desk: Desk, engine: Engine, app: rota.App
) -> None:
    bad, good = desk.claim(2)
    for claim in (bad, good):
        desk.ends.succeeded(claim, 1.0, None)
    await desk.ends.keep_all(desk.feed)
    engine.rows("UPDATE rota.kept_ends SET state = 'no state' WHERE run_id = %s", bad.id)
    await KeptEnds(app.database, on_written=_nothing).run_once()
    assert (engine.state(bad.id), engine.state(good.id)) == ("running", "succeeded")
    engine.lose(desk.worker)
    assert list(engine.rescue()) == [bad.id]


async def test_an_end_that_waits_for_something_else_is_kept_too(
    desk: Desk, engine: Engine, app: rota.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """As while somebody builds an index on the history: it takes no writes, of anybody."""
    (claim,) = desk.claim(1)
    holder = connect(autocommit=False)
    holder.execute("LOCK TABLE rota.ended_runs IN SHARE MODE")
    desk.ends.succeeded(claim, 1.0, None)
    claims = await desk.ends.exchange(desk.feed, desk.request(1))
    assert claims is None
    assert desk.ends.take_news().has_kept
    engine.enqueue()
    claims = await desk.ends.exchange(desk.feed, desk.request(1))
    assert claims is not None
    assert len(claims) == 1
    kept_ends = KeptEnds(app.database, on_written=_nothing)
    assert await kept_ends.run_once() < 1
    holder.rollback()
    await kept_ends.run_once()
    assert engine.state(claim.id) == "succeeded"


async def test_an_end_that_cannot_be_stored_keeps_none_of_the_others(
    desk: Desk, engine: Engine
) -> None:
    first, bad, last = desk.claim(3)
    desk.ends.succeeded(first, 1.0, None)
    desk.ends.ended(bad, 1.0, Ended("succeeded", "succeeded", details="{no json"))
    desk.ends.ended(last, 1.0, FAILED)
    claims = await desk.ends.exchange(desk.feed, None)
    assert claims is None
    assert engine.state(first.id) == "succeeded"
    assert engine.run(last.id)["end_reason"] == "gave up"
    assert engine.run(bad.id)["end_reason"] == "its result could not be stored"
    assert desk.ends.is_settled
