"""What the feeder decides to claim next."""

from __future__ import annotations

from typing import Any

import pytest

from rota.runtime.claiming.next_claim import NextClaim, Situation, next_claim

# Slots are free, it is time to look, and nothing is known about what waits.
IDLE = Situation(
    is_claiming=True,
    has_ahead=False,
    ready=0,
    free=10,
    ends=0,
    size=100,
    is_rapid=False,
    is_due=True,
)
RAPID: dict[str, Any] = {"is_rapid": True, "free": 0}
AHEAD: dict[str, Any] = {"has_ahead": True, "free": 0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, NextClaim.FILL),
        ({"is_due": False}, NextClaim.NONE),
        ({"free": 0}, NextClaim.NONE),
        ({"free": -3}, NextClaim.NONE),
        ({"is_claiming": False}, NextClaim.NONE),
        # Ends do not keep it from free slots: they go with the claim.
        ({"ends": 500}, NextClaim.FILL),
        # Short runs follow one another: a batch ahead, though no slot is free.
        (RAPID, NextClaim.AHEAD),
        (RAPID | {"ready": 83}, NextClaim.AHEAD),
        (RAPID | {"ready": 84}, NextClaim.NONE),
        (RAPID | {"ends": 100}, NextClaim.AHEAD),
        (RAPID | {"ends": 101}, NextClaim.NONE),
        (RAPID | {"is_due": False}, NextClaim.NONE),
        (RAPID | {"is_claiming": False}, NextClaim.NONE),
        # What is ahead starts, whether or not there is more.
        (AHEAD, NextClaim.START_AHEAD),
        (AHEAD | {"is_due": False}, NextClaim.START_AHEAD),
        (AHEAD | {"ready": 83}, NextClaim.START_AHEAD),
        (AHEAD | {"ready": 84}, NextClaim.NONE),
        (AHEAD | {"ends": 101}, NextClaim.NONE),
        (AHEAD | {"is_claiming": False}, NextClaim.NONE),
    ],
)
def test_what_is_claimed_next(changes: dict[str, Any], expected: NextClaim) -> None:
    assert next_claim(IDLE._replace(**changes)) is expected
