"""Child processes that execute handlers: for code that holds the GIL, leaks, or may crash.

Children are started when needed, kept for the next attempt, and replaced when they die or are worn
out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from rota.engine.executors.child_handle import ChildAnswer, ChildHandle, OnLog, OnProgress
from rota.engine.executors.location import loading
from rota.engine.executors.remote import ChildDied, unpack
from rota.engine.executors.wire import Raise, Work
from rota.errors import RotaError

__all__ = ["FINISHED", "ChildCall", "ChildPool", "Finished", "Wear", "Work"]


# For a child that is worn out: its exit handlers may have something to write.
_LEAVE_SECONDS = 30.0


class Finished(Enum):
    """The attempt's own transaction has already written its completion."""

    FINISHED = "finished"


FINISHED: Final[Literal[Finished.FINISHED]] = Finished.FINISHED


@dataclass(frozen=True, slots=True)
class ChildCall:
    """An attempt for a child, and the callbacks for the handler's output.

    The callbacks are called on the event loop, in the order of the output.
    """

    work: Work
    on_log: OnLog
    on_progress: OnProgress
    # For lines that the child has printed itself.
    on_printed: OnLog | None = None


@dataclass(frozen=True, slots=True)
class Wear:
    """Limits after which a child is replaced: a number of attempts, or an amount of memory. None:
    no limit."""

    runs: int | None = None
    memory_bytes: int | None = None

    def has_worn_out(self, child: ChildHandle) -> bool:
        if self.runs is not None and child.calls >= self.runs:
            return True
        return self.memory_bytes is not None and (child.memory_bytes or 0) > self.memory_bytes


NO_WEAR = Wear()


class ChildPool:
    """A pool of up to `size` children. All methods belong to one event loop.

    `cancel_seconds` is how long a cancelled handler may take to stop by itself, `term_seconds`
    how long it may take to clean up after SIGTERM.
    """

    def __init__(
        self,
        *,
        size: int,
        app_ref: str | None,
        wear: Wear = NO_WEAR,
        cancel_seconds: float = 0.25,
        term_seconds: float = 1.0,
    ) -> None:
        _refuse_while_loading()
        self._app_ref = app_ref
        self._wear = wear
        self._leaving: set[asyncio.Task[None]] = set()
        self._cancel_seconds = cancel_seconds
        self._term_seconds = term_seconds
        self._slots = asyncio.Semaphore(size)
        self._idle: list[ChildHandle] = []
        self._children: set[ChildHandle] = set()
        self._is_closed = False

    async def call(self, request: ChildCall) -> bytes | Finished | None:
        """Return the handler's result as JSON, or FINISHED; raise the handler's exception.

        If cancelled, return when the attempt has ended in its child, whatever that takes.
        """
        async with self._slots:
            child = await self._take()
            try:
                answer = await child.run(
                    request.work, request.on_log, request.on_progress, request.on_printed
                )
            except asyncio.CancelledError:
                await child.interrupt(self._cancel_seconds, self._term_seconds)
                raise
            finally:
                self._give_back(child)
            if answer is None:
                raise ChildDied(await child.gone)
            return _result_of(answer)

    async def prepare(self) -> None:
        """Have a child ready, or raise the error that prevents it."""
        self._give_back(await self._take())

    async def close(self, grace: float) -> None:
        """End all children: idle ones at once, busy ones after their attempt or the grace
        period."""
        self._is_closed = True
        await asyncio.gather(*(child.leave(grace) for child in self._children))

    async def _take(self) -> ChildHandle:
        if self._is_closed:
            raise _closed()
        while self._idle:
            child = self._idle.pop()
            if child.is_idle:
                return child
        child = await ChildHandle.start(self._app_ref)
        self._children.add(child)
        child.gone.add_done_callback(lambda _: self._children.discard(child))
        if self._is_closed:
            await child.leave(0)
            raise _closed()
        return child

    def _give_back(self, child: ChildHandle) -> None:
        if not child.is_idle:
            return
        if not self._wear.has_worn_out(child):
            self._idle.append(child)
            return
        # In the background: the next attempt starts another child.
        task = asyncio.ensure_future(child.leave(_LEAVE_SECONDS))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


def _result_of(answer: ChildAnswer) -> bytes | Finished | None:
    if isinstance(answer, Raise):
        raise unpack(answer)
    return FINISHED if answer.is_finished else answer.result


def _closed() -> RotaError:
    return RotaError("the process executor is closed: this worker has stopped")


def _refuse_while_loading() -> None:
    module = loading()
    if module is not None:
        raise RotaError(
            "the program starts a worker when it is imported, so each child would start another",
            hint="start the worker under `if __name__ == '__main__':`",
        )
