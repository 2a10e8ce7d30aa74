"""Ends of attempts on their way to the database: sent again until they are known to be written.

The fence makes that safe: an end that was written already, or whose run belongs to somebody else
by now, touches nothing.
"""

from __future__ import annotations

import time
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

# How long the end of a run whose row somebody holds is left alone.
_HELD_SECONDS = 0.5
# Classes of codes that are about what was to be written: data, constraints, limits, exceptions that
# functions raise. Not about rights, or a server that is away.
_ABOUT_ROWS = ("22", "23", "44", "54", "P0")
_NOT_STORED = "its result could not be stored"


class EndBuffer:
    """Takes ends from the slots, and writes them: with the next claim, or beside it."""

    def __init__(self, counts: Counters, on_written: Callable[[], None] | None = None) -> None:
        self._counts = counts
        self._on_written = on_written
        self._ends = Ends()
        self._held = Ends()
        self._held_until = 0.0
        self._sending: list[Ends] = []
        self._log = get_logger("worker")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_settled(self) -> bool:
        """Nothing waits to be written, and nothing is under way."""
        return not self._ends and not self._held and not self._sending

    @property
    def seconds_to_held(self) -> float | None:
        """Until those are tried again whose rows somebody's open transaction holds; None: there are
        none. They are no part of `len`: whoever claims does not wait for them."""
        return max(0.0, self._held_until - time.monotonic()) if self._held else None

    def ids(self) -> set[int]:
        waiting = (self._ends, self._held, *self._sending)
        return {run_id for ends in waiting for run_id in ends.all_ids()}

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

    async def try_held(self, feed: Feed) -> None:
        """Write what nobody holds any more, without waiting for the rest."""
        ends, self._held = self._held, Ends()
        self._sending.append(ends)
        try:
            await feed.write_unlocked(ends)
            await self._settle_refused(feed, ends)
        except BaseException:
            self._held.add(ends)
            raise
        finally:
            self._sending.remove(ends)

    async def _send(
        self,
        feed: Feed,
        ends: Ends,
        request: ClaimRequest | None,
        early: Early[Claim] | None,
    ) -> list[Claim] | None:
        try:
            all_accepted, claims = await feed.exchange(ends, request, early)
        except psycopg.DatabaseError as error:
            if not ends or not _is_refusal(error):
                raise
            self._log.error("the database rejected a batch of results", error=error, ends=len(ends))
            await self._write_singly(feed, ends)
            return None
        if not all_accepted:
            await self._settle_refused(feed, ends)
        return claims

    def _put_back(self, ends: Ends) -> None:
        """Before what has come meanwhile."""
        later, self._ends = self._ends, ends
        ends.add(later)

    async def _settle_refused(self, feed: Feed, ends: Ends) -> None:
        """Some were not written. What is still ours was locked by somebody's open transaction and
        is tried again by itself; the rest came too late."""
        refused = feed.refused
        owned = await feed.still_owned(ends.all_ids())
        if refused > len(owned):
            self._counts.note("late_ends", refused - len(owned))
            self._log.warning(
                "results came too late: the runs belong to other workers", ends=len(ends)
            )
        if owned:
            self._held.add(ends.only(owned))
            self._held_until = time.monotonic() + _HELD_SECONDS

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
        """Why the database refuses it; None when it is written."""
        try:
            await feed.exchange(end, None)
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
