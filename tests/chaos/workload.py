"""Programs that enqueue, and know which of their transactions have committed."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import uvloop

import rota
from rota.testing import eventually_sync
from tests.apps.fleet import Release, declare
from tests.conftest import load_config

JOBS = (
    *["pay"] * 8, "pay_slowly", "pay_after_failing", *["pay_in_thread"] * 2,
    *["pay_in_sql"] * 2, "pay_in_cash", "pay_by_card", "pay_as_agreed", "pay_in_full",
    "pay_by_cheque",
)  # fmt: skip
# Half a dozen runs a second, and the schedules': this is about faults, not about speed.
PAUSE_SECONDS = 1.0
HUNG_SECONDS = 60.0


class Accounts:
    """What was promised. A transaction whose commit nobody answered is in neither."""

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}
        self.rolled_back: list[str] = []
        self.problems: list[str] = []
        self.is_over = threading.Event()


class SqlProgram(threading.Thread):
    """Small transactions on plain connections; every fourth is rolled back."""

    def __init__(self, url: str, accounts: Accounts, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._url, self._accounts, self._chance = url, accounts, chance

    def run(self) -> None:
        while not self._accounts.is_over.wait(0.05):
            with suppress(psycopg.Error), psycopg.connect(self._url, connect_timeout=5) as conn:
                while not self._accounts.is_over.wait(PAUSE_SECONDS):
                    self._transact(conn)

    def _transact(self, conn: psycopg.Connection[Any]) -> None:
        made = {}
        with suppress(_Regret), conn.transaction():
            for _ in range(self._chance.randint(1, 3)):
                token = str(uuid.uuid4())
                made[token] = self._enqueue(conn, token)
            if self._chance.random() < 0.25:
                # Whatever happens from here on, it was not committed.
                self._accounts.rolled_back += made
                made = {}
                raise _Regret
        self._accounts.committed |= made

    def _enqueue(self, conn: psycopg.Connection[Any], token: str) -> int:
        delay = self._chance.choice([None, None, None, 0.5])
        row = conn.execute(
            "SELECT rota.enqueue(%s, %s, delay => %s * interval '1 s')",
            [self._chance.choice(JOBS), json.dumps({"token": token}), delay],
        ).fetchone()
        assert row is not None
        return int(row[0])


class _Regret(Exception):
    pass


class AppProgram(threading.Thread):
    """`await job.enqueue()` in a program of its own, on one of the loops."""

    def __init__(
        self,
        url: str,
        accounts: Accounts,
        loop: Callable[[], Any],
        only: str,
        release: Release,
    ) -> None:
        super().__init__(daemon=True)
        self._url, self._accounts, self._factory = url, accounts, loop
        self._only, self._release = only, release
        self.made = 0

    def run(self) -> None:
        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.run(self._body())

    async def _body(self) -> None:
        app = rota.App(config=load_config(self._url, {}), name="shop")
        jobs = declare(app, self._only, self._release)
        while not self._accounts.is_over.is_set():
            for job, terms in jobs:
                await self._enqueue(job, **terms)
            await asyncio.sleep(PAUSE_SECONDS)
        with suppress(TimeoutError):
            await asyncio.wait_for(app.close(), 10)

    async def _enqueue(self, job: Any, **terms: str) -> None:
        token = str(uuid.uuid4())
        try:
            run = await asyncio.wait_for(job.enqueue(token=token, **terms), HUNG_SECONDS)
            self._accounts.committed[token] = run.id
            self.made += 1
        except TimeoutError:
            self._accounts.problems.append(f"an enqueue hung for {HUNG_SECONDS:g} s")
        except (rota.RotaError, psycopg.Error):
            await asyncio.sleep(0.1)


class Workload:
    def __init__(self, direct: str, behind: str, seed: int) -> None:
        self.accounts = Accounts()
        chance = random.Random(seed)
        self._fronts = [
            AppProgram(behind, self.accounts, uvloop.new_event_loop, "pay_in_cash", "old"),
            AppProgram(behind, self.accounts, asyncio.new_event_loop, "pay_by_card", "new"),
        ]
        self._programs: list[threading.Thread] = [
            SqlProgram(direct, self.accounts, chance),
            SqlProgram(behind, self.accounts, random.Random(seed + 1)),
            *self._fronts,
        ]

    def start(self) -> None:
        for program in self._programs:
            program.start()

    def goes_on(self, seconds: float) -> bool:
        """Each application can enqueue. Plain connections are their owner's own affair."""
        before = [front.made for front in self._fronts]
        try:
            eventually_sync(
                lambda: all(front.made > n for front, n in zip(self._fronts, before, strict=True)),
                seconds,
            )
        except AssertionError:
            return False
        return True

    def stop(self) -> None:
        self.accounts.is_over.set()
        for program in filter(threading.Thread.is_alive, self._programs):
            program.join(HUNG_SECONDS + 15)
            if program.is_alive():
                self.accounts.problems.append(f"a {type(program).__name__} does not end")
