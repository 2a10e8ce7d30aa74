"""The event loop of our own programs: uvloop where it exists."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(body: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the fastest loop there is."""
    keep_what_is_there()
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(body)


def keep_what_is_there() -> None:
    """What a program has imported is no garbage. Every full collection would walk over it all the
    same: tens of milliseconds in which nobody is answered and nothing starts."""
    gc.collect()
    gc.freeze()


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
