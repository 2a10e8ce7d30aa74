"""What every fault of a plan is."""

from __future__ import annotations

from collections.abc import Collection

from tests.chaos.stage import Stage


class Fault:
    """Something that goes wrong, and comes right again."""

    holds_up_all = False  # while it lasts nothing can be expected of anybody
    seconds = 1.0  # how long it lasts

    def inject(self, stage: Stage) -> str:
        """Let it happen; says what."""
        raise NotImplementedError

    def heal(self, stage: Stage) -> None:
        """By default nothing is to be done: it has happened."""

    def struck(self, stage: Stage) -> Collection[str]:
        """Members and schedules that may stand still while it lasts."""
        return ()
