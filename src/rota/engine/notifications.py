"""Reacts to the calls that a worker receives, and to changes of whether it receives calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from rota.engine.loops.retention import served
from rota.engine.registration import Registration
from rota.engine.worker_context import WorkerContext
from rota.postgres.runs.claimed import cancel_requests

# Calls of each of these kinds act at most this often; calls in between act once, afterwards.
_GAP_SECONDS = 0.02
_BOUNDED = frozenset(
    (
        "worker",
        "suspects",
        "cancel",
        "jobs",
        "due",
        "schedules",
        "bulk",
        "tenants",
        "limits",
        "upkeep",
    )
)


class Notifications:
    def __init__(self, parts: WorkerContext, registration: Registration) -> None:
        self._parts = parts
        self._registration = registration
        self._has_listened = False
        self._acted_at: dict[str, float] = {}
        self._later: set[str] = set()

    def called(self, words: str, _channel: str) -> None:
        identity = self._registration.identity
        if identity is None:
            return
        kind, _, what = words.partition(" ")
        if kind == "queue":
            # The claim loop limits these calls itself: if it is called too often, it polls.
            queues = served(self._parts.config.worker.queues)
            if not queues or what in queues:
                identity.claim_loop.called(what)
        elif kind == "watch":
            identity.claim_loop.watch(what)
        elif kind == "passed":
            identity.claim_loop.passed_over()
        elif kind in _BOUNDED and (not what or what == str(identity.worker)):
            self._act_soon(kind)

    def _act_soon(self, kind: str) -> None:
        """Act at once, or a moment after the last time, so that calls without end cost a bounded
        number of statements."""
        loop = asyncio.get_running_loop()
        free_at = self._acted_at.get(kind, 0.0) + _GAP_SECONDS
        if kind in self._later:
            return
        if loop.time() >= free_at:
            self._act(kind)
        else:
            self._later.add(kind)
            loop.call_at(free_at, self._act, kind)

    def _act(self, kind: str) -> None:
        self._later.discard(kind)
        self._acted_at[kind] = asyncio.get_running_loop().time()
        identity, background = self._registration.identity, self._parts.background
        if identity is None:
            return
        if kind == "worker":
            background.drain.wake()
        elif kind == "suspects":
            identity.isolation.wake()
        elif kind == "cancel":
            self.spawn(self.check_cancels())
        elif kind == "jobs":
            background.sql_jobs.wake()
            self._parts.definitions.wake()
        else:
            background.shared_loops.called(kind)

    def listening_changed(self, is_listening: bool) -> None:
        if self._registration.identity is not None:
            self._registration.identity.claim_loop.set_listening(is_listening)
            self._parts.background.sql_jobs.wake()
        if is_listening:
            # Runs start before the worker listens, and may have been cancelled by then.
            self.spawn(self.check_cancels())
        if is_listening and self._has_listened:
            self.look_again()
        self._has_listened = self._has_listened or is_listening

    def look_now(self) -> None:
        """Poll everything now."""
        if self._registration.identity is not None:
            self._registration.identity.claim_loop.poll_now()
            self.look_again()

    def look_again(self) -> None:
        """Poll what calls announce, because calls may have been missed while the worker did not
        listen."""
        self._parts.look_again()
        if self._registration.identity is not None:
            self._registration.identity.isolation.wake()

    async def check_cancels(self) -> None:
        identity = self._registration.identity
        if identity is None or not identity.runner.running:
            return
        for request in await self._parts.database.fetch(cancel_requests(identity.worker)):
            identity.runner.cancel(*request)

    def spawn(self, step: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(step)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
