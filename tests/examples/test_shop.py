"""The demo shop: a good day from the first order to the report, and each kind of bad luck."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually, run_due

SHOP = Path(__file__).parents[2] / "examples" / "shop"


class Luck(random.Random):
    """Chance as a test wants it; choices stay random."""

    def __init__(self, value: float) -> None:
        super().__init__(1)
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.fixture
async def shop(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The module of the shop, on the test's database, with its tables and good luck."""
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
    monkeypatch.setenv("ROTA_WORKER_POLL_SECONDS", "0.1")
    spec = spec_from_file_location("rota_example_shop", SHOP / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "random", Luck(0.9))
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.01)
    with psycopg.connect(database_url) as conn:
        conn.execute((SHOP / "schema.sql").read_text())
    yield module
    await module.app.close()


async def test_a_day_in_the_shop(shop: Any, conn: psycopg.Connection[Any]) -> None:
    day = await shop.open_shop.options(key="shop").enqueue(rounds=2, orders=5, pause=0)

    async def report_is_written() -> None:
        query = "SELECT state FROM rota.runs WHERE job = 'nightly_report'"
        assert conn.execute(query).fetchall() == [("succeeded",)]

    async with shop.app.worker():
        assert await day.wait(timeout=60) == 10
        await eventually(report_is_written, 60)

        async def all_is_done() -> None:
            query = "SELECT job, count(*) FROM rota.runs WHERE state = 'succeeded' GROUP BY job"
            done = Counter(dict(conn.execute(query).fetchall()))
            assert done["take_order"] == done["charge"] == done["pack_parcel"] == 10
            assert done["send_mail"] == 10 + len(shop.CUSTOMERS)
            assert done["close_shop"] == 1

        await eventually(all_is_done, 60)
    states = conn.execute("SELECT state, count(*) FROM shop.orders GROUP BY state").fetchall()
    assert states == [("packed", 10)]
    tomorrow = "SELECT key, state FROM rota.runs WHERE job = 'open_shop' AND state = 'scheduled'"
    assert conn.execute(tomorrow).fetchall() == [("shop", "scheduled")]


async def test_pictures_are_resized_in_a_process(shop: Any) -> None:
    async with shop.app.worker():
        run = await shop.resize_picture.enqueue(order_id=1, width=10)
        assert (await run.wait(timeout=60))["bytes"] > 0


async def test_an_empty_shelf_snoozes_and_calls_the_supplier_once(
    shop: Any, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("UPDATE shop.stock SET pieces = 0")
    # Of two branches: each has one packing table.
    for order, branch in ((1, "north"), (2, "south")):
        await shop.pack_parcel.options(tenant=branch).enqueue(order, "Ada", "lamp")
    await run_due(shop.app)
    snoozed = "SELECT count(DISTINCT run_id) FROM rota.attempts WHERE state = 'snoozed'"
    assert conn.execute(snoozed).fetchone() == (2,)
    query = "SELECT pieces FROM shop.stock WHERE product = 'lamp'"
    (pieces,) = conn.execute(query).fetchone() or (0,)
    assert pieces in (20, 40)  # the second finds the first call waiting, or already done


@pytest.mark.parametrize(
    ("job", "luck", "state", "end_reason"),
    [
        ("charge", 0.01, "cancelled", "cancelled by its handler: the card was refused"),
        ("charge", 0.05, "scheduled", None),
        ("call_supplier", 0.30, "scheduled", None),
        ("call_supplier", 0.52, "failed", "gave up on rota_example_shop.UnknownArticle"),
    ],
)
async def test_bad_luck(
    shop: Any, job: str, luck: float, state: str, end_reason: str | None
) -> None:
    shop.random.value = luck
    arguments = {"charge": (1, "Ada", "mug"), "call_supplier": ("mug", 20)}
    run: rota.Run = await getattr(shop, job).enqueue(*arguments[job])
    await run_due(shop.app)
    info = await run.info()
    assert (info.state, info.end_reason) == (state, end_reason)
