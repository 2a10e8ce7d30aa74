"""Business time that a test moves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rota.app import App
from rota.store.plans import Ask, Plan


class Clock:
    """Moves `rota.now()`, on which delays, expiries, backoff and schedules depend, for everybody
    who uses this database. Leases and heartbeats keep to the real clock. Time goes on from where
    it was set; `reset` sets it right again.

        clock = Clock(app)
        clock.advance(timedelta(hours=1))  # what was due within the hour is due now
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def now(self) -> datetime:
        return self._ask("testing/now", {})

    def set(self, at: datetime) -> datetime:
        if at.tzinfo is None:
            raise ValueError(f"{at!r} has no time zone; an instant needs one")
        return self._ask("testing/set_clock", {"at": at})

    def advance(self, by: float | timedelta) -> datetime:
        """By seconds or a timedelta; a negative one goes back."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        return self._ask("testing/advance_clock", {"seconds": seconds})

    def reset(self) -> None:
        self._ask("testing/set_clock", {"at": None})

    def _ask(self, statement: str, params: dict[str, Any]) -> datetime:
        return self._app.database.run_sync(_one(statement, params))


def _one(statement: str, params: dict[str, Any]) -> Plan[datetime]:
    rows = yield Ask(statement, params)
    now: datetime = rows[0]["now"]
    return now
