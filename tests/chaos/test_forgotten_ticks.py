"""The server crashes right after a tick, whose commit does not wait for the disk."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

import rota
from rota.embedded import EmbeddedPostgres
from rota.testing import eventually_sync
from tests.conftest import load_config
from tests.database import tcp_url
from tests.embedded.places import is_alive, server_pid
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

pytestmark = pytest.mark.chaos

NAMES = ["a", "b", "c"]


@asynccontextmanager
async def ticking(server: EmbeddedPostgres) -> AsyncIterator[Schedules]:
    app = rota.App(config=load_config(tcp_url(server), {}))
    await app.database.open()
    with psycopg.connect(server.superuser_url, autocommit=True) as conn:
        yield Schedules(Engine(conn), app.database)
    await app.close()


class Disk:
    """Hears only of what somebody waits for: the process that writes the rest is frozen."""

    def __init__(self, server: EmbeddedPostgres, engine: Engine) -> None:
        self._server = server
        # It would commit, and wait for it, whenever it likes.
        engine.conn.execute("ALTER SYSTEM SET autovacuum = off")
        engine.conn.execute("SELECT pg_reload_conf()")
        self._writer = engine.one(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        )
        os.kill(self._writer, signal.SIGSTOP)

    def crash(self) -> None:
        main = server_pid(self._server.home)
        os.kill(main, signal.SIGQUIT)
        os.kill(self._writer, signal.SIGKILL)
        eventually_sync(lambda: not is_alive(main), timeout=60)
        self._server.start()


async def test_a_forgotten_tick_was_claimed_by_nobody_and_is_taken_again(
    own_server: EmbeddedPostgres,
) -> None:
    async with ticking(own_server) as schedules:
        engine = schedules.engine
        engine.job("work")
        for name in NAMES:
            schedules.add(name, overlap="allow")
        worker = engine.worker("work")
        schedules.set_clock(START + timedelta(seconds=61))
        disk = Disk(own_server, engine)
        await schedules.tick()
        claimed = engine.claim_one(worker)["id"]  # from here on its body may run
        engine.conn.execute("SET synchronous_commit = off")
        await schedules.tick(seconds=121)
        assert decided(schedules) == {name: [60, 120] for name in NAMES}
        disk.crash()
    async with ticking(own_server) as schedules:
        # The claim waited for the disk, and so for the tick before it; nobody did for the second.
        assert decided(schedules) == {name: [60] for name in NAMES}
        assert one_run_each(schedules.engine)
        await schedules.tick(seconds=121)
        assert decided(schedules) == {name: [60, 120] for name in NAMES}
        assert one_run_each(schedules.engine)
        run = schedules.engine.run(claimed)
        assert (run["state"], run["worker"], run["attempt"]) == ("running", worker, 1)


def decided(schedules: Schedules) -> dict[str, list[float]]:
    return {name: schedules.times(name) for name in NAMES}


def one_run_each(engine: Engine) -> bool:
    """Every decision has its run, and there is no other."""
    pairs = "SELECT schedule, {}, {} FROM rota.{} ORDER BY 1, 2"
    noted = engine.rows(pairs.format("nominal_at AS at", "run_id AS id", "ledger"))
    return noted == engine.rows(pairs.format("scheduled_for AS at", "id", "open_runs"))
