"""Keeps the slots fed and the ends written: the hot path of a worker.

One round trip writes what has ended and claims what comes next, or, while claims follow one
another, only claims: the ends then go beside it (`end_writer.py`). While it is under way the slots
work on what the last one brought. There is no fixed pause: a claim that came back full is
followed by the next one, ends are written as soon as no write is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from rota.errors import LeaseLost
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.runtime.claiming.claim_plan import ClaimPlan
from rota.runtime.claiming.claimer import Claimer
from rota.runtime.claiming.end_buffer import EndBuffer
from rota.runtime.claiming.end_writer import EndWriter
from rota.runtime.claiming.next_claim import NextClaim, Situation, next_claim
from rota.runtime.claiming.others import Others
from rota.runtime.claiming.pace import Pace
from rota.runtime.claiming.queue_search import QueueSearch
from rota.runtime.claiming.slots import Slots
from rota.runtime.claiming.waiting import Waiting
from rota.runtime.lease.health import Health
from rota.runtime.metrics.rollups import Rollups
from rota.runtime.tasks import end_task
from rota.store.pipeline.claims import ClaimRequest
from rota.store.pipeline.feed import Feed
from rota.telemetry.logger import get_logger

_STALLED_SECONDS = 1.0
_LAST_WRITE_SECONDS = 15.0


class Feeder:
    """Moves runs between the database and the slots of one worker identity."""

    def __init__(
        self,
        *,
        feed: Feed,
        second: Feed,
        slots: Slots,
        plan: ClaimPlan,
        waiting: Waiting,
        rollups: Rollups,
        queues: Sequence[str],
        own_queues: Sequence[str],
        on_lost: Callable[[], None],
        on_later: Callable[[], None],
        on_ended: Callable[[], None],
        on_kept: Callable[[], None],
        health: Health,
        poll_seconds: float,
        pace: Pace,
    ) -> None:
        self._health = health
        # A turn may rest for as long as a poll.
        self._turns = health.of("feeder", poll_seconds)
        self._feed = feed
        self._slots = slots
        self._plan = plan
        self._waiting = waiting
        self._rollups = rollups
        self._queue_search = QueueSearch(feed, queues=queues, own=own_queues, pace=pace)
        self._on_lost = on_lost
        self._on_later = on_later
        self._on_ended = on_ended
        self._log = get_logger("worker")
        self._ends = EndBuffer(rollups.counters, self._written, on_kept)
        self._writer = EndWriter(
            self._ends, second, on_later=on_later, on_turn=self.wake, health=health
        )
        self._claimer = Claimer(feed, slots)
        self.taken_at = time.monotonic()  # when a claim last brought something
        self._others = Others(waiting, is_short=lambda: self._is_short, on_news=self.wake)
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_claiming(self) -> bool:
        return self._claimer.is_claiming

    def _written(self) -> None:
        self._health.finished()
        self._on_ended()

    # What the slots and the rest of the worker say.

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None:
        self._ends.succeeded(claim, duration_ms, result)
        self._plan.took(duration_ms)
        self._rollups.ended(claim, "succeeded", duration_ms)
        if self._waiter is not None or self._writer.is_resting:
            self.wake()

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None:
        self._ends.ended(claim, duration_ms, outcome)
        self._rollups.ended(claim, outcome.attempt_state, duration_ms)
        self.wake()

    def already_ended(self, claim: Claim, duration_ms: float, state: str = "succeeded") -> None:
        """Its own transaction has written the end of this attempt."""
        self._rollups.ended(claim, state, duration_ms)
        self.wake()

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self._writer.is_resting and self._is_rushing:
            self._writer.call()

    def called(self, queue: str) -> None:
        """Somebody enqueued into this queue."""
        self._plan.add_queue(queue)
        if self._waiting.called():
            if self.is_claiming and not self._ends and self._claimer.send(queue):
                self._waiting.asked()
            self.wake()
        if not self.is_claiming or not (self._slots.has_room or self._plan.is_fast):
            # Nobody else was called for it.
            self._others.call(queue)
            self.wake()

    def watched(self, queue: str) -> None:
        """Somebody else was called for this queue."""
        self._plan.add_queue(queue)
        self._waiting.watched()
        self.wake()

    def passed_over(self) -> None:
        """It was called, and did not come."""
        self._waiting.passed_over()
        self.wake()

    def look_now(self) -> None:
        """Somebody says that there may be something, and not where."""
        self._queue_search.look_now()
        self._waiting.look_now()
        self.wake()

    def know(self, jobs: Sequence[str]) -> None:
        """What it can run has changed: there may be runs of it already."""
        self._feed.set_jobs(jobs)
        self.look_now()

    def pause_claiming(self, is_paused: bool) -> None:
        self._claimer.is_claiming = not is_paused
        self.wake()

    def set_listening(self, is_listening: bool) -> None:
        """Whether calls can be relied on."""
        self._waiting.set_listening(is_listening)
        self.wake()

    # Life.

    def start(self) -> None:
        self._turns.forget()
        self._task = asyncio.create_task(self._run(), name="rota feeder")
        self._writer.start()

    async def stop(self) -> None:
        """Write what has ended. Claiming must have been paused and the slots be empty."""
        task, self._task = self._task, None
        if task is None:
            return
        deadline = time.monotonic() + _LAST_WRITE_SECONDS
        while not self._ends.is_settled and not task.done() and time.monotonic() < deadline:
            self.wake()
            await asyncio.sleep(0.002)
        await self._ends.keep_all(self._feed)
        await end_task(task)
        self._others.stop()
        self._turns.forget()
        await self._writer.stop()

    async def abandon(self) -> None:
        """The lease is lost, or given up. What is known of runs that are still ours is kept."""
        task, self._task = self._task, None
        await end_task(task)
        self._others.stop()
        await self._writer.stop()
        await self._ends.keep_all(self._feed)
        await self._feed.end()

    def take_unstarted(self) -> list[Claim]:
        """Also for the heartbeat's thread."""
        return self._claimer.take_unstarted()

    def held_ids(self) -> set[int]:
        """What is here: waiting, running, or ended and not written yet."""
        return self._claimer.held_ids() | self._ends.ids()

    async def hand_back(self) -> int:
        """Give back what was claimed and has not started; no attempt is spent."""
        return await self._claimer.hand_back()

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                self._turns.begin()
                await self._step()
                self._turns.went_well()
                pause = 0.1
            except LeaseLost:
                self._turns.forget()
                self._on_lost()
                return
            except Exception as error:
                if self._turns.failed(error):
                    self._log.warning("claiming failed, retrying", error=error, pause=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
                await self._claimer.recover(self._ends)
                self._waiting.look_now()

    async def _step(self) -> None:
        """Wait for a reason, then one round trip."""
        if self._claimer.is_sent:
            await self._receive()
            return
        if not self.is_claiming and self._claimer.has_unstarted:
            await self.hand_back()
        if self._others.has_news:
            await self._others.tell()
        if self._ends and self._is_rushing:
            self._writer.call()
        what = self._next_claim()
        if what is NextClaim.NONE and not self._has_ends:
            await self._rest()
        else:
            await self._exchange(self._request(what))

    def _next_claim(self) -> NextClaim:
        plan, waiting = self._plan, self._waiting
        is_due = plan.seconds_to_full_look == 0 or waiting.is_claim_due(plan.may_have_more)
        return next_claim(
            Situation(
                is_claiming=self.is_claiming,
                has_ahead=self._claimer.has_ahead,
                ready=len(self._slots.ready),
                free=self._slots.free,
                ends=len(self._ends),
                size=plan.size,
                is_rapid=self._claims_ahead,
                is_due=is_due,
            )
        )

    def _request(self, what: NextClaim) -> ClaimRequest | None:
        match what:
            case NextClaim.NONE:
                return None
            case NextClaim.FILL:
                return self._plan.request(free=self._slots.free)
            case NextClaim.AHEAD:
                return self._plan.request(is_ahead=True)
            case NextClaim.START_AHEAD:
                batch = self._claimer.ahead_batch
                return self._plan.request(start_batch=batch, is_ahead=True)

    @property
    def _is_rushing(self) -> bool:
        """Claims follow one another: the ends go over the second connection."""
        return self._claims_ahead and self.is_claiming and self._writer.is_willing

    def has_backlog(self) -> bool:
        return self.is_claiming and self._plan.has_backlog

    @property
    def _claims_ahead(self) -> bool:
        return self._plan.is_fast and self._plan.may_have_more

    @property
    def _is_short(self) -> bool:
        """There may be more than it can do."""
        return self._plan.may_have_more or not self._slots.has_room

    @property
    def _has_ends(self) -> bool:
        return bool(self._ends) and not self._is_rushing

    async def _rest(self) -> None:
        """Nothing to do right now: say so, then sleep unless that changed something."""
        if self.is_claiming:
            if self._slots.idle:
                await self._waiting.update()
            if self._queue_search.is_due:
                self._plan.set_queues(await self._queue_search.find())
        else:
            await self._waiting.withdraw()
        if not self._has_ends and self._next_claim() is NextClaim.NONE:
            await self._sleep()

    async def _sleep(self) -> None:
        """Until something ends, somebody calls, or it is time to look again."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        seconds = self._waiting.seconds_to_claim(self._plan.may_have_more)
        if self._slots.ready:
            seconds = min(seconds, _STALLED_SECONDS)
        full_look = self._plan.seconds_to_full_look
        if full_look is not None and self.is_claiming and self._slots.has_room:
            seconds = min(seconds, full_look)
        timer = waiter.get_loop().call_later(seconds, self.wake)
        if self.is_claiming and self._slots.has_room and self._waiting.is_quiet:
            self._claimer.make_ready(self._plan.request(free=self._slots.free))
        try:
            await waiter
        except asyncio.CancelledError:
            await self._claimer.call_off()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            self._claimer.forget()
        if not self._claimer.is_sent and self._slots.is_stalled(_STALLED_SECONDS):
            # The runs turned out slower than the ones before: others may have free slots.
            await self.hand_back()
            self._plan.shrink()

    async def _receive(self) -> None:
        """The claim that went out with the call."""
        started = time.monotonic()
        try:
            request, claims = await self._claimer.receive()
        except BaseException:
            self._waiting.look_now()
            raise
        self._take(request, claims, time.monotonic() - started)

    async def _exchange(self, request: ClaimRequest | None) -> None:
        started = time.monotonic()
        if request is not None and request.limit:
            self._waiting.asked()
        try:
            claims, has_later = await self._claimer.exchange(
                request, self._ends, is_alone=self._is_rushing
            )
        except BaseException:
            self._waiting.look_now()
            raise
        if request is not None and claims is not None:
            self._take(request, claims, time.monotonic() - started)
        elif request is not None:
            self._waiting.look_now()
        if has_later:
            self._on_later()

    def _take(self, request: ClaimRequest, claims: list[Claim], seconds: float) -> None:
        was_starved = self._claimer.take(request, claims)
        self._health.claimed()
        if claims:
            self.taken_at = time.monotonic()
        self._plan.learn(request, claims, seconds, is_starved=was_starved)
        self._waiting.claimed(len(claims))
        self._others.claimed(claims, is_short=self._plan.may_have_more)
        self._rollups.counters.picked_up(claims)
