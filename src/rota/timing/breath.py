"""Lets other threads run during a long computation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
# A waiting thread gets the interpreter after 5 ms; a page waits for it after each response of the
# database, a dozen times. So it is released sooner, for long enough that another thread wakes up.
_WORK, _REST = 0.001, 0.0003
_EACH = 32


def breathing(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, with a pause for other threads after each millisecond of work on them."""
    until = time.perf_counter() + _WORK
    for number, item in enumerate(items):
        if number % _EACH == 0 and time.perf_counter() >= until:
            time.sleep(_REST)
            until = time.perf_counter() + _WORK
        yield item
