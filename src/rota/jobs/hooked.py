"""Enqueues inside the hooks of their application (`@app.around_enqueue`)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, NoReturn

from rota.errors import JobError
from rota.jobs.batch import Call, refuse_others
from rota.jobs.handle import R, Run
from rota.jobs.tracing import TracedEnqueuer
from rota.model.hook import Hook
from rota.model.inside import await_inside, call_inside


class HookedEnqueuer(TracedEnqueuer):
    """An enqueuer that calls hooks, and behaves like its base without any. A hook gets one list of
    calls, of any length, and may replace them in it."""

    def send(self, call: Call[R]) -> Coroutine[Any, Any, Run[R]]:
        if not self._registry.hooks.around_enqueue:
            return super().send(call)
        return self._send_inside(call)

    def send_sync(self, call: Call[R]) -> Run[R]:
        if not self._registry.hooks.around_enqueue:
            return super().send_sync(call)
        send, calls = super().send_sync, [call]
        return self._inside_sync(calls, lambda: [send(_only(calls))])[0]

    def send_many(
        self, calls: Iterable[Call[R]], connection: Any = None
    ) -> Coroutine[Any, Any, list[Run[R]]]:
        if not self._registry.hooks.around_enqueue:
            return super().send_many(calls, connection)
        return self._send_many_inside(list(calls), connection)

    def send_many_sync(self, calls: Iterable[Call[R]], connection: Any = None) -> list[Run[R]]:
        if not self._registry.hooks.around_enqueue:
            return super().send_many_sync(calls, connection)
        send, wanted = super().send_many_sync, list(calls)
        refuse_others(wanted)
        return self._inside_sync(wanted, lambda: send(wanted, connection))

    async def _send_inside(self, call: Call[R]) -> Run[R]:
        send, calls = super().send, [call]

        async def body() -> list[Run[R]]:
            return [await send(_only(calls))]

        return (await self._inside(calls, body))[0]

    async def _send_many_inside(self, calls: list[Call[R]], connection: Any) -> list[Run[R]]:
        send = super().send_many
        refuse_others(calls)

        async def body() -> list[Run[R]]:
            return await send(calls, connection)

        return await self._inside(calls, body)

    async def _inside(self, calls: list[Call[R]], body: Any) -> list[Run[R]]:
        hooks = self._registry.hooks.around_enqueue
        return _made(await await_inside(hooks, calls, body, {}))

    def _inside_sync(self, calls: list[Call[R]], body: Any) -> list[Run[R]]:
        hooks = self._registry.hooks.around_enqueue
        return _made(call_inside(hooks, calls, body, {}, _refuse_async))


def _made(runs: list[Run[R]] | None) -> list[Run[R]]:
    if runs is None:
        raise JobError(
            "a hook of around_enqueue has handled the exception of an enqueue, so there is no run",
            hint="raise it again",
        )
    return runs


def _only(calls: list[Call[R]]) -> Call[R]:
    refuse_others(calls)
    if len(calls) != 1:
        raise JobError(
            f"a hook of around_enqueue has made {len(calls)} calls of one",
            hint="replace the call in the list, or raise to refuse it",
        )
    return calls[0]


def _refuse_async(hook: Hook, _: Any) -> NoReturn:
    raise JobError(
        f"the hook {hook.place} of around_enqueue is an async def, for which enqueue_sync cannot "
        "wait",
        hint="declare it with def, or use await enqueue()",
    )
