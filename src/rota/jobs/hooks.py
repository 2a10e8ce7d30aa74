"""Hooks of an application: code around the lives of its workers, its attempts and its enqueues, and
after failures."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar

from rota.errors import JobError
from rota.jobs.batch import Call
from rota.jobs.context import Context
from rota.model.hook import AttemptFailure, Hook

State = Mapping[str, Any] | None
_Yields = (
    AsyncIterator[State]
    | Iterator[State]
    | AbstractAsyncContextManager[State]
    | AbstractContextManager[State]
)
_YieldsNothing = (
    AsyncIterator[None]
    | Iterator[None]
    | AbstractAsyncContextManager[None]
    | AbstractContextManager[None]
)
LifespanFunction = Callable[[], _Yields] | Callable[[Any], _Yields]
AttemptFunction = Callable[[Context], _YieldsNothing]
EnqueueFunction = Callable[[list[Call]], _YieldsNothing]
FailureFunction = (
    Callable[[Context, AttemptFailure], Awaitable[None]] | Callable[[Context, AttemptFailure], None]
)
L = TypeVar("L", bound=LifespanFunction)
A = TypeVar("A", bound=AttemptFunction)
E = TypeVar("E", bound=EnqueueFunction)
F = TypeVar("F", bound=FailureFunction)


class Hooks:
    """The hooks that an application has declared, in order."""

    def __init__(self, app: object = None) -> None:
        self.app = app
        self.lifespans: tuple[Hook, ...] = ()
        self.around_attempt: tuple[Hook, ...] = ()
        self.around_enqueue: tuple[Hook, ...] = ()
        self.on_failure: tuple[FailureFunction, ...] = ()


NO_HOOKS = Hooks()


class HookDecorators:
    """The decorators of an application."""

    hooks: Hooks

    def lifespan(self, function: L, /) -> L:
        """Declare what surrounds the life of each worker: a function with one `yield`, `async def`
        or `def`, without arguments or with the application. What comes before the `yield` is done
        before the worker claims anything, the rest when its last attempt has ended. The dict that
        it yields is `ctx.state` of every attempt. Every process that calls handlers has its own:
        each of `--processes N`, and each child of `executor="process"`."""
        hook = _generator(function, "a lifespan", arguments=None)
        self.hooks.lifespans += (hook,)
        return function

    def around_attempt(self, function: A, /) -> A:
        """Declare what surrounds each attempt: a function with one `yield`, `async def` or `def`,
        that takes the `rota.Context`. It follows the rules of `with`: the exception of the handler
        is raised at the `yield`, where it can be replaced or handled; `result = yield` is
        what the handler returned. It runs where the handler runs, in a child process too."""
        hook = _generator(function, "a hook of around_attempt", arguments=1)
        self.hooks.around_attempt += (hook,)
        return function

    def around_enqueue(self, function: E, /) -> E:
        """Declare what surrounds each enqueue: a function with one `yield` that takes the list of
        calls, one for `enqueue`, all for `enqueue_many`. Before the `yield` it may replace calls in
        the list (`call.with_options(…)`) or raise; `runs = yield` is the list of runs. An
        `async def` runs for `await enqueue()` only: enqueue_sync refuses it, as it cannot wait."""
        hook = _generator(function, "a hook of around_enqueue", arguments=1)
        self.hooks.around_enqueue += (hook,)
        return function

    def on_failure(self, function: F, /) -> F:
        """Declare what is called when an attempt has failed or timed out: a function, `async def`
        or `def`, that takes the `rota.Context` and a `rota.AttemptFailure`. It is called in
        the worker after the failure was recorded. What it raises is logged and changes nothing. It
        is not called if the worker itself is killed."""
        self.hooks.on_failure += (check_failure_hook("on_failure", function),)
        return function


def check_failure_hook(name: str, function: Any) -> FailureFunction:
    if not callable(function):
        raise ValueError(f"{name} must be a function, not {function!r}")
    if _positional(function) not in (2, None):
        raise ValueError(
            f"{name} must be a function of two arguments, the context and the failure: "
            f"{_place(function)} is not"
        )
    checked: FailureFunction = function
    return checked


def _generator(function: Any, what: str, arguments: int | None) -> Hook:
    """Make a hook from a function with a yield, a function decorated by contextlib, or a class of
    context managers."""
    inner = inspect.unwrap(function) if callable(function) else function
    if inspect.isasyncgenfunction(inner):
        make, is_async = inner, True
    elif inspect.isgeneratorfunction(inner):
        make, is_async = inner, False
    elif isinstance(function, type) and hasattr(function, "__aenter__"):
        make, is_async = _of_async_class(function), True
    elif isinstance(function, type) and hasattr(function, "__enter__"):
        make, is_async = _of_class(function), False
    else:
        raise JobError(
            f"{what} must be a function with one yield, and {_place(function)} is not",
            hint="what comes before the yield is done before, the rest after",
        )
    count = _positional(function)
    if arguments is None and count == 0:
        return Hook(lambda _: make(), is_async, _place(function))
    if count not in (1, None):
        takes = "the application, or nothing" if arguments is None else "one argument"
        raise JobError(f"{what} takes {takes}: {_place(function)} takes {count}")
    return Hook(make, is_async, _place(function))


def _of_async_class(kind: Any) -> Callable[..., AsyncIterator[Any]]:
    async def make(*arguments: Any) -> AsyncIterator[Any]:
        async with kind(*arguments) as yielded:
            yield yielded

    return make


def _of_class(kind: Any) -> Callable[..., Iterator[Any]]:
    def make(*arguments: Any) -> Iterator[Any]:
        with kind(*arguments) as yielded:
            yield yielded

    return make


def _positional(function: Callable[..., Any]) -> int | None:
    """Return the number of required positional arguments or, if none is required, of optional ones;
    None: any number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [parameter for parameter in named if parameter.default is parameter.empty]
    return len(needed) or len(named)


def _place(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else repr(function)
