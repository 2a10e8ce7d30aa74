"""Reads a time given by a user: an instant, or a duration from now by the database's clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.errors import TimingError
from rota.model.field_values import MOMENT_EXAMPLES, read_moment
from rota.model.fields import Moment
from rota.model.instants import SUPPORTED, is_instant
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan
from rota.timing.nominal import in_utc


def read_instant(at: Moment, what: str) -> Plan[datetime]:
    """Raise TimingError if the time is out of range, or has no zone."""
    if isinstance(at, str):
        found = read_moment(at)
        if found is None:
            raise TimingError(f"{what} must be a time, not {at!r}", hint=f"write {MOMENT_EXAMPLES}")
        at = found
    if isinstance(at, timedelta):
        try:
            at = (yield from read_clock()) + at
        except OverflowError:
            raise TimingError(f"{what} is not in {SUPPORTED}") from None
    instant = in_utc(at, what)
    if not is_instant(at):
        raise TimingError(f"{what} {at.isoformat()} is not in {SUPPORTED}")
    return instant
