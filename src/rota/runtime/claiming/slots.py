"""The slots of a worker: a fixed number of coroutines that run attempts one after another.

A slot is one long-lived asyncio task and a body runs inside it, so that a run costs no task of
its own. The slot is a real task all the same: `asyncio.timeout`, task groups and cancellation
work in a body as anywhere. A body that changed context variables gets its slot replaced, so
that nothing leaks into the next run.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rota.model.run import Claim
from rota.runtime.claiming.claim_commit import ClaimCommit

# What runs in a slot: a claim, the slot's task, and what to wait for before the body starts; None
# where the claim is committed.
Body = Callable[[Claim, "asyncio.Task[None]", Awaitable[None] | None], Awaitable[None]]

# A slot that never has to wait gives the loop a turn after this many runs.
_TURN = 50
_STOP_SECONDS = 5.0
_REOPEN_SECONDS = 0.1


class Slots:
    """Runs what is put into `ready`, up to `size` at once."""

    def __init__(self, size: int, run: Body) -> None:
        self.size = size
        self.ready: deque[Claim] = deque()
        # Of all that is in `ready`; None: it is committed.
        self._commit: ClaimCommit | None = None
        self._run = run
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[int, Claim] = {}
        self._last_start = time.monotonic()
        self._is_closing = False
        self._surplus = 0

    @property
    def idle(self) -> int:
        return self.size - len(self._running)

    @property
    def free(self) -> int:
        """For how many more there would be a slot at once."""
        return self.idle - len(self.ready)

    @property
    def has_room(self) -> bool:
        return self.free > 0

    def held_ids(self) -> set[int]:
        return set(self._running) | {claim.id for claim in self.ready}

    def is_stalled(self, seconds: float) -> bool:
        """Runs wait here although nothing has started for a while."""
        return bool(self.ready) and time.monotonic() - self._last_start > seconds

    def add(self, claims: Iterable[Claim], commit: ClaimCommit | None = None) -> None:
        """With a commit that is still to come only where nothing else waits here: one claim is
        under way at a time."""
        self._commit = commit
        self.ready.extend(claims)
        self._call_one()

    def start(self) -> None:
        for _ in range(self.size):
            self._open_slot()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Another slot for as long as the caller, who has one, needs none of those that were
        asked for."""
        self.size += 1
        self._open_slot()
        try:
            yield
        finally:
            self.size -= 1
            self._surplus += 1

    def run_beside(self, claim: Claim) -> asyncio.Task[None]:
        """In a slot of its own, which is there for this run only."""
        self.size += 1
        self._running[claim.id] = claim
        return self._open(self._run_one(claim))

    async def _run_one(self, claim: Claim) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._run(claim, task, None)
        finally:
            del self._running[claim.id]
            self.size -= 1

    async def stop(self) -> None:
        self._is_closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            # A body that ignores its cancellation is left behind.
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        self._tasks.clear()

    async def drained(self) -> None:
        """Until nothing runs. Looks now and then: no body pays for telling us."""
        while self._running:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def _reopen(self) -> None:
        if not self._is_closing:
            self._open_slot()

    def _open_slot(self) -> None:
        _ = self._open(self._slot())

    def _open(self, body: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # An empty context: what the caller of start() has set is not the handlers' business.
        task = contextvars.Context().run(asyncio.ensure_future, body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _call_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _slot(self) -> None:
        loop = asyncio.get_running_loop()
        # By short names: every run of the hot path comes by here.
        copy_context, monotonic, run = contextvars.copy_context, time.monotonic, self._run
        ready, running = self.ready, self._running
        clean = copy_context()
        task = asyncio.current_task()
        assert task is not None
        turn = 0
        while True:
            try:
                claim = ready.popleft()
            except IndexError:
                waiter = loop.create_future()
                self._waiters.append(waiter)
                await waiter
                continue
            commit = self._commit
            if commit is not None and commit.is_committed:
                commit = self._commit = None
            if ready and self._waiters:
                self._call_one()
            running[claim.id] = claim
            self._last_start = monotonic()
            try:
                await run(claim, task, commit)
            finally:
                del running[claim.id]
            if self._is_closing:
                return
            if task.cancelling():
                # Not by Rota: the program's loop is closing and waits for this task to end. Or the
                # body has cancelled itself, and the next run needs a slot.
                loop.call_later(_REOPEN_SECONDS, self._reopen)
                return
            if self._surplus:
                self._surplus -= 1
                return
            if copy_context() != clean:
                self._open_slot()
                return
            turn += 1
            if turn >= _TURN:
                turn = 0
                await asyncio.sleep(0)


def take_all(claims: deque[Claim]) -> list[Claim]:
    """Empties it. popleft is atomic, so that a claim is either started or taken here, also when
    the heartbeat's thread does this because the loop stands still."""
    taken = []
    while claims:
        try:
            taken.append(claims.popleft())
        except IndexError:
            break
    return taken
