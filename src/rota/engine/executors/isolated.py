"""The kind `isolated`: a handler, called in a child process of its own that ends with the call.

Jobs cannot choose it: Rota uses it for runs that were lost with their worker.
"""

from __future__ import annotations

from rota.engine.executors.base import (
    CalledAttempt,
    CallOutcome,
    Executor,
    ExecutorContext,
    Lost,
    NotBegun,
)
from rota.engine.executors.child_pool import ChildPool
from rota.engine.executors.process import LEAVE_SECONDS, child_call, outcome_of
from rota.engine.executors.remote import ChildDied
from rota.errors import RotaError


class IsolatedExecutor(Executor):
    def __init__(self, means: ExecutorContext) -> None:
        super().__init__(means)
        # Whether separate processes could be started so far.
        self.may_start = True

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        pool = ChildPool(size=1, app_ref=self._means.app_ref)
        try:
            try:
                await pool.prepare()
            except (OSError, RotaError) as error:
                self.may_start = False
                return NotBegun(f"a separate process could not be started: {error}")
            return outcome_of(await pool.call(child_call(attempt, self._means)))
        except ChildDied as error:
            # This run has killed the child: nothing else was executed in it.
            return Lost(error)
        finally:
            await pool.close(grace=LEAVE_SECONDS)
