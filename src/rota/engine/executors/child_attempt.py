"""The attempt as seen by a handler in a child process: reports go to the worker at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.engine.executors.child_logs import is_printing
from rota.engine.executors.wire import ChildLine, FromChild, Progress, Work
from rota.model.run import Claim

if TYPE_CHECKING:
    # Imported on first use: most handlers open no transaction, and the driver takes a good part
    # of a child's start.
    from rota.engine.executors.transaction import AttemptTransaction
    from rota.postgres.sessions.session_cache import SessionCache


class ChildSessions:
    """The one session that a child keeps from attempt to attempt, if attempts need it."""

    def __init__(self) -> None:
        self._url = ""
        self._kept: SessionCache | None = None

    def of(self, work: Work) -> SessionCache:
        from rota.postgres.sessions.session_cache import SessionCache

        self._url = work.database_url
        if self._kept is None:
            self._kept = SessionCache(lambda: self._url, worker=work.worker, size=1)
        return self._kept

    @property
    def rest_seconds(self) -> float | None:
        """Seconds until `trim` should be called; None if there is nothing to trim."""
        return self._kept.rest_seconds if self._kept is not None else None

    def trim(self) -> None:
        if self._kept is not None:
            self._kept.trim()


class ChildAttempt:
    """Implements `rota.jobs.context.Attempt` over the channel to the worker."""

    def __init__(
        self, call: int, work: Work, send: Callable[[FromChild], None], sessions: ChildSessions
    ) -> None:
        self.call = call
        self._sessions = sessions
        self._work = work
        self._send = send
        self._started = time.monotonic()
        self._is_cancelled = False
        self._cancel_coroutine: Callable[[], object] | None = None
        self._transaction: AttemptTransaction | None = None
        self.state: Mapping[str, Any] = {}

    @property
    def claim(self) -> Claim:
        return self._work.claim

    @property
    def worker(self) -> int:
        return self._work.worker

    @property
    def started_at(self) -> datetime:
        return self._work.started_at

    @property
    def timeout(self) -> float | None:
        return self._work.timeout

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._send_line(level, message, fields, is_printed=False)

    def store_record(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Store a line of logging. It was printed if the application has configured logging."""
        self._send_line(level, message, fields, is_printed=is_printing())

    def store_event(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Store a line of structlog, which has printed it."""
        self._send_line(level, message, fields, is_printed=True)

    def _send_line(
        self, level: str, message: str, fields: Mapping[str, Any], *, is_printed: bool
    ) -> None:
        try:
            self._send(ChildLine(self.call, level, message, dict(fields), is_printed))
        except (TypeError, ValueError, OverflowError, RecursionError):
            # A line must not fail its attempt: values that cannot be encoded are sent as text.
            shown = {ascii(name)[1:-1]: ascii(value) for name, value in fields.items()}
            self._send(ChildLine(self.call, level, ascii(message)[1:-1], shown, is_printed))

    def report_progress(self, fraction: float, message: str | None) -> None:
        if self._transaction is None or not self._transaction.is_strict:
            self._send(Progress(self.call, fraction, message))

    def open_transaction(self, source: Any) -> AbstractAsyncContextManager[Any]:
        return self._make_transaction().block(source)

    def open_transaction_sync(self, source: Any) -> AbstractContextManager[Any]:
        return self._make_transaction().block_sync(source)

    def _make_transaction(self) -> AttemptTransaction:
        from rota.engine.executors.transaction import AttemptTransaction

        if self._transaction is None:
            work = self._work
            self._transaction = AttemptTransaction(
                self._sessions.of(work), work.schema, work.claim, work.worker, work.lease_seconds
            )
        return self._transaction

    # For the child itself, not for handlers.

    def cancel(self) -> None:
        """Called by the reader's thread when the worker stops this attempt."""
        self._is_cancelled = True
        if self._cancel_coroutine is not None:
            self._cancel_coroutine()

    def attach(self, task: asyncio.Task[Any]) -> None:
        """Let a cancellation reach the coroutine too."""
        loop = task.get_loop()
        self._cancel_coroutine = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._is_cancelled:
            task.cancel()

    def detach(self) -> None:
        self._cancel_coroutine = None

    def finish_sync(self, result: bytes | None) -> bool:
        """Commit the handler's writes together with its completion; return False if it wrote
        nothing."""
        if self._transaction is None or not self._transaction.is_open:
            return False
        self._transaction.complete_sync(self._duration_ms(), _text(result))
        return True

    async def finish(self, result: bytes | None) -> bool:
        if self._transaction is None or not self._transaction.is_open:
            return False
        await self._transaction.complete(self._duration_ms(), _text(result))
        return True

    def close_sync(self) -> None:
        if self._transaction is not None:
            self._transaction.close_sync()

    async def close(self) -> None:
        if self._transaction is not None:
            await self._transaction.close()

    def _duration_ms(self) -> float:
        return (time.monotonic() - self._started) * 1000


def _text(result: bytes | None) -> str | None:
    return None if result is None else result.decode()
