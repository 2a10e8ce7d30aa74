"""One answer for all who ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from rota.api.shared import Shared, SharedBy
from rota.errors import DatabaseError


async def test_all_who_ask_at_once_get_one_answer_or_one_error() -> None:
    answers: asyncio.Queue[int | Exception] = asyncio.Queue()
    asked = []

    async def ask() -> int:
        asked.append(True)
        found = await answers.get()
        if isinstance(found, Exception):
            raise found
        return found

    shared: Shared[int] = Shared()
    for answer in (7, DatabaseError("away")):
        asked.clear()
        waiting = [asyncio.create_task(shared.get(ask)) for _ in range(10)]
        await asyncio.sleep(0)
        waiting.pop(0).cancel()
        await answers.put(answer)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert found == [answer] * 9
        assert len(asked) == 1


async def test_an_error_is_not_remembered() -> None:
    shared: Shared[int] = Shared(seconds=60)

    async def fail() -> int:
        raise DatabaseError("away")

    async def succeed() -> int:
        return 7

    with pytest.raises(DatabaseError):
        await shared.get(fail)
    assert await shared.get(succeed) == 7
    assert await shared.get(fail) == 7


async def test_an_older_answer_is_given_at_once_and_renewed_meanwhile() -> None:
    now, answers = [0.0], iter((1, 2, 3))
    shared: Shared[int] = Shared(seconds=3, now=lambda: now[0])
    may_answer, has_asked = asyncio.Event(), asyncio.Event()
    may_answer.set()

    async def ask() -> int:
        has_asked.set()
        await may_answer.wait()
        return next(answers)

    assert await shared.get(ask, older=9) == 1
    may_answer.clear()
    has_asked.clear()
    now[0] = 5
    assert await shared.get(ask, older=9) == 1
    await has_asked.wait()
    may_answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await shared.get(ask, older=9) == 2
    now[0] = 20
    assert await shared.get(ask, older=9) == 3, "too old: it is waited for"


async def test_questions_have_answers_of_their_own_and_old_ones_are_forgotten() -> None:
    asked: list[str] = []
    shared: SharedBy[str] = SharedBy(seconds=60, most=2)

    async def get(key: str) -> str:
        async def ask() -> str:
            asked.append(key)
            return key

        return await shared.get(key, ask)

    for key in "abaacab":
        assert await get(key) == key
    assert asked == ["a", "b", "c", "b"], "of three, the one that was asked longest ago is gone"


async def test_what_takes_long_is_asked_more_rarely() -> None:
    now, answers = [0.0], iter((1, 2, 3))
    shared: Shared[int] = Shared(seconds=3, now=lambda: now[0], slow=10)

    async def ask_for(seconds: float) -> int:
        now[0] += seconds
        return next(answers)

    assert await shared.get(lambda: ask_for(0.05)) == 1
    now[0] += 4.9
    assert await shared.get(lambda: ask_for(0.5)) == 1, "good for a hundred times as long"
    now[0] += 0.2
    assert await shared.get(lambda: ask_for(0.5)) == 2
    now[0] += 9.9
    assert await shared.get(lambda: ask_for(0)) == 2
    now[0] += 0.2
    assert await shared.get(lambda: ask_for(0)) == 3, "but not for longer than that"
