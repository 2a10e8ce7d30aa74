"""One answer for all who ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from rota.api.shared import Shared
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
