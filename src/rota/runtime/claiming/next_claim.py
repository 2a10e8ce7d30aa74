"""What to claim next, if anything: the decision of the feeder, without its effects."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class NextClaim(Enum):
    NONE = "none"
    # For the slots that are free.
    FILL = "fill"
    # A batch ahead of the slots.
    AHEAD = "ahead"
    # The batch that was claimed ahead starts, and the next one is claimed.
    START_AHEAD = "start ahead"


class Situation(NamedTuple):
    """What the decision depends on. `size` is what one claim takes at most for now, `is_rapid`
    whether claims follow one another because short runs wait, `is_due` whether it is time to look
    into the database."""

    is_claiming: bool
    has_ahead: bool
    ready: int
    free: int
    ends: int
    size: int
    is_rapid: bool
    is_due: bool


def next_claim(now: Situation) -> NextClaim:
    if not now.is_claiming:
        return NextClaim.NONE
    # As soon as the slots have begun, so that the server has work while they have theirs; not
    # before: two whole batches would be what a crash makes suspect. And not while the ends of
    # a whole batch wait behind a write: a crash repeats what is not written.
    wants_batch = now.ready <= now.size * 5 // 6 and now.ends <= now.size
    if now.has_ahead:
        return NextClaim.START_AHEAD if wants_batch else NextClaim.NONE
    if not now.is_due:
        return NextClaim.NONE
    if now.is_rapid:
        # More than the free slots would start within a round trip: claimed ahead, so that
        # only what really starts counts as started.
        return NextClaim.AHEAD if wants_batch else NextClaim.NONE
    return NextClaim.FILL if now.free > 0 else NextClaim.NONE
