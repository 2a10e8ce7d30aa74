"""Calls: when the worker polls, and what it tells other workers.

A NOTIFY in each commit would serialise all commits of the server, so an enqueue sends one (a call)
only while a worker has announced that it is idle. A worker writes this announcement, commits, and
then polls until every transaction that could not see it has ended: no call is lost. After two
seconds it polls only every `poll_seconds` for as long as such a transaction with changed runs is
open. Called more than two hundred times a second, the worker announces that it polls, and does so
every few milliseconds.

Of all idle workers one is called, on its own channel, and a second one watches: it polls a moment
later, and if it finds runs it withdraws the announcement of the first. So a call that reaches a
worker which cannot answer costs that moment; if both cannot answer, it costs a poll.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from psycopg import errors

from rota.engine.claiming.state import Action, Announced, CallState
from rota.model.run import Claim
from rota.postgres.queries import Fetch, Query
from rota.postgres.workers import calls as statements

# Polling every 4 ms is 250 claims a second: below this many calls, being called is cheaper.
_BUSY_CALLS_PER_SECOND = 200
_BUSY_POLL_SECONDS = 0.004
_QUIET_SECONDS = 1.0
_SETTLE_STEPS = (0.002, 0.004, 0.008, 0.016, 0.032, 0.05)
_SETTLE_LIMIT = 2.0
# A called worker has claimed long before, unless it cannot.
_WATCH_SECONDS = 0.05
# Runs of a few milliseconds have ended by then, and their slots are free.
_LOAD_SECONDS = 0.005
# How long nothing is announced after another transaction was found to hold the worker's row.
_HELD_SECONDS = 1.0


class Calls:
    """Events only set fields; `state` shows them to the claim loop, and `perform` sends what the
    loop has decided. `channel` is where this worker receives its calls."""

    def __init__(
        self,
        *,
        poll_seconds: float,
        resting_seconds: float = 0.0,
        worker: int,
        fetch: Fetch,
        channel: str = "",
    ) -> None:
        self.poll_seconds = poll_seconds
        self._resting_seconds = max(poll_seconds, resting_seconds)
        self._worker = worker
        self._fetch = fetch
        self._channel = channel
        self._next_poll = 0.0
        self._is_called = False
        self._announced: Announced = "none"
        self._is_listening = False
        self._calls = 0
        self._calls_since = time.monotonic()
        self._busy_until = 0.0
        # While the worker settles: transactions below this id may not see its announcement.
        self._settle_xid: int | None = None
        self._settle_until = 0.0
        self._settle_step = 0
        self._is_older_checked = False
        # The same id after `_SETTLE_LIMIT`, while such a transaction that changed runs is open.
        self._late_xid: int | None = None
        self._is_late_checked = False
        self._watch_at: float | None = None
        # Whether the claim under way is for runs that called workers should have taken.
        self._is_watching = False
        self._held_until = 0.0
        # Queues of which this worker has taken as many runs as it had room for, and when to check
        # whether it has room again.
        self._full: dict[str, None] = {}
        self._check_load_at: float | None = None
        self._to_pass_on: dict[str, None] = {}
        self._to_pass_over: dict[str, None] = {}

    # Events.

    def called(self) -> bool:
        """A run was enqueued. Returns False while the worker polls anyway. The call that makes it
        poll counts too: until then the worker rests as if it were called."""
        now = time.monotonic()
        was_busy = now < self._busy_until
        self._calls += 1
        if now - self._calls_since >= 1.0:
            self._calls, self._calls_since = 1, now
        if self._calls > _BUSY_CALLS_PER_SECOND:
            self._busy_until = now + _QUIET_SECONDS
        if was_busy:
            return False
        self._is_called = True
        return True

    def watch(self) -> None:
        """Another worker was called: poll a moment later, in case it does not answer."""
        if self._watch_at is None:
            self._watch_at = time.monotonic() + _WATCH_SECONDS

    def passed_over(self) -> None:
        """Another worker has taken the runs and withdrawn this worker's announcement."""
        self._announced = "none"

    def poll_now(self) -> None:
        self._is_called = True

    def set_listening(self, is_listening: bool) -> None:
        self._is_listening = is_listening
        self.poll_now()

    def pass_on(self, queue: str) -> None:
        """Another worker has to take the runs of this queue."""
        self._to_pass_on[queue] = None

    def claim_sent(self) -> None:
        """A claim is on its way; it may miss the runs of calls that arrive from now on."""
        is_polling = self._is_busy or self._settle_xid is not None
        is_due = time.monotonic() >= self._poll_at
        self._is_watching = is_due and not self._is_called and not is_polling
        self._is_called = False
        self._watch_at = None

    def claim_received(self, count: int) -> None:
        """A claim has brought `count` runs: sets when the next one is due."""
        now = time.monotonic()
        self._is_older_checked = self._is_late_checked = False
        if count and now < self._busy_until:
            self._busy_until = now + _QUIET_SECONDS
        if now < self._busy_until:
            self._next_poll = now + _BUSY_POLL_SECONDS
        elif self._settle_xid is not None:
            step = _SETTLE_STEPS[min(self._settle_step, len(_SETTLE_STEPS) - 1)]
            self._settle_step += 1
            self._next_poll = now + step
        elif self._announced == "idle" and not count and self._late_xid is None:
            # Other workers are called too, and one that does not answer is passed over.
            self._next_poll = now + self._resting_seconds * random.uniform(0.9, 1.1)
        else:
            self._next_poll = now + self.poll_seconds

    def runs_claimed(self, claims: Sequence[Claim], *, may_have_more: bool) -> None:
        """Note which other workers may have to be called after a claim."""
        if not claims or self._announced == "none":
            return
        queues = dict.fromkeys(claim.queue for claim in claims)
        if self._is_watching:
            self._to_pass_over |= queues
        if may_have_more:
            self._full |= queues
            if self._check_load_at is None:
                self._check_load_at = time.monotonic() + _LOAD_SECONDS

    def load_checked(self, is_full: bool) -> None:
        """A moment after a full claim: `is_full` if the worker still has more than it can do."""
        full, self._full, self._check_load_at = self._full, {}, None
        if is_full and self._announced != "none":
            self._to_pass_on |= full

    # For the claim loop.

    def state(self) -> CallState:
        now, check_load_at = time.monotonic(), self._check_load_at
        return CallState(
            is_called=self._is_called,
            seconds_to_poll=self._poll_at - now,
            is_listening=self._is_listening,
            is_busy=now < self._busy_until,
            announced=self._announced,
            is_row_held=now < self._held_until,
            is_settling=self._settle_xid is not None,
            may_check_older=self._settle_xid is not None and not self._is_older_checked,
            may_check_late=self._late_xid is not None and not self._is_late_checked,
            seconds_to_load_check=None if check_load_at is None else check_load_at - now,
            has_to_pass_over=bool(self._to_pass_over),
            has_to_pass_on=bool(self._to_pass_on),
        )

    @property
    def _poll_at(self) -> float:
        return self._next_poll if self._watch_at is None else min(self._next_poll, self._watch_at)

    @property
    def _is_busy(self) -> bool:
        return time.monotonic() < self._busy_until

    # Actions.

    async def perform(self, action: Action) -> None:
        match action:
            case Action.PASS_OVER:
                await self._pass_over()
            case Action.PASS_ON:
                await self._pass_on()
            case Action.WITHDRAW:
                await self._announce("none")
            case Action.ANNOUNCE_POLLING:
                await self._announce("polling")
            case Action.ANNOUNCE_IDLE:
                await self._announce_idle()
            case Action.CHECK_OLDER:
                await self._check_older()
            case Action.CHECK_LATE:
                await self._check_late()
            case _:
                raise AssertionError(action)

    async def _pass_over(self) -> None:
        queues, self._to_pass_over = self._to_pass_over, {}
        await self._fetch(statements.pass_over(self._worker, list(queues)))

    async def _pass_on(self) -> None:
        """Call other workers for these queues, and withdraw the announcement of this one."""
        queues, self._to_pass_on = self._to_pass_on, {}
        if await self._write(statements.pass_on(self._worker, list(queues))):
            self._announced = "none"

    async def _announce_idle(self) -> None:
        if await self._announce("idle"):
            self._settle_xid, self._settle_step = await self._fetch(statements.next_xid()), 0
            self._settle_until = time.monotonic() + _SETTLE_LIMIT
            self._is_older_checked = False
            self.poll_now()

    async def _check_older(self) -> None:
        assert self._settle_xid is not None
        self._is_older_checked = True
        oldest = await self._fetch(statements.oldest_xid())
        # A long transaction anywhere would keep the worker settling, hence the limit.
        is_settled = oldest >= self._settle_xid
        if is_settled or time.monotonic() > self._settle_until:
            self._late_xid = None if is_settled else self._settle_xid
            self._settle_xid = None
            self.poll_now()

    async def _check_late(self) -> None:
        assert self._late_xid is not None
        self._is_late_checked = True
        if not await self._fetch(statements.late_enqueues(self._late_xid)):
            self._late_xid = None
            self.poll_now()

    async def _announce(self, announced: Announced) -> bool:
        """Returns whether the announcement was stored."""
        is_stored = await self._write(
            statements.answer_calls(
                self._worker,
                waiting=announced != "none",
                polling=announced == "polling",
                channel=self._channel,
            )
        )
        if is_stored:
            self._announced = announced
            if announced != "idle":
                self._settle_xid = self._late_xid = None
        return is_stored

    async def _write(self, query: Query[Any]) -> bool:
        """Returns False if another transaction holds the worker's row (the lease logs which one).
        Calls are missed meanwhile, and polls find the runs."""
        if time.monotonic() < self._held_until:
            return False
        try:
            await self._fetch(query)
        except errors.LockNotAvailable:
            self._held_until = time.monotonic() + _HELD_SECONDS
            return False
        return True
