"""When a worker looks for work: no call is lost, whenever it comes."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.runtime.waiting import Waiting
from rota.store.feed import ClaimRequest, Ends, Feed
from rota.testing import eventually


def waiting() -> Waiting:
    async def say(*_: Any, **__: Any) -> list[Any]:
        return []

    return Waiting(poll_seconds=60, say=say)


def test_a_call_is_answered_by_the_claim_after_it() -> None:
    clock = waiting()
    clock.asked()
    clock.claimed(0)
    assert not clock.is_claim_due(False)
    clock.called()
    assert clock.is_claim_due(False)
    clock.asked()
    clock.claimed(1)
    assert not clock.is_claim_due(False)


def test_a_call_during_a_claim_asks_for_another_one() -> None:
    clock = waiting()
    clock.called()
    clock.asked()
    clock.called()  # committed after the claim had looked
    clock.claimed(0)
    assert clock.is_claim_due(False)


async def test_a_run_that_comes_while_a_claim_is_under_way_is_not_left_to_the_poll(
    make_app: Any, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim has looked, the run is committed, its call is heard, and only then comes the
    claim's empty answer."""
    app: rota.App = make_app(worker={"poll_seconds": 60})
    heard: list[str] = []

    @app.job
    async def work() -> None: ...

    exchange = Feed.exchange
    runs: list[rota.Run] = []

    async def late(self: Feed, ends: Ends, request: ClaimRequest | None) -> Any:
        answer = await exchange(self, ends, request)
        if request is not None and request.limit and not runs and is_waiting():
            runs.append(await work.enqueue())
            await eventually(lambda: bool(heard))
        return answer

    def is_waiting() -> bool:
        return conn.execute("SELECT FROM rota.workers WHERE is_waiting").fetchone() is not None

    monkeypatch.setattr(Feed, "exchange", late)
    called = Waiting.called
    monkeypatch.setattr(Waiting, "called", lambda self: (heard.append(""), called(self))[1])
    async with app.worker():
        await eventually(lambda: bool(runs))
        await runs[0].wait(20)
