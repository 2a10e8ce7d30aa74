"""The slots of a worker: a fixed number of coroutines that execute attempts one after another.

A slot is one long-lived asyncio task, and handlers run inside it, so that a run costs no task of
its own. `asyncio.timeout`, task groups and cancellation work in a handler as anywhere. If a handler
has changed context variables, its slot is replaced, so that nothing leaks into the next run.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rota.errors import LeaseLost
from rota.model.run import Claim

# What a slot calls for each run: with the run, the slot's task, and what to wait for before the
# handler starts; None if the claim is committed.
Body = Callable[[Claim, "asyncio.Task[None]", Awaitable[None] | None], Awaitable[None]]

# A slot that never has to wait yields to the event loop after this many runs.
_TURN = 50
_STOP_SECONDS = 5.0
_REOPEN_SECONDS = 0.1


class ClaimCommit:
    """The commit of a claim whose runs are already known; awaited by the slots.

    The flush of the commit is half of the latency of a single run. Meanwhile its attempt is
    prepared, but the handler starts after the commit: otherwise it could have run while a crash of
    the server forgets the claim. Awaiting raises LeaseLost if the claim was not confirmed. `add`
    gets the runs as soon as they are known, and returns whether it has taken them.
    """

    def __init__(self, add: Callable[[Sequence[Claim], ClaimCommit], bool]) -> None:
        self._add = add
        self._waiters: list[asyncio.Future[None]] = []
        self.is_committed = False
        self.is_broken_off = False
        self.has_added = False

    @property
    def is_over(self) -> bool:
        return self.is_committed or self.is_broken_off

    def rows(self, rows: Sequence[Claim]) -> None:
        self.has_added = self._add(rows, self)

    def committed(self) -> None:
        self.is_committed = True
        self._release_all()

    def broke_off(self) -> None:
        """Whether the claim was committed is unknown: the claim loop asks the database, and hands
        its runs back."""
        self.is_broken_off = True
        self._release_all()

    def _release_all(self) -> None:
        for waiter in self._waiters:
            self._release(waiter)

    def _release(self, waiter: asyncio.Future[None]) -> None:
        if waiter.done():
            return
        if self.is_committed:
            waiter.set_result(None)
        else:
            waiter.set_exception(LeaseLost("the claim was not confirmed"))

    def __await__(self) -> Generator[Any, None, None]:
        # Each run has a future of its own, so that cancelling one does not cancel the others.
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self.is_over:
            self._release(waiter)
        return waiter.__await__()


class Slots:
    """Executes the runs in `ready`, up to `size` at once."""

    def __init__(self, size: int, run: Body) -> None:
        self.size = size
        self.ready: deque[Claim] = deque()
        # The commit that all runs in `ready` wait for; None if they are committed.
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
        """Return how many more runs could start at once."""
        return self.idle - len(self.ready)

    @property
    def has_room(self) -> bool:
        return self.free > 0

    def held_ids(self) -> set[int]:
        return set(self._running) | {claim.id for claim in self.ready}

    def is_stalled(self, seconds: float) -> bool:
        """Return whether runs wait although none has started for so long."""
        return bool(self.ready) and time.monotonic() - self._last_start > seconds

    def add(self, claims: Iterable[Claim], commit: ClaimCommit | None = None) -> None:
        """`commit` is what these runs have to wait for. It may be given only while no other run is
        in `ready`; one claim is under way at a time."""
        self._commit = commit
        self.ready.extend(claims)
        self._wake_one()

    def start(self) -> None:
        for _ in range(self.size):
            self._open_slot()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Opens another slot for as long as the caller occupies one without doing the work of a
        run."""
        self.size += 1
        self._open_slot()
        try:
            yield
        finally:
            self.size -= 1
            self._surplus += 1

    def run_beside(self, claim: Claim) -> asyncio.Task[None]:
        """Executes the run in a slot that exists for this run only."""
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
            # A handler that ignores its cancellation is abandoned.
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        self._tasks.clear()

    async def drained(self) -> None:
        """Waits until nothing runs. Polls, so that handlers do not pay for a notification."""
        while self._running:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def _reopen(self) -> None:
        if not self._is_closing:
            self._open_slot()

    def _open_slot(self) -> None:
        _ = self._open(self._slot())

    def _open(self, body: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # An empty context, so that handlers do not see the context variables of start()'s caller.
        task = contextvars.Context().run(asyncio.ensure_future, body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _slot(self) -> None:
        loop = asyncio.get_running_loop()
        # Local names are faster, and every run passes here.
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
                self._wake_one()
            running[claim.id] = claim
            self._last_start = monotonic()
            try:
                await run(claim, task, commit)
            finally:
                del running[claim.id]
            if self._is_closing:
                return
            if task.cancelling():
                # Not by Rota: either the program's event loop is closing and waits for this task to
                # end, or the handler has cancelled itself and the next run needs a slot.
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
    """Removes and returns all. `popleft` is atomic, so that a run is either started or taken here,
    also if the heartbeat's thread takes it because the event loop is blocked."""
    taken = []
    while claims:
        try:
            taken.append(claims.popleft())
        except IndexError:
            break
    return taken
