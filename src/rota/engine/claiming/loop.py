"""The claim loop: the hot path of a worker.

It gathers a state, asks `next_action` what to do (`state.py`), does that, and starts over. Events
(the end of an attempt, a call, a pause) set plain fields and wake it.

One round trip writes ends and claims the next runs or, while claims follow one another, only
claims: then the ends go over a second connection (`ends.py`). Meanwhile the slots execute the runs
of the previous claim. There is no fixed pause: a claim that came back full is followed by the next
one, and ends are written as soon as no write is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from rota.engine.claiming.calls import Calls
from rota.engine.claiming.connection import ClaimConnection
from rota.engine.claiming.ends import EndBuffer, EndWriter
from rota.engine.claiming.plan import ClaimPlan, QueueSearch
from rota.engine.claiming.slots import Slots
from rota.engine.claiming.state import (
    STALLED_SECONDS,
    Action,
    ClaimState,
    next_action,
    seconds_to_rest,
)
from rota.engine.lease.health import Health
from rota.engine.loops.admission import Admission
from rota.engine.loops.shared_loops import SharedLoops
from rota.engine.metrics.rollups import Rollups
from rota.engine.tasks import end_task
from rota.errors import LeaseLost
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest
from rota.postgres.pipeline.exchange import Exchange
from rota.telemetry.logger import get_logger

_LAST_WRITE_SECONDS = 15.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class ClaimLoop:
    """Moves runs between the database and the slots of one worker identity. `longest_rest` is the
    time that an action may take for resting; `on_lost` is called when the lease is lost."""

    def __init__(
        self,
        *,
        feed: Exchange,
        ends_feed: Exchange,
        slots: Slots,
        plan: ClaimPlan,
        search: QueueSearch,
        calls: Calls,
        rollups: Rollups,
        shared_loops: SharedLoops,
        admission: Admission,
        health: Health,
        longest_rest: float,
        on_lost: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._plan = plan
        self._search = search
        self._calls = calls
        self._rollups = rollups
        self._shared_loops = shared_loops
        self._admission = admission
        self._health = health
        self._turns = health.of("feeder", longest_rest)
        self._on_lost = on_lost
        self._log = get_logger("worker")
        self._connection = ClaimConnection(feed, slots)
        self._ends = EndBuffer(rollups.counters)
        self._writer = EndWriter(self._ends, ends_feed, on_turn=self._ends_sent, health=health)
        self.claimed_at = time.monotonic()  # when a claim last brought a run
        self._is_stalled = False
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    # Events: ends of attempts.

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
        """The attempt's own transaction has written its end."""
        self._rollups.ended(claim, state, duration_ms)
        self.wake()

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self._writer.is_resting and self._is_writing_beside:
            self._writer.wake()

    # Events: calls.

    def called(self, queue: str) -> None:
        """A run was enqueued, and this worker was called for it."""
        self._plan.add_queue(queue)
        if self._calls.called():
            if self.is_claiming and not self._ends and self._connection.send_prepared(queue):
                self._calls.claim_sent()
            self.wake()
        if not self.is_claiming or not (self._slots.has_room or self._plan.is_fast):
            # No other worker was called for it.
            self._calls.pass_on(queue)
            self.wake()

    def watch(self, queue: str) -> None:
        """Another worker was called for this queue, and this one has to watch."""
        self._plan.add_queue(queue)
        self._calls.watch()
        self.wake()

    def passed_over(self) -> None:
        """Another worker took the runs that this one was called for; it is no longer announced as
        idle."""
        self._calls.passed_over()
        self.wake()

    def poll_now(self) -> None:
        """Poll all queues."""
        self._search.search_now()
        self._calls.poll_now()
        self.wake()

    def set_listening(self, is_listening: bool) -> None:
        """Sets whether calls can be received."""
        self._calls.set_listening(is_listening)
        self.wake()

    # Events: settings of the worker.

    @property
    def is_claiming(self) -> bool:
        return self._connection.is_claiming

    def pause_claiming(self, is_paused: bool) -> None:
        self._connection.is_claiming = not is_paused
        self.wake()

    def set_jobs(self, jobs: Sequence[str]) -> None:
        """Sets the jobs that the worker knows, and polls: runs of new ones may wait already."""
        self._connection.set_jobs(jobs)
        self.poll_now()

    # Start and stop.

    def start(self) -> None:
        self._turns.forget()
        self._task = asyncio.create_task(self._run(), name="rota feeder")
        self._writer.start()

    async def stop(self) -> None:
        """Writes all ends. Claiming must have been paused, and the slots be empty."""
        task, self._task = self._task, None
        if task is None:
            return
        deadline = time.monotonic() + _LAST_WRITE_SECONDS
        while not self._ends.is_settled and not task.done() and time.monotonic() < deadline:
            self.wake()
            await asyncio.sleep(0.002)
        await self._connection.keep(self._ends)
        await end_task(task)
        self._turns.forget()
        await self._writer.stop()

    async def abandon(self) -> None:
        """The lease is lost, or given up: stores the ends of runs that are still this worker's."""
        task, self._task = self._task, None
        await end_task(task)
        await self._writer.stop()
        await self._connection.keep(self._ends)
        await self._connection.end()

    # Runs that the worker holds.

    def take_unstarted(self) -> list[Claim]:
        """Removes the runs that have not started. The heartbeat's thread calls this too."""
        return self._connection.take_unstarted()

    def held_ids(self) -> set[int]:
        """Runs that wait here, are running, or have ended and are not written yet."""
        return self._connection.held_ids() | self._ends.ids()

    async def hand_back(self) -> None:
        """Returns runs that have not started to their queues, without using an attempt."""
        await self._connection.hand_back()

    @property
    def handed_back(self) -> int:
        """How many runs it has returned; also by itself, when it is told to claim no more."""
        return self._connection.handed_back

    def has_backlog(self) -> bool:
        return self.is_claiming and self._plan.has_backlog

    # The loop.

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                self._turns.begin()
                state = self._state()
                await self._perform(next_action(state), state)
                self._turns.went_well()
                pause = _FIRST_PAUSE
            except LeaseLost:
                self._turns.forget()
                self._on_lost()
                return
            except Exception as error:
                if self._turns.failed(error):
                    self._log.warning("claiming failed, retrying", error=error, pause=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                await self._connection.recover(self._ends)
                self._calls.poll_now()

    def _state(self) -> ClaimState:
        connection, slots, plan = self._connection, self._slots, self._plan
        return ClaimState(
            is_claiming=connection.is_claiming,
            is_sent=connection.is_sent,
            idle=slots.idle,
            free=slots.free,
            ready=len(slots.ready),
            ahead=connection.ahead,
            is_stalled=self._is_stalled,
            ends=len(self._ends),
            is_writing_beside=self._is_writing_beside,
            is_writer_resting=self._writer.is_resting,
            size=plan.size,
            may_have_more=plan.may_have_more,
            is_fast=plan.is_fast,
            seconds_to_full_claim=plan.seconds_to_full_claim,
            is_search_due=self._search.is_due,
            poll_seconds=self._calls.poll_seconds,
            calls=self._calls.state(),
        )

    @property
    def _is_writing_beside(self) -> bool:
        """Return whether claims follow one another, so the second connection writes ends."""
        plan = self._plan
        is_rapid = plan.is_fast and plan.may_have_more
        return is_rapid and self.is_claiming and self._writer.is_willing

    async def _perform(self, action: Action, state: ClaimState) -> None:
        match action:
            case Action.RECEIVE:
                await self._receive()
            case Action.HAND_BACK:
                await self.hand_back()
            case Action.HAND_BACK_STALLED:
                await self._hand_back_stalled()
            case Action.CHECK_LOAD:
                self._calls.load_checked(state.is_full)
            case Action.WAKE_END_WRITER:
                self._writer.wake()
            case Action.CLAIM | Action.CLAIM_AHEAD | Action.START_AHEAD | Action.WRITE_ENDS:
                await self._exchange(self._request(action, state))
            case Action.FIND_QUEUES:
                busy = await self._connection.find_queues()
                self._plan.set_queues(self._search.found(busy))
            case Action.REST:
                await self._rest(state)
            case _:
                await self._calls.perform(action)

    def _request(self, action: Action, state: ClaimState) -> ClaimRequest | None:
        match action:
            case Action.CLAIM:
                return self._plan.request(free=state.free)
            case Action.CLAIM_AHEAD:
                return self._plan.request(is_ahead=True)
            case Action.START_AHEAD:
                batch = self._connection.ahead_batch
                return self._plan.request(start_batch=batch, is_ahead=True)
            case _:
                return None

    async def _hand_back_stalled(self) -> None:
        """Hand back runs that are slower than earlier ones: other workers may have free slots."""
        self._is_stalled = False
        await self.hand_back()
        self._plan.shrink()

    async def _rest(self, state: ClaimState) -> None:
        """Waits for an event, with a claim prepared if a call is what comes next."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        timer = waiter.get_loop().call_later(seconds_to_rest(state), self.wake)
        if state.may_prepare:
            self._connection.prepare(self._plan.request(free=state.free))
        try:
            await waiter
        except asyncio.CancelledError:
            await self._connection.call_off()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            self._connection.discard_prepared()
        # Only here: after a claim, the slots need a moment to start its runs.
        is_sent = self._connection.is_sent
        self._is_stalled = not is_sent and self._slots.is_stalled(STALLED_SECONDS)

    async def _receive(self) -> None:
        """Reads the response to the claim that was sent when a call arrived."""
        started = time.monotonic()
        try:
            request, claims = await self._connection.receive()
        except BaseException:
            self._calls.poll_now()
            raise
        self._take(request, claims, time.monotonic() - started)

    async def _exchange(self, request: ClaimRequest | None) -> None:
        started = time.monotonic()
        if request is not None and request.limit:
            self._calls.claim_sent()
        try:
            claims = await self._connection.exchange(
                request, self._ends, is_alone=self._is_writing_beside
            )
        except BaseException:
            self._calls.poll_now()
            raise
        finally:
            self._report_ends()
        if request is not None and claims is not None:
            self._take(request, claims, time.monotonic() - started)
        elif request is not None:
            self._calls.poll_now()

    def _take(self, request: ClaimRequest, claims: list[Claim], seconds: float) -> None:
        was_starved = self._connection.take(request, claims)
        self._health.claimed()
        if claims:
            self.claimed_at = time.monotonic()
        self._plan.learn(request, claims, seconds, is_starved=was_starved)
        self._calls.claim_received(len(claims))
        self._calls.runs_claimed(claims, may_have_more=self._plan.may_have_more)
        self._rollups.counters.picked_up(claims)

    def _ends_sent(self) -> None:
        """The end writer has finished a write, or failed."""
        self._report_ends()
        self.wake()

    def _report_ends(self) -> None:
        news = self._ends.take_news()
        if news.is_written:
            self._health.finished()
            self._admission.ended()
        if news.has_delayed:
            self._shared_loops.ask("due")
        if news.has_kept:
            self._shared_loops.ask("kept")
