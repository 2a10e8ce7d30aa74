"""Async code for a caller outside of its event loop: kept in a task of its own from its entry to
its exit, so that task groups, timeouts and cancel scopes around a `yield` work."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from rota.model.hook import Hook
from rota.model.inside import Leave, Left, leave_async, without_yield

# Executes a coroutine on the event loop beside the caller, and returns its result.
Drive = Callable[[Coroutine[Any, Any, Any]], Any]


def entering(drive: Drive) -> Callable[[Hook, Any], Leave]:
    """Return how async hooks are entered for a `def` handler. Context variables that the hooks set
    apply in the handler's thread too."""

    def enter(hook: Hook, subject: Any) -> Leave:
        kept = BackgroundContext(lambda: hook.make(subject))
        where = contextvars.copy_context()
        try:
            drive(kept.enter(where))
        except StopAsyncIteration:
            raise without_yield(hook.place) from None
        _adopt(where)
        return lambda result, error: drive(kept.leave(result, error))

    return enter


def _adopt(context: contextvars.Context) -> None:
    here = contextvars.copy_context()
    for variable, value in context.items():
        if variable not in here or here[variable] is not value:
            variable.set(value)


class BackgroundContext:
    """An async generator with one `yield`. `enter` and `leave` must use one event loop, which may
    rest in between."""

    def __init__(self, make: Callable[[], AsyncGenerator[Any, Any]]) -> None:
        self._make = make
        self._entered: asyncio.Future[None]
        self._over: asyncio.Future[Left]
        self.task: asyncio.Task[Left]

    async def enter(self, context: contextvars.Context | None = None) -> None:
        """`context` is the context of the task: variables that the generator sets can be read
        there."""
        loop = asyncio.get_running_loop()
        self._entered, self._over = loop.create_future(), loop.create_future()
        self.task = loop.create_task(self._live(), context=context)
        try:
            await asyncio.wait((self._entered, self.task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            await asyncio.wait((self.task,))
            raise
        if not self._entered.done():
            _, error = self.task.result()
            assert error is not None
            raise error

    async def leave(self, result: Any = None, error: BaseException | None = None) -> Left:
        if not self._over.done():
            self._over.set_result((result, error))
        return await self.task

    async def _live(self) -> Left:
        made = self._make()
        try:
            await anext(made)
        except BaseException as error:
            return None, error
        self._entered.set_result(None)
        try:
            left = await self._over
        except asyncio.CancelledError as ended:
            left = None, ended
        return await leave_async(made, *left)
