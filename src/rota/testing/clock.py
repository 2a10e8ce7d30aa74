"""Business time that a test moves."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.app import App
from rota.store import testing
from rota.store.plans import Plan


class Clock:
    """Moves `rota.now()`, which delays, expiry, backoff and schedules use, for all sessions of this
    database. Leases and heartbeats use the real clock. Time continues from the time that was set;
    `reset` returns to the real time.

        clock = Clock(app)
        clock.advance(timedelta(hours=1))  # what was due within the hour is due now
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def now(self) -> datetime:
        return self._run(testing.read_clock())

    def set(self, at: datetime) -> datetime:
        if at.tzinfo is None:
            raise ValueError(f"{at!r} has no time zone; an instant needs one")
        return self._run(testing.set_clock(at))

    def advance(self, by: float | timedelta) -> datetime:
        """Advance by seconds or a timedelta; negative values go back."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        return self._run(testing.advance_clock(seconds))

    def reset(self) -> None:
        self._run(testing.set_clock(None))

    def _run(self, plan: Plan[datetime]) -> datetime:
        return self._app.database.run_sync(plan)
