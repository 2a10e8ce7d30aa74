"""Registers the worker, and registers it again after its lease was lost or given up.

An identity is one row of rota.workers. A worker that has lost its lease drops its runs and
registers under a new identity; everything that belongs to the old one is discarded.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from rota.engine.identity import Identity
from rota.engine.loops.retention import served
from rota.engine.tasks import end_task
from rota.engine.worker_context import WorkerContext
from rota.model.formatting import some_of
from rota.postgres.sessions.places import place_of
from rota.postgres.workers import leases, life
from rota.telemetry.logger import get_logger

_DECLARE_SECONDS = 5.0


class Registration:
    """`identity` is None before the first registration, between two, and while the worker
    sleeps."""

    def __init__(self, parts: WorkerContext) -> None:
        self._parts = parts
        self._log = get_logger("worker")
        self._renewal: asyncio.Task[None] | None = None
        self.identity: Identity | None = None

    @property
    def is_renewing(self) -> bool:
        return self._renewal is not None

    async def take(self) -> None:
        """Register, and work under the new worker id."""
        parts = self._parts
        background, definitions = parts.background, parts.definitions
        await background.sql_jobs.refresh()
        version, jobs = parts.registry.version, self._known_jobs()
        worker = await self._register(jobs)
        await definitions.announce(worker, version)
        identity = self._make(worker, jobs)
        definitions.current |= {
            job.name: job for job in parts.built_in.definitions(identity.slots.beside)
        }
        identity.runner.use(definitions.current)
        await identity.feed.open()
        background.serve(worker, identity.claim_loop.has_backlog)
        await background.drain.serve(worker)
        identity.set_draining(background.drain.order.is_draining)
        self.identity = identity
        identity.start()
        identity.claim_loop.set_listening(parts.listener.is_listening)
        background.shared_loops.ask("upkeep")
        if version != parts.registry.version:
            definitions.wake()
        config = parts.config.worker
        self._log.info(
            "worker started",
            worker=worker,
            database=place_of(parts.database.url),
            concurrency=config.concurrency,
            queues=",".join(config.queues) or "all",
            jobs=some_of(parts.registry.names()),
        )

    async def take_again(self) -> None:
        """Register again, however long the database is unavailable."""
        while self._parts.is_running:
            try:
                await self.take()
                break
            except Exception as error:
                if not self._parts.database.outage.note(error):
                    self._log.warning("could not register again, retrying", error=error)
                await asyncio.sleep(1)

    def _make(self, worker: int, jobs: list[str]) -> Identity:
        parts = self._parts
        return Identity(
            worker,
            config=parts.config,
            database=parts.database,
            registry=parts.registry,
            jobs=jobs,
            background=parts.background,
            threads=parts.threads,
            app_ref=parts.app_ref,
            owns_process=parts.owns_process,
            parent=parts.parent,
            health=parts.health,
            channel=parts.listener.channel,
            pace=parts.pace,
            on_lost=self.lost,
            on_weak=self.weak,
            state=parts.lifespans.state,
        )

    async def _register(self, jobs: list[str]) -> int:
        config, database = self._parts.config.worker, self._parts.database
        query = life.register_worker(
            name=f"{socket.gethostname()}:{os.getpid()}",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._parts.version,
            queues=served(config.queues),
            jobs=jobs,
            concurrency=config.concurrency,
            lease_seconds=config.lease_seconds,
            intakes=self._intakes(jobs),
        )
        async with database.connection() as conn:
            worker = await database.fetch_on(conn, query)
            if not database.has_sessions:
                await database.fetch_on(conn, life.say_polling(worker))
        return worker

    def lost(self, identity: Identity) -> None:
        """The lease is lost, and the runs of this worker belong to others: register again."""
        is_present = identity is self.identity
        if is_present and self._renewal is None and self._parts.is_running:
            self._renewal = asyncio.create_task(self._renew(), name="rota renewal")

    def give_up(self) -> None:
        """Register again, because the worker is unhealthy."""
        self._renewal = asyncio.create_task(self._renew(is_lost=False), name="rota renewal")

    def weak(self, identity: Identity, is_weak: bool) -> None:
        """Claim nothing while the lease may expire. A worker that shuts down claims nothing anyway,
        and the lease of a former identity does not matter."""
        if self._parts.is_running and identity is self.identity:
            identity.set_weak(is_weak)

    async def leave_held_row(self, identity: Identity) -> None:
        """Register again if the lease expires because another open transaction holds the worker's
        row. No worker can rescue runs from it, and there are none: the worker need not wait for the
        transaction."""
        query = leases.holder(identity.worker)
        holder = await self._parts.database.fetch(query, is_hurried=False)
        is_present = identity is self.identity and self._renewal is None
        is_waiting = identity.is_weak and identity.holds_nothing
        if self._parts.is_running and holder is not None and is_present and is_waiting:
            text = "the worker's row is still locked: registering under a new id"
            self._log.warning(text, worker=identity.worker)
            self.lost(identity)

    async def stop_renewing(self) -> None:
        """Cancel a renewal, which may wait for a database that does not respond."""
        await end_task(self._renewal)

    async def _renew(self, *, is_lost: bool = True) -> None:
        old, self.identity = self.identity, None
        if old is not None:
            await old.drop()
        if old is not None and not is_lost:
            await self._declare_lost(old.worker)
        await self.take_again()
        self._renewal = None

    async def _declare_lost(self, worker: int) -> None:
        """Mark the worker as lost at once, so that other workers need not wait for the lease to
        expire."""
        with suppress(psycopg.Error, OSError, TimeoutError):
            async with asyncio.timeout(_DECLARE_SECONDS):
                await self._parts.database.fetch(leases.declare_lost(worker))

    # Known jobs.

    def _known_jobs(self) -> list[str]:
        """The jobs of the code, the SQL jobs of the database, and Rota's own."""
        parts = self._parts
        own = parts.built_in.names
        return sorted({*parts.registry.all_names(), *parts.background.sql_jobs.names, *own})

    def _intakes(self, jobs: Sequence[str]) -> list[int]:
        """The intake of each job: which payloads the code accepts; 0 for jobs that are not the
        application's code."""
        found = [self._parts.registry.find(job) for job in jobs]
        return [0 if definition is None else definition.intake for definition in found]

    async def jobs_changed(self) -> bool:
        """Store the known jobs again; return whether they were stored."""
        if self.identity is None:
            return False
        jobs = self._known_jobs()
        is_said = await self.identity.know(jobs, self._intakes(jobs))
        self._parts.background.shared_loops.ask("upkeep")
        return is_said
