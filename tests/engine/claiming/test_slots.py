"""Slots: what runs in them, after what, and what is left of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar

import pytest

from rota.engine.claiming import slots as module
from rota.engine.claiming.slots import ClaimCommit, Slots, take_all
from rota.errors import LeaseLost
from rota.model.run import Claim
from tests.engine.claiming.claims import make_claim

pytestmark = pytest.mark.both_loops
Commit = Awaitable[None] | None
mark: ContextVar[int] = ContextVar("mark", default=0)


class Body:
    """Waits at a gate, if it is told to, and notes what it saw."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun: list[int] = []
        self.done: list[int] = []
        self.commits: list[Commit] = []
        self.marks: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.news = asyncio.Condition()
        self.do: Callable[[Claim], None] = lambda _: None

    async def __call__(self, claim: Claim, task: asyncio.Task[None], commit: Commit) -> None:
        self.begun.append(claim.id)
        self.commits.append(commit)
        self.marks.append(mark.get())
        self.tasks.append(task)
        await self._tell()
        try:
            self.do(claim)
            await self.gate.wait()
        except asyncio.CancelledError:
            return
        self.done.append(claim.id)
        await self._tell()

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def until_done(self, count: int) -> None:
        await self.until(lambda: len(self.done) == count)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with self.news:
            await asyncio.wait_for(self.news.wait_for(is_so), 20)


@pytest.fixture
async def body() -> Body:
    return Body()


@pytest.fixture
async def slots(body: Body) -> AsyncIterator[Slots]:
    slots = Slots(2, body)
    slots.start()
    yield slots
    await slots.stop()


def runs(*ids: int) -> list[Claim]:
    return [make_claim(run_id) for run_id in ids]


async def test_as_many_run_at_once_as_there_are_slots(slots: Slots, body: Body) -> None:
    body.gate.clear()
    slots.add(runs(1, 2, 3))
    await body.until(lambda: len(body.begun) == 2)
    assert (body.begun, slots.idle, slots.free, slots.has_room) == ([1, 2], 0, -1, False)
    assert slots.held_ids() == {1, 2, 3}
    body.gate.set()
    await body.until_done(3)
    await slots.drained()
    assert (slots.free, slots.held_ids()) == (2, set())


async def test_what_is_committed_comes_without_a_commit(slots: Slots, body: Body) -> None:
    slots.add(runs(1, 2))
    await body.until_done(2)
    assert body.commits == [None, None]


async def test_runs_come_with_the_commit_that_they_have_to_wait_for(
    slots: Slots, body: Body
) -> None:
    commit = ClaimCommit(_refuse)
    body.gate.clear()
    slots.add(runs(1, 2, 3), commit)
    await body.until(lambda: len(body.begun) == 2)
    commit.committed()
    body.gate.set()
    await body.until_done(3)
    assert body.commits == [commit, commit, None], "the third began after it"
    slots.add(runs(4))
    await body.until_done(4)
    assert body.commits[-1] is None


async def test_a_run_beside_them_waits_for_nobodys_commit(slots: Slots, body: Body) -> None:
    body.gate.clear()
    slots.add(runs(1), ClaimCommit(_refuse))
    await body.until(lambda: body.begun == [1])
    task = slots.run_beside(make_claim(2))
    await body.until(lambda: len(body.begun) == 2)
    assert (body.commits[1], slots.size, slots.idle) == (None, 3, 1)
    body.gate.set()
    await task
    assert slots.size == 2


async def test_another_slot_for_a_while(slots: Slots, body: Body) -> None:
    body.gate.clear()
    with slots.beside():
        slots.add(runs(1, 2, 3))
        await body.until(lambda: len(body.begun) == 3)
    body.gate.set()
    await body.until_done(3)
    body.gate.clear()
    slots.add(runs(4, 5, 6))
    await body.until(lambda: len(body.begun) == 5)
    await asyncio.sleep(0)
    assert (slots.size, len(body.begun)) == (2, 5)


async def test_what_a_body_sets_is_not_there_for_the_next(slots: Slots, body: Body) -> None:
    def set_mark(claim: Claim) -> None:
        mark.set(claim.id)

    body.do = set_mark
    for run_id in range(1, 7):
        slots.add(runs(run_id))
        await body.until_done(run_id)
    assert body.marks == [0] * 6


async def test_a_body_that_was_cancelled_by_others_leaves_a_slot_for_the_next(
    slots: Slots, body: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REOPEN_SECONDS", 0.0)
    body.gate.clear()
    slots.add(runs(1, 2))
    await body.until(lambda: len(body.begun) == 2)
    for task in body.tasks:
        task.cancel()
    body.gate.set()
    slots.add(runs(3, 4))
    await body.until(lambda: sorted(body.done) == [3, 4])


async def test_slots_stall_when_nothing_starts(slots: Slots, body: Body) -> None:
    assert not slots.is_stalled(-1)
    body.gate.clear()
    slots.add(runs(1, 2, 3))
    await body.until(lambda: len(body.begun) == 2)
    assert slots.is_stalled(-1)
    assert not slots.is_stalled(3600)


def test_taking_all_empties_it() -> None:
    claims = deque(runs(1, 2))
    assert [claim.id for claim in take_all(claims)] == [1, 2]
    assert not claims


# The commit.


def _refuse(claims: Sequence[Claim], commit: ClaimCommit) -> bool:
    return False


async def _await(commit: ClaimCommit) -> str:
    await commit
    return "committed"


async def test_one_that_is_cancelled_leaves_the_others_waiting() -> None:
    commit = ClaimCommit(_refuse)
    first, second = (asyncio.create_task(_await(commit)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    commit.committed()
    assert await second == "committed"


async def test_a_commit_that_is_over_is_not_waited_for() -> None:
    commit = ClaimCommit(_refuse)
    commit.committed()
    assert await _await(commit) == "committed"


async def test_who_waits_for_a_claim_that_broke_off_is_told() -> None:
    commit = ClaimCommit(_refuse)
    waiting = asyncio.create_task(_await(commit))
    await asyncio.sleep(0)
    commit.broke_off()
    for task in (waiting, _await(commit)):
        with pytest.raises(LeaseLost):
            await task
