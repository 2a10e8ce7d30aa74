"""Business time that a test moves."""

from __future__ import annotations

from datetime import datetime

from rota.app import App
from rota.model.durations import Duration, read_duration
from rota.postgres import testing
from rota.postgres.plans import Plan


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

    def advance(self, by: Duration) -> datetime:
        """Advance by a duration; negative values go back."""
        seconds = read_duration(by)
        if seconds is None:
            raise ValueError(f"{by!r} is not a duration")
        return self._run(testing.advance_clock(seconds))

    def reset(self) -> None:
        self._run(testing.set_clock(None))

    def _run(self, plan: Plan[datetime]) -> datetime:
        return self._app.database.run_sync(plan)
