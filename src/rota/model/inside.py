"""Calls a function inside hooks: generators with one `yield`, by the rules of `with`.

Hooks are entered in the order of declaration and left in reverse. An exception of the call is
raised at the `yield`, where a hook may handle it or raise another; the result is sent there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import Any

from rota.model.hook import Hook

# The result and the error of a call; one of them is None.
Left = tuple[Any, BaseException | None]
Leave = Callable[[Any, BaseException | None], Left]


async def await_inside(  # noqa: C901 - in one piece: a coroutine for each step would cost more
    hooks: Sequence[Hook], subject: Any, body: Callable[..., Any], arguments: Mapping[str, Any]
) -> Any:
    """Return the result of a coroutine function."""
    entered: list[tuple[bool, Any]] = []
    result: Any = None
    error: BaseException | None = None
    try:
        for make, is_async, place in hooks:
            made = make(subject)
            try:
                if is_async:
                    await made.asend(None)
                else:
                    made.send(None)
            except (StopIteration, StopAsyncIteration):
                raise without_yield(place) from None
            entered.append((is_async, made))
        result = await body(**arguments)
    except BaseException as raised:
        error = raised
    while entered and error is None:
        is_async, made = entered.pop()
        try:
            if is_async:
                await made.asend(result)
            else:
                made.send(result)
        except (StopIteration, StopAsyncIteration):
            continue
        except BaseException as raised:
            error = raised
        else:
            error = await _end_async(made) if is_async else _end(made)
    while entered:
        is_async, made = entered.pop()
        left = await leave_async(made, result, error) if is_async else _leave(made, result, error)
        result, error = left
    if error is not None:
        raise error
    return result


def call_inside(
    hooks: Sequence[Hook],
    subject: Any,
    body: Callable[..., Any],
    arguments: Mapping[str, Any],
    enter_async: Callable[[Hook, Any], Leave],
) -> Any:
    """Return the result of a function. `enter_async` enters an async hook, and returns the function
    that leaves it."""
    entered: list[Leave] = []
    result: Any = None
    error: BaseException | None = None
    try:
        for hook in hooks:
            entered.append((enter_async if hook.is_async else _enter)(hook, subject))
        result = body(**arguments)
    except BaseException as raised:
        error = raised
    while entered:
        result, error = entered.pop()(result, error)
    if error is not None:
        raise error
    return result


def _enter(hook: Hook, subject: Any) -> Leave:
    made = hook.make(subject)
    try:
        next(made)
    except StopIteration:
        raise without_yield(hook.place) from None
    return lambda result, error: _leave(made, result, error)


def _leave(made: Generator[None, Any, Any], result: Any, error: BaseException | None) -> Left:
    """Leave the hook; return the result and the error that it lets through."""
    before = None if error is None else error.__traceback__
    try:
        if error is None:
            made.send(result)
        else:
            made.throw(error)
    except StopIteration as stopped:
        if stopped is not error:
            return (result, None) if error is None else (None, None)
        return None, stopped
    except BaseException as raised:
        return None, _passed_on(raised, error, before)
    return None, _end(made)


async def leave_async(
    made: AsyncGenerator[Any, Any], result: Any, error: BaseException | None
) -> Left:
    before = None if error is None else error.__traceback__
    try:
        if error is None:
            await made.asend(result)
        else:
            await made.athrow(error)
    except StopAsyncIteration as stopped:
        if stopped is not error:
            return (result, None) if error is None else (None, None)
        return None, stopped
    except BaseException as raised:
        return None, _passed_on(raised, error, before)
    return None, await _end_async(made)


def _passed_on(raised: BaseException, error: BaseException | None, before: Any) -> BaseException:
    """Return the same exception, without the frames of its way through the hook. A generator turns
    a StopIteration that passes through it into a RuntimeError."""
    is_same = raised is error or (
        isinstance(error, StopIteration | StopAsyncIteration)
        and isinstance(raised, RuntimeError)
        and raised.__cause__ is error
    )
    if not is_same or error is None:
        return raised
    error.__traceback__ = before
    return error


def without_yield(place: str) -> RuntimeError:
    return RuntimeError(f"the hook {place} returned without a yield")


def _end(made: Any) -> RuntimeError:
    made.close()
    return RuntimeError(f"the hook {made.__qualname__} yielded a second time")


async def _end_async(made: Any) -> RuntimeError:
    await made.aclose()
    return RuntimeError(f"the hook {made.__qualname__} yielded a second time")
