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
