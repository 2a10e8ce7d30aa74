"""The kind `thread`: a function, called in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rota.engine.executors.background_context import entering
from rota.engine.executors.base import (
    CalledAttempt,
    CallOutcome,
    CommittedItself,
    Executor,
    Returned,
)
from rota.model.inside import call_inside
from rota.telemetry import capture, otel, parent

# How long a stopped thread may take before its slot continues without it.
_GRACE = 5.0


class ThreadExecutor(Executor):
    is_bound = True

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        """Call the body in a thread. A thread cannot be cancelled: it is notified, and abandoned
        after a grace period."""
        stop_requested = asyncio.Event()
        loop = asyncio.get_running_loop()
        attempt.tell_instead(lambda: loop.call_soon(stop_requested.set))
        trace = otel.carrier()
        call = self._means.threads.call(lambda: _in_thread(attempt, trace, loop))
        stopped = loop.create_task(stop_requested.wait())
        try:
            await asyncio.wait((call, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                await asyncio.wait((call,), timeout=_GRACE)
            if call.done():
                return call.result()
            if attempt.transaction is not None:
                attempt.transaction.abandon()
            raise asyncio.CancelledError
        finally:
            stopped.cancel()
            call.cancel()


def _in_thread(
    attempt: CalledAttempt, trace: Mapping[str, str] | None, loop: asyncio.AbstractEventLoop
) -> CallOutcome:
    """Runs in the thread, which has its own context. Drivers and ORMs may bind a connection to its
    thread, so the handler's transaction is completed here too."""
    parent.begin(attempt.claim.id)
    otel.attach(trace)
    if attempt.is_captured:
        capture.begin(attempt.store_log)
    try:
        if attempt.around:
            result = call_inside(
                attempt.around,
                attempt.context,
                attempt.body,
                attempt.arguments,
                entering(lambda step: asyncio.run_coroutine_threadsafe(step, loop).result()),
            )
        else:
            result = attempt.body(**attempt.arguments)
        text = None if result is None else attempt.encode(result)
        transaction = attempt.transaction
        if transaction is None or not transaction.is_open or attempt.is_cancelled:
            return Returned(text)
        transaction.complete_sync(attempt.duration_ms, text)
        return CommittedItself()
    finally:
        if attempt.transaction is not None:
            attempt.transaction.close_sync()
