"""Every exception that Rota raises, and the three that a handler raises on purpose.

* RotaError
  * ConfigError            a setting is missing, malformed or out of range
    * UnknownOption        a key or ROTA_ variable that belongs to no setting
  * MissingExtra           a part of Rota needs packages that are not installed (an ImportError)
  * EmbeddedError          the embedded Postgres could not be found, started or stopped
  * SchemaError            the database's schema does not fit this release
  * TimingError            a timing or a calendar is invalid
    * TemplateNotFound     there is no template with that name
  * InputError             an option, a name or another value is invalid
    * JobError             a job is declared incorrectly
    * PayloadError         the payload does not fit its job, or cannot be stored
    * LimitError           a limit is invalid
  * FilterError            a list or a bulk action has an invalid filter, order or limit
  * UnknownJob             there is no registered job with that name
  * DuplicateKey           another run holds the key, and `on_conflict` is `raise`
  * RunNotFound            there is no run with that id
  * BulkActionNotFound     there is no bulk action with that id
  * ViewNotFound           there is no saved view with that name
  * ScheduleNotFound       there is no schedule with that name
  * CalendarNotFound       there is no calendar with that name
  * AuditEntryNotFound     there is no audit entry with that id
  * QueueNotFound          there is no queue with that name
  * TenantNotFound         there is no tenant with that name
  * QuotaExceeded          the tenant has reached its quota
  * QueueFull              the queue has reached its cap of waiting runs
  * LimitNotFound          there is no limit with that name
  * WorkerNotFound         there is no worker with that id
  * ErrorGroupNotFound     there is no error group with that id
  * EventNotFound          there is no event with that id
  * WatchNotFound          there is no such watch of a table
  * SearchError            a log search is invalid
  * WrongState             the action is not possible in the current state
    * VersionConflict      the object was edited since the caller read it
  * LeaseLost              the worker no longer owns its runs
  * AttemptTimeout         the attempt took longer than its timeout (a TimeoutError)
  * RunFailed              the awaited run ended as failed or cancelled
  * WaitTimeout            the awaited run did not end in time (a TimeoutError)
  * ResultError            a result cannot be stored, or does not fit the declared type
  * DatabaseError          any other error of the database

* Control                  raised by a handler to set its outcome; not an error
  * Retry                  retry later; uses this attempt
  * Snooze                 try again later without using this attempt
  * Cancel                 end the run as cancelled
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from rota.hints import FIELD, PYTHON, Hint, Words

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
]


E = TypeVar("E", bound="RotaError")


def code_of(kind: type[Exception]) -> str:
    """Return `run_not_found` for `RunNotFound`."""
    return "".join(f"_{it}" if it.isupper() else it for it in kind.__name__).lower()[1:]


class RotaError(Exception):
    """Base of all errors that Rota raises.

    `code` says what is wrong, for programs; `field` names the argument that is wrong, if it is a
    single one; `operation` is the declared operation that raised it, such as `pause_queue`; and
    `values` has what the message mentions.

    `hint` says what to do. It is not part of `str()`, so that stored and compared messages stay
    short; it is shown below the traceback as a note. Interfaces say message and hint in their own
    words: `hints.FIELD` in the message stands for the name of the field, and `advice` is the hint
    as data. `argument` is the name of the field for callers in Python, if that is another one.
    """

    operation: str | None = None

    def __init__(
        self,
        message: str = "",
        *,
        hint: Hint | str | None = None,
        field: str | None = None,
        argument: str | None = None,
        code: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.advice = hint
        self.field = field
        self.argument = argument
        self.code = code or code_of(type(self))
        self.values = dict(values or {})
        if hint:
            self.add_note(f"hint: {self.hint}")

    @property
    def hint(self) -> str | None:
        return PYTHON.hint(self.advice)

    def sentence(self, words: Words = PYTHON) -> str:
        """The message in the words of an interface."""
        text: str = self.args[0]
        if self.field is None or FIELD not in text:
            return text
        return text.replace(FIELD, words.field(self.field, self.argument))

    @property
    def problem(self) -> str:
        """The message without the name of the field before it, for a text beside the field."""
        bare = str(self.args[0]).removeprefix(f"{FIELD} ").removeprefix(f"{self.field} ")
        return bare.replace(FIELD, PYTHON.field(self.field or FIELD, self.argument))

    def __str__(self) -> str:
        return self.sentence()

    def retold(self, kind: type[E], before: str = "") -> E:
        """The same refusal as an error of another kind, with something before its message."""
        code = None if self.code == code_of(type(self)) else self.code
        return kind(
            f"{before}{self.args[0]}",
            hint=self.advice,
            field=self.field,
            argument=self.argument,
            code=code,
            values=self.values,
        )


class ConfigError(RotaError):
    """A setting is missing, malformed or out of range, or its file cannot be read or written."""


class UnknownOption(ConfigError):
    """A key in a file, an argument or a ROTA_ variable does not belong to any setting; see the
    hint."""


class MissingExtra(RotaError, ImportError):
    """A part of Rota needs packages that are not installed; the message names the command."""


class EmbeddedError(RotaError):
    """The embedded Postgres has no binaries, did not start, or did not respond."""


class SchemaError(RotaError):
    """The schema is missing or does not fit this release: run `rota migrate`."""


class TimingError(RotaError):
    """A cron expression, an interval, a time zone or a calendar is invalid."""


class TemplateNotFound(TimingError):
    """There is no schedule template with that name."""


class InputError(RotaError):
    """An option, a name or another value is invalid: nothing was stored."""


class JobError(InputError):
    """A job is declared incorrectly: an invalid option or signature, or a duplicate name."""


class PayloadError(InputError):
    """The payload of a run or an event is invalid: nothing was stored."""


class FilterError(RotaError):
    """A list or a bulk action has an invalid filter, order or limit."""


class UnknownJob(RotaError):
    """An enqueue or a lookup names a job that is not registered in this schema."""


class DuplicateKey(RotaError):
    """Another run holds the key, and `on_conflict` is `raise`."""


class RunNotFound(RotaError):
    """There is no run with that id: it never existed, or retention has removed it."""


class ScheduleNotFound(RotaError):
    """This tenant has no schedule with that name."""


class CalendarNotFound(RotaError):
    """There is no calendar with that name."""


class ViewNotFound(RotaError):
    """There is no saved view of the list of runs with that name."""


class BulkActionNotFound(RotaError):
    """There is no bulk action with that id."""


class AuditEntryNotFound(RotaError):
    """There is no audit entry with that id."""


class QueueNotFound(RotaError):
    """No job, unfinished run or operator names this queue."""


class TenantNotFound(RotaError):
    """No run, schedule or setting names this tenant."""


class QuotaExceeded(RotaError):
    """The tenant has reached its quota of waiting runs, or of enqueues per day."""


class QueueFull(RotaError):
    """The queue has reached its cap of waiting runs and refuses more."""


class LimitNotFound(RotaError):
    """There is no limit with that name, or it belongs to another tenant."""


class LimitError(InputError):
    """A limit is invalid: for example a cap below 0, or a rate without a period."""


class WorkerNotFound(RotaError):
    """There is no worker with that id: it never existed, or it ended more than a week ago."""


class ErrorGroupNotFound(RotaError):
    """There is no error group with that id, or retention has removed it."""


class EventNotFound(RotaError):
    """There is no event with that id, or retention has removed it."""


class WatchNotFound(RotaError):
    """There is no watch with that id or for that table."""


class SearchError(RotaError):
    """A log search is invalid: no search term, an unknown level, an invalid cursor or limit."""


class WrongState(RotaError):
    """The action is not possible in the current state, e.g. retrying a run that succeeded."""


class VersionConflict(WrongState):
    """The object is not at the expected version: it was edited in the meantime."""


class LeaseLost(RotaError):
    """The worker did not renew its lease in time: its runs belong to other workers."""


class AttemptTimeout(RotaError, TimeoutError):
    """The attempt ran longer than the timeout of its job and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        # args are what pickle calls the class with, so an error can cross to another process.
        self.args = (seconds,)
        self.seconds = seconds

    def sentence(self, words: Words = PYTHON) -> str:
        return f"attempt exceeded its timeout of {round(self.seconds, 3):.12g} s"


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

    def sentence(self, words: Words = PYTHON) -> str:
        parts = (f"run {self.run_id} ended as {self.state}", self.end_reason, self.error)
        return ": ".join(part for part in parts if part)


class WaitTimeout(RotaError, TimeoutError):
    """`run.wait(timeout=…)` timed out; the run itself continues."""


class ResultError(RotaError):
    """The result of a handler cannot be stored, or does not fit the type that it declares now."""


class DatabaseError(RotaError):
    """The database rejected a statement or could not be reached; `sqlstate` contains its code."""

    def __init__(
        self,
        message: str = "",
        *,
        sqlstate: str | None = None,
        hint: Hint | str | None = None,
        **about: Any,
    ) -> None:
        super().__init__(message, hint=hint, **about)
        self.sqlstate = sqlstate


class Control(Exception):
    """Base of the exceptions that a handler raises to set its outcome. Not a RotaError, because
    nothing went wrong."""


class Retry(Control):
    """Retry after `delay` (seconds or timedelta; None: the job's backoff). Uses the attempt.

    If no attempts are left, the run ends as failed, with `message` as its error.
    """

    def __init__(self, delay: float | timedelta | None = None, message: str = "") -> None:
        super().__init__(delay, message)
        self.delay = None if delay is None else _seconds(delay)
        self.message = message

    def __str__(self) -> str:
        return self.message or "the handler asked for a retry"


class Snooze(Control):
    """Try again after `delay` (seconds or timedelta), without using the attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(delay)
        self.delay = _seconds(delay)

    def __str__(self) -> str:
        return f"snoozed for {self.delay:.12g} s"


class Cancel(Control):
    """End the run as cancelled, even if it has attempts left."""

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
