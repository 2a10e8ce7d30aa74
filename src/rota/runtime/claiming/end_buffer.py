"""Ends of attempts on their way to the database: sent again until they are known to be written.

The fence makes that safe: an end that was written already, or whose run belongs to somebody else
by now, touches nothing. An end that would have to wait for somebody's open transaction is kept in a
table of its own (`rota.kept_ends`) and written from there (`duties/kept_ends.py`): nothing else
waits for it, and it outlives the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg

from rota.model.outcome import Ended, Failure, Outcome, Requeue, in_ascii
from rota.model.run import Claim
from rota.runtime.metrics.counters import Counters
from rota.store.pipeline.claims import ClaimRequest
from rota.store.pipeline.ends import Ends
from rota.store.pipeline.feed import Feed
from rota.store.pipeline.prepared import Early
from rota.telemetry.logger import get_logger

# How long a worker that is about to go takes for keeping what it could not write.
_LAST_SECONDS = 5.0
# Classes of codes that are about what was to be written: data, constraints, limits, exceptions that
# functions raise. Not about rights, or a server that is away.
_ABOUT_ROWS = ("22", "23", "44", "54", "P0")
_NOT_STORED = "its result could not be stored"


class EndBuffer:
    """Takes ends from the slots, and writes them: with the next claim, or beside it."""

    def __init__(
        self,
        counts: Counters,
        on_written: Callable[[], None] | None = None,
        on_kept: Callable[[], None] | None = None,
    ) -> None:
        self._counts = counts
        self._on_written = on_written
        self._on_kept = on_kept
        self._ends = Ends()
        self._sending: list[Ends] = []
        self._log = get_logger("worker")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_settled(self) -> bool:
        """Nothing waits to be written, and nothing is under way."""
        return not self._ends and not self._sending

    def ids(self) -> set[int]:
        return {run_id for ends in (self._ends, *self._sending) for run_id in ends.all_ids()}

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None:
        self._ends.succeeded(claim.id, claim.attempt, duration_ms, result, claim.is_plain)

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None:
        self._ends.others.append((claim.id, claim.attempt, duration_ms, outcome))

    async def exchange(
        self,
        feed: Feed,
        request: ClaimRequest | None,
        early: Early[Claim] | None = None,
    ) -> tuple[list[Claim] | None, bool]:
        """One round trip. Returns the claims (None: the request was not carried out) and whether
        some run was put off until later."""
        ends, self._ends = self._ends, Ends()
        self._sending.append(ends)
        try:
            claims = await self._send(feed, ends, request, early)
        except BaseException:
            self._put_back(ends)
            raise
        finally:
            self._sending.remove(ends)
        if ends and self._on_written is not None:
            self._on_written()
        return claims, any(isinstance(one[3], Requeue) and one[3].delay for one in ends.others)

    async def keep_all(self, feed: Feed) -> None:
        """This worker goes, or gives up: what it knows is kept, and written by somebody else."""
        ends, self._ends = self._ends, Ends()
        for one in self._sending:
            ends.add(one)
        if not ends:
            return
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                kept = await feed.keep(ends)
        except (psycopg.Error, OSError, TimeoutError) as error:
            text = "results could not be stored: the runs will be rescued and retried"
            self._log.error(text, ends=len(ends), error=error)
            kept = 0
        self._counts.note("late_ends", len(ends) - kept)

    async def _send(
        self,
        feed: Feed,
        ends: Ends,
        request: ClaimRequest | None,
        early: Early[Claim] | None,
    ) -> list[Claim] | None:
        claims: list[Claim] | None = None
        try:
            all_accepted, claims = await feed.exchange(ends, request, early)
            if not all_accepted:
                await self._settle_refused(feed, ends)
        except psycopg.DatabaseError as error:
            if not ends or not _is_refusal(error):
                raise
            self._log.error("the database rejected a batch of results", error=error, ends=len(ends))
            await self._write_singly(feed, ends)
        return claims

    def _put_back(self, ends: Ends) -> None:
        """Before what has come meanwhile."""
        later, self._ends = self._ends, ends
        ends.add(later)

    async def _settle_refused(self, feed: Feed, ends: Ends) -> None:
        """Some were not written. What is still ours would have waited for somebody's open
        transaction, and is kept; the rest came too late."""
        refused = feed.refused
        kept = await feed.keep(ends)
        if refused > kept:
            self._counts.note("late_ends", refused - kept)
            self._log.warning(
                "results came too late: the runs belong to other workers", ends=refused - kept
            )
        if kept and self._on_kept is not None:
            self._on_kept()

    async def _write_singly(self, feed: Feed, ends: Ends) -> None:
        """One end that cannot be stored must not keep the others from ending. Those written are
        written again if this breaks off: they touch nothing then."""
        for end in ends.each():
            error = await self._try(feed, end)
            if error is None:
                continue
            for outcome in _instead(end, error):
                error = await self._try(feed, end.refused(outcome))
                if error is None:
                    break
            else:
                # Left to whoever rescues it: sent again, it would be refused again.
                self._log.error(
                    "the result of a run could not be stored", run=end.all_ids()[0], error=error
                )

    async def _try(self, feed: Feed, end: Ends) -> psycopg.Error | None:
        """Why the database refuses it; None when it is written, or kept."""
        try:
            is_written, _ = await feed.exchange(end, None)
            if not is_written:
                await self._settle_refused(feed, end)
        except psycopg.DatabaseError as error:
            if not _is_refusal(error):
                raise
            return error
        return None


def _instead(end: Ends, error: psycopg.Error) -> Iterator[Outcome]:
    """What may be stored of an end that was refused: how the attempt failed, in plainer words; that
    it could not be stored, and why; at last no word of the handler's, or the server's."""
    for _, _, _, outcome in end.others:
        yield in_ascii(outcome)
    reason = f"{_NOT_STORED}: {str(error).partition(chr(10))[0]}"
    for failure in (Failure(type(error).__name__, reason), Failure("Error", _NOT_STORED)):
        yield Ended("failed", "failed", _NOT_STORED, None, failure)


def _is_refusal(error: psycopg.DatabaseError) -> bool:
    return (error.sqlstate or "").startswith(_ABOUT_ROWS)
