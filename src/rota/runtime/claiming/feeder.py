"""Keeps the slots fed and the ends written: the hot path of a worker.

One round trip writes what has ended and claims what comes next, or, while claims follow one
another, only claims: the ends then go beside it (`end_writer.py`). While it is under way the slots
work on what the last one brought. There is no fixed pause: a claim that came back full is
followed by the next one, ends are written as soon as no write is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import psycopg

from rota.errors import LeaseLost
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.runtime.claiming.claim_commit import ClaimCommit
from rota.runtime.claiming.claim_plan import ClaimPlan
from rota.runtime.claiming.end_buffer import EndBuffer
from rota.runtime.claiming.end_writer import EndWriter
from rota.runtime.claiming.idle_claim import IdleClaim
from rota.runtime.claiming.others import Others
from rota.runtime.claiming.pace import Pace
from rota.runtime.claiming.slots import Slots, take_all
from rota.runtime.claiming.waiting import Waiting
from rota.runtime.lease.health import Health
from rota.runtime.metrics.rollups import Rollups
from rota.runtime.tasks import end_task
from rota.store.pipeline.claims import ClaimRequest
from rota.store.pipeline.ends import Ends
from rota.store.pipeline.feed import Feed
from rota.store.queues import busy_queues
from rota.store.runs import claimed
from rota.telemetry.logger import get_logger

_STALLED_SECONDS = 1.0
_LAST_WRITE_SECONDS = 15.0
_QUEUES_SECONDS = 1.0
# A call names its queue.
_RESTING_QUEUES_SECONDS = 20.0


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
        health: Health,
        poll_seconds: float,
        pace: Pace,
    ) -> None:
        self._health = health
        self._pace = pace
        # A turn may rest for as long as a poll.
        self._turns = health.of("feeder", poll_seconds)
        self._feed = feed
        self._slots = slots
        self._plan = plan
        self._waiting = waiting
        self._rollups = rollups
        self._queues = list(queues)  # empty: all
        self._own_queues = list(own_queues)
        self._next_queues = 0.0
        self._on_lost = on_lost
        self._on_later = on_later
        self._on_ended = on_ended
        self._log = get_logger("worker")
        self._ends = EndBuffer(rollups.counters, self._written)
        self._writer = EndWriter(
            self._ends, second, on_later=on_later, on_turn=self.wake, health=health
        )
        self._ahead: deque[Claim] = deque()
        self._ahead_batch = 0
        self.is_claiming = True
        self.taken_at = time.monotonic()  # when a claim last brought something
        self._idle_claim = IdleClaim(feed, slots, self._add)
        self._others = Others(waiting, is_short=lambda: self._is_short, on_news=self.wake)
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def claim_commit(self) -> ClaimCommit | None:
        """The claim whose commit runs must wait for."""
        return self._idle_claim.claim_commit

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
            if self.is_claiming and not self._ends and self._idle_claim.send(queue):
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
        self._next_queues = 0.0
        self._waiting.look_now()
        self.wake()

    def know(self, jobs: Sequence[str]) -> None:
        """What it can run has changed: there may be runs of it already."""
        self._feed.set_jobs(jobs)
        self.look_now()

    def pause_claiming(self, is_paused: bool) -> None:
        self.is_claiming = not is_paused
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
        while not self._ends.is_settled and not task.done():
            if time.monotonic() > deadline:
                self._log.error("ends could not be written: the runs will be rescued and repeated")
                break
            self.wake()
            await asyncio.sleep(0.002)
        await end_task(task)
        self._others.stop()
        self._turns.forget()
        await self._writer.stop()

    async def abandon(self) -> None:
        """The lease is lost: whatever was still to be written is not ours to write."""
        task, self._task = self._task, None
        await end_task(task)
        self._others.stop()
        await self._writer.stop()
        self._rollups.counters.note("late_ends", len(self._ends.ids()))
        await self._feed.end()

    def take_unstarted(self) -> list[Claim]:
        """What is claimed and has not started, also for the heartbeat's thread: see take_all."""
        return take_all(self._ahead) + take_all(self._slots.ready)

    def held_ids(self) -> set[int]:
        """What is here: waiting, running, or ended and not written yet."""
        return self._slots.held_ids() | {claim.id for claim in self._ahead} | self._ends.ids()

    async def hand_back(self) -> int:
        """Give back what was claimed and has not started; no attempt is spent."""
        claims = self.take_unstarted()
        if claims:
            runs = [(claim.id, claim.attempt) for claim in claims]
            await self._feed.fetch(claimed.hand_back(self._feed.worker, runs))
        return len(claims)

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
                    self._log.warning("the feeder failed, trying again", error=error, pause=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
                await self._recover()

    async def _step(self) -> None:
        """Wait for a reason, then one round trip."""
        if self._idle_claim.is_sent:
            await self._receive()
            return
        if not self.is_claiming and (self._ahead or self._slots.ready):
            await self.hand_back()
        if self._others.has_news:
            await self._others.tell()
        if self._ends and self._is_rushing:
            self._writer.call()
        if self._ends.seconds_to_held == 0:
            await self._ends.try_held(self._feed)
        claim = self._next_claim()
        if claim is None and not self._has_ends:
            await self._rest()
        else:
            await self._exchange(claim() if claim else None)

    def _next_claim(self) -> Callable[[], ClaimRequest] | None:
        """What to ask for next, if anything."""
        if not self.is_claiming:
            return None
        ready = len(self._slots.ready)
        # As soon as the slots have begun, so that the server has work while they have theirs; not
        # before: two whole batches would be what a crash makes suspect. And not while the ends of
        # a whole batch wait behind a write: a crash repeats what is not written.
        wants_more = ready <= self._plan.size * 5 // 6 and len(self._ends) <= self._plan.size
        if self._ahead:
            if not wants_more:
                return None
            return partial(self._plan.request, start_batch=self._ahead_batch, is_ahead=True)
        is_full_look_due = self._plan.seconds_to_full_look == 0
        if not is_full_look_due and not self._waiting.is_claim_due(self._plan.may_have_more):
            return None
        if self._claims_ahead:
            # More than the free slots would start within a round trip: claimed ahead, so that
            # only what really starts counts as started.
            return partial(self._plan.request, is_ahead=True) if wants_more else None
        return partial(self._plan.request, free=self._slots.free) if self._slots.has_room else None

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
            if not self._queues and time.monotonic() >= self._next_queues:
                await self._find_queues()
        else:
            await self._waiting.withdraw()
        if not self._has_ends and self._next_claim() is None:
            await self._sleep()

    async def _find_queues(self) -> None:
        busy = await self._feed.fetch(busy_queues())
        self._plan.set_queues(dict.fromkeys([*self._own_queues, *busy]))
        pause = self._pace.seconds(_QUEUES_SECONDS, _RESTING_QUEUES_SECONDS)
        self._next_queues = time.monotonic() + pause

    async def _sleep(self) -> None:
        """Until something ends, somebody calls, or it is time to look again."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        seconds = self._waiting.seconds_to_claim(self._plan.may_have_more)
        if self._slots.ready:
            seconds = min(seconds, _STALLED_SECONDS)
        full_look = self._plan.seconds_to_full_look
        if full_look is not None and self.is_claiming and self._slots.has_room:
            seconds = min(seconds, full_look)
        if (held := self._ends.seconds_to_held) is not None:
            seconds = min(seconds, held)
        timer = waiter.get_loop().call_later(seconds, self.wake)
        if self.is_claiming and self._slots.has_room and self._waiting.is_quiet:
            self._idle_claim.make_ready(self._plan.request(free=self._slots.free))
        try:
            await waiter
        except asyncio.CancelledError:
            await self._idle_claim.call_off()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            self._idle_claim.forget()
        if not self._idle_claim.is_sent and self._slots.is_stalled(_STALLED_SECONDS):
            # The runs turned out slower than the ones before: others may have free slots.
            await self.hand_back()
            self._plan.shrink()

    async def _receive(self) -> None:
        """The claim that went out with the call."""
        started = time.monotonic()
        try:
            request, claims = await self._idle_claim.receive()
        except BaseException:
            self._break_off()
            raise
        self._take(request, claims, time.monotonic() - started)

    async def _exchange(self, request: ClaimRequest | None) -> None:
        started = time.monotonic()
        if request is not None and request.limit:
            self._waiting.asked()
        is_lone = request is not None and request.batch is None and not self._ends
        early = self._idle_claim.start() if is_lone else None
        try:
            if request is not None and self._is_rushing:
                _, claims = await self._feed.exchange(Ends(), request)
                has_later = False
            else:
                claims, has_later = await self._ends.exchange(self._feed, request, early)
        except BaseException:
            self._break_off()
            raise
        if request is not None and claims is not None:
            self._take(request, claims, time.monotonic() - started)
        elif request is not None:
            self._break_off()
        if has_later:
            self._on_later()

    def _break_off(self) -> None:
        """A claim that was not carried out, or of which nobody knows whether it was."""
        self._waiting.look_now()
        self._idle_claim.break_off()

    def _add(self, claims: Sequence[Claim]) -> bool:
        """Into the slots; not when somebody has said stop meanwhile."""
        if self.is_claiming:
            self._slots.add(sorted(claims, key=_place))
        return self.is_claiming

    def _take(self, request: ClaimRequest, claims: list[Claim], seconds: float) -> None:
        is_starved = not self._slots.ready
        if request.start_batch is not None:
            self._slots.add(take_all(self._ahead))
        self._health.claimed()
        if claims:
            self.taken_at = time.monotonic()
        self._plan.learn(request, claims, seconds, is_starved=is_starved)
        self._waiting.claimed(len(claims))
        self._others.claimed(claims, is_short=self._plan.may_have_more)
        self._rollups.counters.picked_up(claims)
        if self._idle_claim.end():
            return
        if not self.is_claiming:
            # Somebody said stop while the claim was under way: the next step hands it back.
            self._ahead.extend(claims)
        elif request.batch is None:
            self._add(claims)
        else:
            self._ahead.extend(sorted(claims, key=_place))
            self._ahead_batch = request.batch

    async def _recover(self) -> None:
        """After a broken connection: what the database thinks we hold and we do not, goes back."""
        await self._feed.close()
        try:
            ours = await self._feed.fetch(claimed.strays(self._feed.worker))
            held = self.held_ids()
            strays = [one for one in ours if one.run not in held]
            if strays:
                await self._feed.fetch(claimed.hand_back(self._feed.worker, strays))
        except (psycopg.Error, OSError):
            await self._feed.close()
        self._waiting.look_now()


def _place(claim: Claim) -> tuple[int, int]:
    return claim.priority, claim.seq
