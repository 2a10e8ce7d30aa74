"""Rescues the runs of lost workers."""

from __future__ import annotations

import random
import time

from rota.engine.loop import Loop
from rota.postgres.runs.moves import rescue
from rota.postgres.sessions.pool import Database
from rota.postgres.workers import leases

_BATCH = 500
_NET_SECONDS = 60.0
_RESTING_SECONDS = 28.0


class Rescuer(Loop):
    """Any worker rescues for all. Several at once share the rows by SKIP LOCKED."""

    name = "rescuer"

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        super().__init__()
        self._database = database
        self._period = lease_seconds / 3
        self._next_net = time.monotonic() + _NET_SECONDS
        self._next_rescue = 0.0

    async def run_once(self) -> float:
        has_lost = await self._declare_lost()
        started = time.monotonic()
        is_net = started >= self._next_net
        # The worker that declares another one lost rescues its runs. Others do so too, in case that
        # worker is gone before it has: less often while they rest.
        if has_lost or is_net or started >= self._next_rescue:
            await self._rescue(everywhere=is_net)
            self._next_rescue = started + self.pause(0.0, _RESTING_SECONDS)
        if is_net:
            # The full search reads all ready runs: at most 2 % of the time.
            took = time.monotonic() - started
            self._next_net = started + max(_NET_SECONDS, 50 * took)
        # Jitter, so that workers started together do not query together.
        return self._period * random.uniform(0.8, 1.2)

    async def _declare_lost(self) -> bool:
        async with self._database.connection(is_hurried=False) as conn:
            lost = await self._database.fetch_on(conn, leases.mark_lost())
            for worker, name in lost:
                self._log.warning("worker lost its lease", worker=worker, name=name)
                # Its open transactions would block the attempts that follow.
                await self._database.fetch_on(conn, leases.end_backends(worker))
        return bool(lost)

    async def _rescue(self, *, everywhere: bool) -> None:
        query = rescue(_BATCH, everywhere=everywhere)
        while True:
            rescued = await self._database.fetch(query, is_hurried=False)
            for run in rescued:
                self._log.info("rescued", **run._asdict())
            self.goes_on()
            if len(rescued) < _BATCH:
                return
