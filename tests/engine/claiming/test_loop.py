"""The claim loop as a whole: how often it acts."""

from __future__ import annotations

import time

import pytest

from rota.engine.claiming.loop import ClaimLoop
from rota.engine.claiming.state import ClaimState
from rota.testing import eventually
from tests.conftest import MakeApp

pytestmark = pytest.mark.both_loops
POLL_SECONDS = 0.2


async def test_a_worker_that_may_not_claim_rests(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its next poll has been due for long."""
    states: list[ClaimState] = []
    overdue: list[float] = []
    original = ClaimLoop._rest

    async def rest(self: ClaimLoop, state: ClaimState) -> None:
        states.append(state)
        began = time.monotonic()
        await original(self, state)
        if not state.is_claiming and state.calls.seconds_to_poll < 0:
            overdue.append(time.monotonic() - began)

    monkeypatch.setattr(ClaimLoop, "_rest", rest)
    app = make_app(**{"worker.poll_seconds": POLL_SECONDS})
    async with app.worker() as worker:
        await eventually(lambda: bool(states) and states[-1].calls.is_quiet)
        identity = worker._identity
        assert identity is not None
        identity.claim_loop.pause_claiming(True)
        await eventually(lambda: len(overdue) >= 3)
    assert max(overdue) >= POLL_SECONDS / 2
