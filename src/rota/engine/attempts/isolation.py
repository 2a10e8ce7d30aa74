"""Isolates suspects: runs whose worker was lost while they ran, so that another loss affects no
other run.

Each worker isolates one suspect at a time, beside its slots: in a separate process or, if the
handler cannot run in one, in the worker's own process, which only one worker of the fleet does at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from psycopg import errors

from rota.engine.attempts.runner import Runner
from rota.engine.claiming.loop import ClaimLoop
from rota.engine.claiming.slots import Slots
from rota.engine.executors.location import is_reachable
from rota.engine.loop import Loop
from rota.errors import LeaseLost
from rota.jobs.definition import JobDefinition
from rota.model.run import Claim
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.runs import claimed

_STOP_SECONDS = 2.0
# Suspects are announced by calls.
_RESTING_SECONDS = 60.0
# The end of the last suspect is being written: until it is stored, no other is given out.
_UNWRITTEN_SECONDS = 0.05
# Another open transaction holds this worker's row: no call announces its end.
_HELD_SECONDS = 1.0


class Isolation(Loop):
    """Claims suspects and executes them; belongs to one worker identity."""

    name = "isolation"

    def __init__(
        self,
        *,
        feed: Exchange,
        claim_loop: ClaimLoop,
        slots: Slots,
        runner: Runner,
        queues: Sequence[str],
        has_processes: bool,
        poll_seconds: float,
    ) -> None:
        super().__init__()
        self._feed = feed
        self._claim_loop = claim_loop
        self._slots = slots
        self._runner = runner
        self._queues = list(queues)
        self._has_processes = has_processes
        self._poll = poll_seconds
        self._current: asyncio.Task[None] | None = None
        self._begun: set[tuple[int, int]] = set()
        self._turn = asyncio.Lock()
        self._is_over = False

    async def run_once(self) -> float:
        async with self._turn:
            soon = await self._claim() if self._may_claim and self._current is None else None
        return self.pause(self._poll, _RESTING_SECONDS) if soon is None else soon

    async def stop(self) -> None:
        """Wait for a claim under way, whose run would otherwise not be started. A running attempt
        continues."""
        self._is_over = True
        try:
            async with asyncio.timeout(_STOP_SECONDS), self._turn:
                await super().stop()
        except TimeoutError:
            await super().stop()

    @property
    def _may_claim(self) -> bool:
        return self._claim_loop.is_claiming and not self._is_over

    async def _claim(self) -> float | None:
        """Return when to claim again, if no call will announce it."""
        has_processes = self._has_processes and self._runner.may_isolate
        inline = inline_jobs(self._runner.definitions, has_processes=has_processes)
        try:
            claims = await self._feed.claim_suspect(self._queues, inline)
        except LeaseLost:
            return None  # the claim loop notices too, and acts on it
        except errors.LockNotAvailable:
            return _HELD_SECONDS  # the lease logs it; other workers may take the suspect meanwhile
        is_unwritten = False
        for claim in claims:
            if (claim.id, claim.attempt) in self._begun:
                # It has ended here, but its end was not yet stored when the claim was executed over
                # another connection. By now it may be, and no call announces that.
                is_unwritten = True
                continue
            if self._may_claim:
                self._begin(claim, in_child=claim.job not in inline)
            else:
                back = claimed.hand_back(self._feed.worker, [(claim.id, claim.attempt)])
                await self._feed.fetch(back)
        return _UNWRITTEN_SECONDS if is_unwritten else None

    def _begin(self, claim: Claim, *, in_child: bool) -> None:
        self._log.warning(
            "isolating a run that was lost with its worker",
            run=claim.id,
            job=claim.job,
            attempt=claim.attempt,
            own_process=in_child,
        )
        self._begun.add((claim.id, claim.attempt))
        if in_child:
            self._runner.apart.add(claim.id)
        self._current = self._slots.run_beside(claim)
        self._current.add_done_callback(lambda _: self._ended(claim))

    def _ended(self, claim: Claim) -> None:
        self._current = None
        self._runner.apart.discard(claim.id)
        self.wake()


def inline_jobs(definitions: Mapping[str, JobDefinition], *, has_processes: bool) -> list[str]:
    """The jobs that can be executed only in the worker's own process."""
    return [
        name
        for name, definition in definitions.items()
        if definition.executor != "process"
        and not (has_processes and is_reachable(definition.function))
    ]
