"""Ends of attempts: buffered until they are known to be written.

An end is sent again after an error. The fence makes that safe: an end that was written already, or
whose run belongs to another worker by now, changes nothing. An end that would have to wait for
another transaction is stored in `rota.kept_ends` and written from there (`loops/kept_ends.py`):
nothing else waits for it, and it outlives the worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg

from rota.engine.lease.health import Health
from rota.engine.metrics.counters import Counters
from rota.engine.tasks import end_task
from rota.model.outcome import Ended, Failure, Outcome, Requeue, in_ascii
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest
from rota.postgres.pipeline.ends import Ends
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.pipeline.prepared import Early
from rota.telemetry.logger import get_logger

# How long a worker that stops takes to store what it could not write.
_LAST_SECONDS = 5.0
# Classes of SQLSTATE codes that are about the written values: data, constraints, limits, exceptions
# that functions raise. Not about privileges, or a server that is unavailable.
_ABOUT_ROWS = ("22", "23", "44", "54", "P0")
_NOT_STORED = "its result could not be stored"
# How long the claim connection writes all ends after an error of the second connection, and how
# long the second connection stays open without work.
_ASIDE_SECONDS = 5.0
_IDLE_SECONDS = 30.0


@dataclass(slots=True)
class EndNews:
    """News about ends since the last `take_news`."""

    is_written: bool = False
    # A run was requeued with a delay, so that it has to be promoted.
    has_delayed: bool = False
    # Ends were stored in rota.kept_ends.
    has_kept: bool = False


class EndBuffer:
    """Takes ends from the slots, and writes them: with the next claim, or beside it."""

    def __init__(self, counts: Counters) -> None:
        self._counts = counts
        self._ends = Ends()
        self._sending: list[Ends] = []
        self._news = EndNews()
        self._log = get_logger("worker")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_settled(self) -> bool:
        """Return whether no end waits to be written, and no write is under way."""
        return not self._ends and not self._sending

    def ids(self) -> set[int]:
        return {run_id for ends in (self._ends, *self._sending) for run_id in ends.all_ids()}

    def take_news(self) -> EndNews:
        news, self._news = self._news, EndNews()
        return news

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None:
        self._ends.succeeded(claim.id, claim.attempt, duration_ms, result, claim.is_plain)

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None:
        self._ends.others.append((claim.id, claim.attempt, duration_ms, outcome))

    async def exchange(
        self,
        feed: Exchange,
        request: ClaimRequest | None,
        early: Early[Claim] | None = None,
    ) -> list[Claim] | None:
        """Do one round trip. Returns the claimed runs; None if the request was not carried out."""
        ends, self._ends = self._ends, Ends()
        self._sending.append(ends)
        try:
            claims = await self._send(feed, ends, request, early)
        except BaseException:
            self._put_back(ends)
            raise
        finally:
            self._sending.remove(ends)
        if ends:
            self._news.is_written = True
        if any(isinstance(other[3], Requeue) and other[3].delay for other in ends.others):
            self._news.has_delayed = True
        return claims

    async def keep_all(self, feed: Exchange) -> None:
        """The worker stops or gives up its lease: stores all ends in `rota.kept_ends`, for another
        worker to write."""
        ends, self._ends = self._ends, Ends()
        for sending in self._sending:
            ends.add(sending)
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
        feed: Exchange,
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
        """Ahead of the ends that have arrived meanwhile."""
        later, self._ends = self._ends, ends
        ends.add(later)

    async def _settle_refused(self, feed: Exchange, ends: Ends) -> None:
        """Some ends were not written. Those of runs that are still this worker's would have waited
        for another transaction, and are kept; the others came too late."""
        refused = feed.refused
        kept = await feed.keep(ends)
        if refused > kept:
            self._counts.note("late_ends", refused - kept)
            self._log.warning(
                "results came too late: the runs belong to other workers", ends=refused - kept
            )
        if kept:
            self._news.has_kept = True

    async def _write_singly(self, feed: Exchange, ends: Ends) -> None:
        """Writes the ends one by one, so that one which cannot be stored does not hold up the
        others. If this is interrupted, all are sent again, and those already written change
        nothing."""
        for end in ends.each():
            error = await self._try(feed, end)
            if error is None:
                continue
            for outcome in _substitutes(end, error):
                error = await self._try(feed, end.refused(outcome))
                if error is None:
                    break
            else:
                # Left to the rescue of the run: sent again, the end would be refused again.
                self._log.error(
                    "the result of a run could not be stored", run=end.all_ids()[0], error=error
                )

    async def _try(self, feed: Exchange, end: Ends) -> psycopg.Error | None:
        """Returns why the database refuses the end; None if it is written, or kept."""
        try:
            is_written, _ = await feed.exchange(end, None)
            if not is_written:
                await self._settle_refused(feed, end)
        except psycopg.DatabaseError as error:
            if not _is_refusal(error):
                raise
            return error
        return None


class EndWriter:
    """Writes ends over a second connection, while claims keep the first one busy.

    In a drain the server works as long on the ends of a batch as on the next claim, and each
    connection is one process of the server: with two of them it does both at once. After an error
    the writer pauses, and the claim loop writes the ends and reports what the error means.
    `on_turn` is called after each write and each error.
    """

    def __init__(
        self, ends: EndBuffer, feed: Exchange, *, on_turn: Callable[[], None], health: Health
    ) -> None:
        self._turns = health.of("end writer")
        self._ends = ends
        self._feed = feed
        self._on_turn = on_turn
        self._aside_until = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._log = get_logger("worker")

    @property
    def is_willing(self) -> bool:
        """Return whether the writer runs and has had no error lately."""
        return self._task is not None and time.monotonic() >= self._aside_until

    @property
    def is_resting(self) -> bool:
        return self._waiter is not None

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="rota end writer")

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)
        self._turns.forget()
        await self._feed.end()

    async def _run(self) -> None:
        while True:
            await self._rest()
            try:
                while self._ends and self.is_willing:
                    self._turns.begin()
                    await self._ends.exchange(self._feed, None)
                    self._turns.went_well()
                    self._on_turn()
            except Exception as error:
                if self._turns.failed(error):
                    text = "using one connection for claims and results for now"
                    self._log.warning(text, error=error)
                # The claim loop takes over, and reports further errors.
                self._turns.forget()
                self._aside_until = time.monotonic() + _ASIDE_SECONDS
                await self._feed.close()
                self._on_turn()

    async def _rest(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            done, _ = await asyncio.wait([waiter], timeout=_IDLE_SECONDS)
            if not done:
                await self._feed.close()
                await waiter
        finally:
            self._waiter = None


def _substitutes(end: Ends, error: psycopg.Error) -> Iterator[Outcome]:
    """The outcomes to try in turn instead of an end that was refused: the same failure in ASCII; a
    failure that says that the result could not be stored, and why; at last the same without any
    text of the handler or the server."""
    for _, _, _, outcome in end.others:
        yield in_ascii(outcome)
    reason = f"{_NOT_STORED}: {str(error).partition(chr(10))[0]}"
    for failure in (Failure(type(error).__name__, reason), Failure("Error", _NOT_STORED)):
        yield Ended("failed", "failed", _NOT_STORED, None, failure)


def _is_refusal(error: psycopg.DatabaseError) -> bool:
    return (error.sqlstate or "").startswith(_ABOUT_ROWS)
