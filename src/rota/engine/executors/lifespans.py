"""The lifespans of an application (`@app.lifespan`), entered once in each process that calls its
handlers: in the worker, and in the children of its process executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from rota.engine.executors.background_context import BackgroundContext
from rota.errors import JobError
from rota.model.hook import Hook


class Lifespans:
    """Enters lifespans in the order of declaration, and leaves them in reverse. Async lifespans
    share a task, sync ones a thread, from beginning to end. `state` contains their yielded values,
    for `ctx.state`."""

    def __init__(self, hooks: Callable[[], Sequence[Hook]], app: object) -> None:
        self.state: dict[str, Any] = {}
        self._hooks = hooks
        self._app = app
        self._kept: BackgroundContext | None = None
        self._is_leaving = False

    async def enter(self, on_end: Callable[[BaseException], None] | None = None) -> None:
        """`on_end` is called if a lifespan ends by itself, for example because a task of its task
        group failed."""
        if not self._hooks():
            return
        kept = BackgroundContext(self._live)
        await kept.enter()
        self._kept = kept

        def ended(task: asyncio.Task[Any]) -> None:
            if not self._is_leaving and on_end is not None:
                error = None if task.cancelled() else task.result()[1]
                on_end(error or RuntimeError("a lifespan has ended"))

        kept.task.add_done_callback(ended)

    async def leave(self) -> None:
        """Leave the lifespans; raise their exception, if any."""
        kept, self._kept, self._is_leaving = self._kept, None, True
        if kept is None:
            return
        _, error = await kept.leave()
        self.state.clear()
        if error is not None:
            raise error

    async def _live(self) -> AsyncGenerator[None, Any]:
        with ThreadPoolExecutor(1, "rota lifespan") as thread:
            async with AsyncExitStack() as stack:
                for hook in self._hooks():
                    entered = stack.enter_async_context(_manager(hook, self._app, thread))
                    self.state.update(_checked(await entered, hook))
                yield


@asynccontextmanager
async def _in_thread(hook: Hook, app: object, thread: ThreadPoolExecutor) -> AsyncIterator[Any]:
    """A sync lifespan: it may block, and its second half runs in the same thread as the first."""
    loop = asyncio.get_running_loop()
    manager = contextmanager(hook.make)(app)
    yielded = await loop.run_in_executor(thread, manager.__enter__)
    error: BaseException | None = None
    try:
        yield yielded
    except BaseException as raised:
        error = raised
    kind = None if error is None else type(error)
    trace = None if error is None else error.__traceback__
    await loop.run_in_executor(thread, manager.__exit__, kind, error, trace)
    if error is not None:
        raise error


def _manager(hook: Hook, app: object, thread: ThreadPoolExecutor) -> Any:
    if hook.is_async:
        return asynccontextmanager(hook.make)(app)
    return _in_thread(hook, app, thread)


def _checked(yielded: Any, hook: Hook) -> Mapping[str, Any]:
    if yielded is None:
        return {}
    if isinstance(yielded, Mapping):
        return yielded
    raise JobError(
        f"the lifespan {hook.place} yielded {type(yielded).__name__}",
        hint='yield a dict, for example {"client": client}: handlers read ctx.state["client"]',
    )
