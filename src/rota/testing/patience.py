"""Waiting for something to become true, instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_FIRST = 0.005
_LONGEST = 0.1


class _Wait:
    """The deadline, and the pauses that grow up to it."""

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._pause = _FIRST

    def next_pause(self, cause: AssertionError | None) -> float:
        if time.monotonic() >= self._deadline:
            raise AssertionError(
                f"not true after {self._timeout:g} s: {cause or 'the check was False'}"
            ) from cause
        pause, self._pause = self._pause, min(self._pause * 1.5, _LONGEST)
        return pause


async def eventually(check: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Call `check` until it neither raises AssertionError nor returns False; return its result. It
    may be a coroutine function. Raises AssertionError after `timeout` seconds."""
    wait = _Wait(timeout)
    while True:
        cause = None
        try:
            value = check()
            found = await value if inspect.isawaitable(value) else value
            if found is not False:
                return found
        except AssertionError as error:
            cause = error
        await asyncio.sleep(wait.next_pause(cause))


def eventually_sync(check: Callable[[], T], timeout: float = 20.0) -> T:
    """The same, without an event loop."""
    wait = _Wait(timeout)
    while True:
        cause = None
        try:
            value = check()
            if value is not False:
                return value
        except AssertionError as error:
            cause = error
        time.sleep(wait.next_pause(cause))
