"""What a plan may say beside its statements."""

from __future__ import annotations

import pytest

import rota
from rota.postgres.plans import Execute, Plan, Rows


async def test_work_is_done_while_the_server_works(app: rota.App) -> None:
    order = []

    def plan() -> Plan[Rows]:
        rows = yield Execute("stats/clock", {"job": None}, meanwhile=lambda: order.append("worked"))
        order.append("answered")
        return rows

    (row,) = await app.database.run(plan())
    assert row["is_job"] is False
    assert order == ["worked", "answered"]


async def test_work_that_fails_leaves_the_connection_usable(app: rota.App) -> None:
    def fail() -> None:
        raise ValueError("of the work")

    def plan() -> Plan[Rows]:
        return (yield Execute("stats/clock", {"job": None}, meanwhile=fail))

    for _ in range(2):
        with pytest.raises(ValueError, match="of the work"):
            await app.database.run(plan())
    assert (await app.stats.get()).total.attempts == 0


async def test_a_large_answer_has_the_same_values(app: rota.App) -> None:
    def plan(is_large: bool) -> Plan[Rows]:
        return (yield Execute("stats/clock", {"job": None}, is_large=is_large))

    (text,), (binary,) = [await app.database.run(plan(is_binary)) for is_binary in (False, True)]
    assert text.keys() == binary.keys()
    assert {name: type(it) for name, it in text.items()} == {
        name: type(it) for name, it in binary.items()
    }
