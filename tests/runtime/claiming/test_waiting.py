"""When a worker looks for work: no call is lost, whenever it comes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rota.runtime.claiming import waiting as module
from rota.runtime.claiming.waiting import Waiting
from rota.store.queries import Query


def waiting() -> Waiting:
    async def say(query: Query[Any]) -> Any:
        return query.read([])

    return Waiting(poll_seconds=60, worker=1, say=say)


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


def test_the_call_from_which_on_it_polls_is_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    clock = waiting()
    for _ in range(module._BUSY_CALLS_PER_SECOND + 1):
        clock.asked()
        clock.claimed(0)
        assert not clock.is_claim_due(False)
        assert clock.called()
        assert clock.is_claim_due(False)
    assert clock.is_busy
    clock.asked()
    clock.claimed(0)
    assert not clock.called()
    assert clock.seconds_to_claim(False) == pytest.approx(module._BUSY_LOOK_SECONDS)


async def test_it_does_not_rest_while_an_older_transaction_has_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past the time in which most end it polls, and asks after each poll whether that one has."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    answers: dict[str, Any] = {
        "workers/next_xid": [(70,)], "workers/oldest_xid": [(50,)],
        "workers/late_enqueues": [(1,)], "workers/answer_calls": [],
    }  # fmt: skip

    async def say(query: Query[Any]) -> Any:
        return query.read(answers[query.statement])

    clock = Waiting(poll_seconds=1, resting_seconds=6, worker=1, say=say)
    clock.set_listening(True)
    await clock.update()

    async def look() -> float:
        clock.asked()
        clock.claimed(0)
        await clock.update()
        return clock.seconds_to_claim(False)

    assert await look() < 1
    now[0] += module._SETTLE_LIMIT + 1
    assert await look() == 1
    assert clock.is_claim_due(False), "once more, as it is quiet from now on"
    for _ in range(3):
        assert await look() == 1
        now[0] += 1
    answers["workers/late_enqueues"] = []
    clock.asked()
    clock.claimed(0)
    await clock.update()
    assert clock.is_claim_due(False), "it may have committed after the claim"
    assert await look() > 5
