"""Idle means quiet: what a worker asks while it hears calls and has nothing to do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import rota
from rota.engine import identity, pace
from rota.engine.attempts import isolation
from rota.engine.background import Background
from rota.engine.claiming import plan
from rota.engine.claiming.calls import Calls
from rota.engine.claiming.state import seconds_to_rest
from rota.engine.lease.health import Health
from rota.engine.loop import Loop
from rota.engine.loops import upkeep
from rota.engine.loops.definitions import Definitions
from rota.engine.metrics import rollups
from rota.engine.pace import Pace
from rota.postgres.queries import Query
from rota.postgres.statements import Statements
from rota.postgres.workers.orders import Order
from tests.conftest import MakeApp
from tests.engine.claiming.states import idle, perform
from tests.sql_engine import Engine

LEASE = 30.0


def resting() -> Pace:
    return Pace(1.0, lambda: True)


async def make_background(app: rota.App) -> Background:
    await app.database.open()

    async def nothing() -> None: ...

    async def obey(order: Order) -> None: ...

    return Background(
        config=app.config,
        database=app.database,
        on_sql_jobs=nothing,
        on_order=obey,
        health=Health(app.database.outage, patience=60),
        pace=resting(),
    )


async def test_an_idle_worker_asks_once_a_second(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every loop has a turn at rest: its statements by the seconds until the next one."""
    asked: list[str] = []
    get = Statements.get
    app = make_app(**{"worker.poll_seconds": 1.0, "worker.lease_seconds": LEASE})
    background = await make_background(app)
    definitions = Definitions(app.database, app.config, app.registry, lambda: None)  # type: ignore[arg-type,return-value]
    definitions.pace = resting()
    logs = background.logs  # asks nothing while there is no line
    loops: list[Loop] = [definitions, *(loop for loop in background._all if loop is not logs)]

    def note(self: Statements, name: str) -> str:
        asked.append(name)
        return get(self, name)

    monkeypatch.setattr(Statements, "get", note)
    # On average: jitter makes some turns a tenth longer and others a tenth shorter.
    monkeypatch.setattr(pace.random, "uniform", lambda low, high: (low + high) / 2)
    # Beats; looks for work and for queues; what listeners ask themselves; suspects.
    rates = {
        "lease": 3 / LEASE,
        "looks": 1 / identity._LOOK_SECONDS,
        "queues": 1 / plan._RESTING_SECONDS,
        "listener": 1 / 30,
        "isolation": 1 / isolation._RESTING_SECONDS,
    }
    for loop in loops:
        await loop.run_once()
        whole = len(asked)
        asked.clear()
        seconds = await loop.run_once()
        # What it holds the due schedules with was made ready before.
        own = len(asked) + (loop is background.scheduler)
        rates[loop.name] = own / seconds if own else 0.0
        if loop is background.upkeep:
            rates["all of upkeep"] = whole / upkeep._ALL_SECONDS
        asked.clear()
    rates["ticks"] = 1 / rollups._TICKS_SECONDS
    assert sum(rates.values()) < 1.0, rates


async def test_upkeep_does_all_of_it_while_something_is_open(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = await make_background(make_app())
    engine.job("work")
    for _ in range(2):
        await background.upkeep.run_once()
    done: list[str] = []
    monkeypatch.setattr(background.upkeep, "_park", partial(_note, done))
    await background.upkeep.run_once()
    assert done == []
    run = engine.enqueue("work")
    await background.upkeep.run_once()
    assert len(done) == 1
    engine.one("SELECT rota.cancel_run(%s)", run)
    for _ in range(3):  # once more, and no more
        await background.upkeep.run_once()
    assert len(done) == 2


async def _note(done: list[str]) -> None:
    done.append("parked")


def test_whoever_does_not_rest_keeps_its_pace() -> None:
    assert Pace(1.0, lambda: False).seconds(5.0, 30.0) == 5.0
    assert 27.0 <= resting().seconds(5.0, 30.0) <= 33.0
    assert Pace(0.1, lambda: True).seconds(5.0, 30.0) == 5.0
    assert Pace(60.0, lambda: True).seconds(60.0, 10.0) == 60.0


async def test_a_worker_that_rests_looks_less_often() -> None:
    async def fetch(query: Query[Any]) -> Any:
        return query.read([(1,)])

    calls = Calls(poll_seconds=1.0, resting_seconds=5.0, worker=1, fetch=fetch)
    calls.claim_sent()
    calls.claim_received(0)
    assert seconds_to_rest(idle(calls)) <= 1.0
    calls.set_listening(True)
    await perform(calls)
    await perform(calls)
    calls.claim_sent()
    calls.claim_received(0)
    assert calls.state().is_quiet
    assert seconds_to_rest(idle(calls)) > 4.0
