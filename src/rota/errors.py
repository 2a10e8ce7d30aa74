"""Every exception that Rota raises, and the three that a handler raises on purpose.

* RotaError
  * ConfigError            a setting is missing, malformed or out of range
    * UnknownOption        a key or ROTA_ variable that no setting has
  * MissingExtra           a part of Rota needs packages that are not installed (an ImportError)
  * EmbeddedError          the embedded Postgres could not be found, started or stopped
  * SchemaError            the database's schema does not fit this release
  * JobError               a job is declared wrongly
  * TimingError            a timing or a calendar says something that cannot be followed
    * TemplateNotFound     no template has that name
  * LimitError             a limit says something that cannot be followed
  * InputError             an option, a name or another value that was given cannot be
    * PayloadError         a payload does not fit its job, or cannot be stored
  * FilterError            a list or a bulk action is asked for runs that cannot be
  * UnknownJob             no job of that name is registered
  * DuplicateKey           the key is held by another run, and the caller asked to be told
  * RunNotFound            no run has that id
  * BulkActionNotFound     no bulk action has that id
  * ViewNotFound           no view of the list of runs has that name
  * ScheduleNotFound       no schedule has that name
  * CalendarNotFound       no calendar has that name
  * AuditEntryNotFound     the audit has no entry of that id
  * QueueNotFound          no queue has that name
  * TenantNotFound         nothing is known of a tenant of that name
  * QuotaExceeded          the tenant may not enqueue so much
  * QueueFull              as many runs wait in the queue as may
  * LimitNotFound          no limit has that name
  * WorkerNotFound         no worker has that id
  * ErrorGroupNotFound     no group of errors has that id
  * EventNotFound          no event has that id
  * WatchNotFound          no table is watched so
  * SearchError            a search of logs asks for something that cannot be searched
  * WrongState             the run's state does not allow the action
    * VersionConflict      somebody has changed it since the caller looked
  * LeaseLost              the worker no longer owns what it writes about
  * AttemptTimeout         the attempt took longer than its timeout (a TimeoutError)
  * RunFailed              the awaited run ended as failed or cancelled
  * WaitTimeout            the awaited run had not ended in time (a TimeoutError)
  * ResultError            a result cannot be stored, or is not of the declared type
  * DatabaseError          any other error of the database

* Control                  raised by a handler to decide its own outcome; not an error
  * Retry                  try again later; this attempt is spent
  * Snooze                 try again later; no attempt is spent
  * Cancel                 end the run as cancelled; no further attempt
"""

from __future__ import annotations

import math
from datetime import timedelta

__all__ = [
    "AttemptTimeout",
    "AuditEntryNotFound",
    "BulkActionNotFound",
    "CalendarNotFound",
    "Cancel",
    "ConfigError",
    "Control",
    "DatabaseError",
    "DuplicateKey",
    "EmbeddedError",
    "ErrorGroupNotFound",
    "EventNotFound",
    "FilterError",
    "InputError",
    "JobError",
    "LeaseLost",
    "LimitError",
    "LimitNotFound",
    "MissingExtra",
    "PayloadError",
    "QueueFull",
    "QueueNotFound",
    "QuotaExceeded",
    "ResultError",
    "Retry",
    "RotaError",
    "RunFailed",
    "RunNotFound",
    "ScheduleNotFound",
    "SchemaError",
    "SearchError",
    "Snooze",
    "TemplateNotFound",
    "TenantNotFound",
    "TimingError",
    "UnknownJob",
    "UnknownOption",
    "VersionConflict",
    "ViewNotFound",
    "WaitTimeout",
    "WatchNotFound",
    "WorkerNotFound",
    "WrongState",
    "from_sqlstate",
]


class RotaError(Exception):
    """Base of all errors of Rota: catch this to catch them all.

    `hint` says what to do about it. It is kept out of `str()` so that stored and compared messages
    stay short, and is shown below the traceback as a note.
    """

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class ConfigError(RotaError):
    """A setting is missing, malformed or out of range, or its file cannot be read or written."""


class UnknownOption(ConfigError):
    """A key in a file, an argument or a ROTA_ variable that no setting has; see the hint."""


class MissingExtra(RotaError, ImportError):
    """A part of Rota needs packages that are not installed: the message says how to get them."""


class EmbeddedError(RotaError):
    """The embedded Postgres has no binaries, did not start, or did not answer."""


class SchemaError(RotaError):
    """The schema is missing or does not serve this release: run `rota migrate`."""


class JobError(RotaError):
    """A job is declared wrongly: a bad option, an unusable signature, or a name taken twice."""


class TimingError(RotaError):
    """A cron expression, an interval, a time zone or a calendar cannot be followed as written."""


class TemplateNotFound(TimingError):
    """No template of schedules has that name."""


class InputError(RotaError):
    """An option, a name or another value that was given cannot be: nothing was stored."""


class PayloadError(InputError):
    """The payload of a run or an event does not fit: nothing was stored."""


class FilterError(RotaError):
    """A list or a bulk action has a filter, an order or a limit that makes no sense."""


class UnknownJob(RotaError):
    """An enqueue or a lookup names a job that is not registered in this schema."""


class DuplicateKey(RotaError):
    """An unfinished (or still remembered) run holds the key, and `on_conflict` is `raise`."""


class RunNotFound(RotaError):
    """No run has that id: it never existed, or retention has removed it."""


class ScheduleNotFound(RotaError):
    """No schedule of this tenant has that name."""


class CalendarNotFound(RotaError):
    """No calendar has that name."""


class ViewNotFound(RotaError):
    """No view of the list of runs has that name."""


class BulkActionNotFound(RotaError):
    """No bulk action has that id."""


class AuditEntryNotFound(RotaError):
    """The audit has no entry of that id."""


class QueueNotFound(RotaError):
    """No job, open run or operator has named a queue so."""


class TenantNotFound(RotaError):
    """No run, schedule or setting names a tenant so."""


class QuotaExceeded(RotaError):
    """The tenant has as many runs waiting, or has enqueued as much today, as it may."""


class QueueFull(RotaError):
    """As many runs wait in the queue as its cap lets wait, and it refuses more."""


class LimitNotFound(RotaError):
    """No limit has that name, or it is another tenant's."""


class LimitError(RotaError):
    """A limit says something that cannot be followed: a cap below 0, a rate without a period."""


class WorkerNotFound(RotaError):
    """No worker has that id: there never was one, or it ended more than a week ago."""


class ErrorGroupNotFound(RotaError):
    """No group of errors has that id, or retention has taken it."""


class EventNotFound(RotaError):
    """No event has that id, or it is past its retention."""


class WatchNotFound(RotaError):
    """No table is watched under that number or name."""


class SearchError(RotaError):
    """A search names no word, an unknown level, a cursor that is none, or an impossible limit."""


class WrongState(RotaError):
    """The action does not apply to the run's present state, like retrying a run that succeeded."""


class VersionConflict(WrongState):
    """It is not at the version that the caller saw: somebody edited it; look again, then decide."""


class LeaseLost(RotaError):
    """The worker could not renew its lease in time: its runs belong to others, drop the work."""


class AttemptTimeout(RotaError, TimeoutError):
    """The attempt ran longer than the timeout of its job and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        # args are what pickle calls the class with, so an error can cross to another process.
        self.args = (seconds,)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"attempt exceeded its timeout of {self.seconds:g} s"


class RunFailed(RotaError):
    """`run.wait()` was called for a run that ended as failed or cancelled."""

    def __init__(
        self, run_id: int, state: str, end_reason: str | None = None, error: str | None = None
    ) -> None:
        super().__init__()
        self.args = (run_id, state, end_reason, error)
        self.run_id = run_id
        self.state = state
        self.end_reason = end_reason
        self.error = error

    def __str__(self) -> str:
        parts = (f"run {self.run_id} ended as {self.state}", self.end_reason, self.error)
        return ": ".join(part for part in parts if part)


class WaitTimeout(RotaError, TimeoutError):
    """`run.wait(timeout=…)` gave up; the run itself goes on."""


class ResultError(RotaError):
    """What a handler returned cannot be stored, or is not of the type that it declares now."""


class DatabaseError(RotaError):
    """The database refused a statement or could not be reached; `sqlstate` holds its code."""

    def __init__(
        self, message: str = "", *, sqlstate: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate


class Control(Exception):
    """Base of what a handler raises to decide its outcome. Not a RotaError: nothing went wrong."""


class Retry(Control):
    """Try again after `delay` (seconds or timedelta; none: the job's backoff). Spends the attempt.

    With no attempt left the run ends as failed, with `message` as its error.
    """

    def __init__(self, delay: float | timedelta | None = None, message: str = "") -> None:
        super().__init__(delay, message)
        self.delay = None if delay is None else _seconds(delay)
        self.message = message

    def __str__(self) -> str:
        return self.message or "the handler asked for a retry"


class Snooze(Control):
    """Not now: try again after `delay` (seconds or timedelta). No attempt is spent."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(delay)
        self.delay = _seconds(delay)

    def __str__(self) -> str:
        return f"snoozed for {self.delay:g} s"


class Cancel(Control):
    """End the run as cancelled, whatever attempts it has left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "cancelled by the handler"


# Near the end of what Postgres can add to a date; longer waits are slips of a handler's sums.
_LONGEST_DELAY = 100 * 365 * 86_400.0


def _seconds(delay: float | timedelta) -> float:
    """Seconds from now. A time already past means at once: handlers compute `due - now`."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not math.isfinite(seconds) or seconds > _LONGEST_DELAY:
        raise ValueError(
            f"delay must be a finite number of seconds or a timedelta, of at most 100 years, "
            f"not {delay!r}"
        )
    return max(0.0, seconds)


# Raised by the SQL functions of the schema, so that callers in plain SQL get the same cases.
BY_SQLSTATE: dict[str, type[RotaError]] = {
    "RO001": UnknownJob,
    "RO002": InputError,
    "RO003": DuplicateKey,
    "RO004": RunNotFound,
    "RO005": WrongState,
    "RO006": LeaseLost,
    "RO007": ScheduleNotFound,
    "RO008": VersionConflict,
    "RO010": WorkerNotFound,
    "RO011": BulkActionNotFound,
    "RO012": ErrorGroupNotFound,
    "RO013": QueueNotFound,
    "RO014": ViewNotFound,
    "RO021": WatchNotFound,
    "RO030": TenantNotFound,
    "RO031": QuotaExceeded,
    "RO032": QueueFull,
    "RO016": LimitNotFound,
    "RO017": LimitError,
    "RO018": PayloadError,
}


def from_sqlstate(
    code: str | None, message: str, detail: str | None = None, hint: str | None = None
) -> RotaError:
    """The exception for an error of the database: one of ours by its code, else DatabaseError."""
    known = BY_SQLSTATE.get(code or "")
    if known:
        # Ours say all in the message; the detail is for programs in plain SQL.
        return known(message, hint=hint)
    text = f"{message}: {detail}" if detail else message
    return DatabaseError(text, sqlstate=code, hint=hint)
