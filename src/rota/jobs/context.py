"""The context of an attempt, for its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import msgspec

from rota.model.run import Claim

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

S = TypeVar("S")
_CODE: Mapping[str, Any] = MappingProxyType({"type": "code"})


class Attempt(Protocol):
    """The runtime's interface for a context; one for each running attempt.

    There are two implementations: the worker's own, and the one in a child of the process executor,
    which sends everything to the worker.
    """

    @property
    def claim(self) -> Claim: ...
    @property
    def worker(self) -> int: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def is_cancelled(self) -> bool: ...
    @property
    def state(self) -> Mapping[str, Any]: ...
    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...
    def report_progress(self, fraction: float, message: str | None) -> None: ...
    def open_transaction(self, source: Any) -> AbstractAsyncContextManager[Any]: ...
    def open_transaction_sync(self, source: Any) -> AbstractContextManager[Any]: ...


class AttemptLog:
    """The log of an attempt: lines are stored with the attempt and written to the console."""

    __slots__ = ("_attempt", "_bound")

    def __init__(self, attempt: Attempt, bound: Mapping[str, Any] | None = None) -> None:
        self._attempt = attempt
        self._bound = bound

    def bind(self, **fields: Any) -> AttemptLog:
        """Return a log that adds these fields to every line."""
        return AttemptLog(self._attempt, {**(self._bound or {}), **fields})

    def debug(self, message: str, **fields: Any) -> None:
        bound = self._bound
        self._attempt.write_log("debug", message, {**bound, **fields} if bound else fields)

    def info(self, message: str, **fields: Any) -> None:
        bound = self._bound
        self._attempt.write_log("info", message, {**bound, **fields} if bound else fields)

    def warning(self, message: str, **fields: Any) -> None:
        bound = self._bound
        self._attempt.write_log("warning", message, {**bound, **fields} if bound else fields)

    def error(self, message: str, **fields: Any) -> None:
        bound = self._bound
        self._attempt.write_log("error", message, {**bound, **fields} if bound else fields)

    def critical(self, message: str, **fields: Any) -> None:
        bound = self._bound
        self._attempt.write_log("critical", message, {**bound, **fields} if bound else fields)


class Context:
    """The context of an attempt, passed to a parameter annotated with `rota.Context`. Times are the
    database's."""

    __slots__ = ("_attempt", "_decoded")

    def __init__(self, attempt: Attempt) -> None:
        # Nothing else: many handlers, and most hooks, need only this.
        self._attempt = attempt
        self._decoded: Mapping[str, Any] | None = None

    @property
    def log(self) -> AttemptLog:
        """Lines written to it are stored with the attempt."""
        return AttemptLog(self._attempt)

    @property
    def _extras(self) -> Mapping[str, Any]:
        found = self._decoded
        if found is None:
            extras = self._attempt.claim.extras
            found = self._decoded = msgspec.json.decode(extras) if extras else {}
        return found

    @property
    def job(self) -> str:
        return self._attempt.claim.job

    @property
    def run_id(self) -> int:
        return self._attempt.claim.id

    @property
    def attempt(self) -> int:
        """The number of this attempt; it increases with every claim."""
        return self._attempt.claim.attempt

    @property
    def max_attempts(self) -> int:
        """The maximum number of attempts that the run may use."""
        return self._attempt.claim.max_attempts

    @property
    def queue(self) -> str:
        return self._attempt.claim.queue

    @property
    def priority(self) -> int:
        return self._attempt.claim.priority

    @property
    def tenant(self) -> str:
        return self._attempt.claim.tenant

    @property
    def key(self) -> str | None:
        return self._extras.get("key")

    @property
    def tags(self) -> list[str]:
        return list(self._extras.get("tags") or ())

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self._extras.get("metadata") or {})

    @property
    def triggered_by(self) -> Mapping[str, Any]:
        """What created the run: its `type`, such as `code`, `sql`, `manual`, `event` or
        `scheduler`, and details such as the actor."""
        return self._extras.get("triggered_by") or _CODE

    @property
    def schedule(self) -> str | None:
        return self._extras.get("schedule")

    @property
    def scheduled_for(self) -> datetime | None:
        """The nominal time of the schedule; None without a schedule."""
        text = self._extras.get("scheduled_for")
        return datetime.fromisoformat(text) if text else None

    @property
    def is_catch_up(self) -> bool:
        """Whether the nominal time was missed and is caught up."""
        return bool(self.triggered_by.get("type") == "catch_up")

    @property
    def lateness(self) -> timedelta:
        """How long after the time it was due this attempt started."""
        text = self._extras.get("run_at")
        meant_for = datetime.fromisoformat(text) if text else self.queued_at
        return max(self.started_at - meant_for, timedelta())

    @property
    def data_interval(self) -> tuple[datetime | None, datetime] | None:
        """From the last nominal time that succeeded to this one; None without a schedule."""
        until, since = self.scheduled_for, self.triggered_by.get("since")
        if until is None:
            return None
        return (datetime.fromisoformat(since) if since else None), until

    @property
    def queued_at(self) -> datetime:
        """Since when the run could be claimed."""
        return self._attempt.claim.enqueued_at

    @property
    def started_at(self) -> datetime:
        """When the run was claimed for this attempt."""
        return self._attempt.started_at

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out; None without a timeout."""
        timeout = self._attempt.timeout
        return None if timeout is None else self.started_at + timedelta(seconds=timeout)

    @property
    def is_cancelled(self) -> bool:
        """Whether this attempt should stop. Threads must check it; coroutines are cancelled."""
        return self._attempt.is_cancelled

    @property
    def state(self) -> Mapping[str, Any]:
        """What the lifespans of the application have yielded in this process."""
        return self._attempt.state

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Report the progress (0 to 1) with an optional message, shown with the run."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress must be a fraction from 0 to 1, not {fraction!r}")
        self._attempt.report_progress(fraction, message)

    @overload
    def transaction(self, /) -> AbstractAsyncContextManager[AsyncConnection[Any]]: ...
    @overload
    def transaction(self, source: Callable[[], S], /) -> AbstractAsyncContextManager[S]: ...
    @overload
    def transaction(self, source: Any, /) -> AbstractAsyncContextManager[Any]: ...
    def transaction(self, source: Any = None, /) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that commits together with the completion of the run when the handler
        returns.

        Other sessions see its rows only then; if the handler raises, or the lease is lost,
        everything is rolled back. A second block in the same attempt is a second savepoint of the
        same transaction. It uses a connection of Rota, or one from `source`: a pool of psycopg or
        asyncpg, or an engine, session or sessionmaker of SQLAlchemy, for the same database.
        """
        return self._attempt.open_transaction(source)

    @overload
    def transaction_sync(self, /) -> AbstractContextManager[Connection[Any]]: ...
    @overload
    def transaction_sync(self, source: Callable[[], S], /) -> AbstractContextManager[S]: ...
    @overload
    def transaction_sync(self, source: Any, /) -> AbstractContextManager[Any]: ...
    def transaction_sync(self, source: Any = None, /) -> AbstractContextManager[Any]:
        """The same for handlers that run in a thread or a child process. `source` may also be
        Django's connection."""
        return self._attempt.open_transaction_sync(source)
