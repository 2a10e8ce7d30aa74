"""When a worker looks for work: no call is lost, whenever it comes."""

from __future__ import annotations

from typing import Any

from rota.runtime.waiting import Waiting


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
