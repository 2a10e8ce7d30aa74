"""Pages of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The one rule of lists, because a thousand values of a megabyte each exceed the memory of a
# process. A larger value is left out of a page, which names the place of the whole value
# (`rota.listed`), and a larger text is cut; a page ends, with its cursor, before it exceeds its
# total size.
LISTED_BYTES = 8192
PAGE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `cursor` leads to the next page; None if there is none. It is valid for
    the same order and filters, even if the row it was taken from is deleted."""

    items: Sequence[T]
    cursor: tuple[Any, ...] | None


def fitting(items: Sequence[Any], most: int | None = PAGE_BYTES) -> int:
    """Return how many items a page holds: always at least one, so that every list can be read to
    its end."""
    if most is None:
        return len(items)
    left = most
    for n, item in enumerate(items):
        left -= weight(item)
        if left < 0 < n:
            return n
    return len(items)


def weight(value: Any) -> int:
    """Return the approximate size of a value as JSON, in bytes."""
    if isinstance(value, str):
        return len(value) + 2 if value.isascii() else 3 * len(value) + 2
    if isinstance(value, Mapping):
        return sum(weight(key) + weight(item) + 2 for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(weight(item) + 1 for item in value)
    if is_dataclass(value):
        names = value.__dataclass_fields__
        return sum(len(name) + 4 + weight(getattr(value, name)) for name in names)
    return 24
