"""The kind `async`: a coroutine, awaited in its slot. The cheapest kind; keep it so."""

from __future__ import annotations

import asyncio

from rota.engine.executors.base import (
    RETURNED_NOTHING,
    CalledAttempt,
    CallOutcome,
    CommittedItself,
    Executor,
    Returned,
)
from rota.engine.executors.transaction import AttemptTransaction
from rota.model.inside import await_inside
from rota.telemetry import capture, parent


class CoroutineExecutor(Executor):
    is_bound = True

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        token = parent.begin(attempt.claim.id)
        capturing = capture.begin(attempt.store_log) if attempt.is_captured else None
        try:
            if around := attempt.around:
                result = await await_inside(
                    around, attempt.context, attempt.body, attempt.arguments
                )
            else:
                result = await attempt.body(**attempt.arguments)
            text = None if result is None else attempt.encode(result)
            if attempt.transaction is not None:
                return await _complete(attempt, attempt.transaction, text)
            return RETURNED_NOTHING if text is None else Returned(text)
        finally:
            parent.end(token)
            if capturing is not None:
                capture.end(capturing)


async def _complete(
    attempt: CalledAttempt, transaction: AttemptTransaction, text: str | None
) -> CallOutcome:
    """The body used a transaction: the completion is part of it."""
    if attempt.is_cancelled:
        raise asyncio.CancelledError
    if not transaction.is_open:
        return Returned(text)
    await transaction.complete(attempt.duration_ms, text)
    return CommittedItself()
