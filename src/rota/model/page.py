"""Part of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Larger values are left out of pages: a thousand of a megabyte each are more than a process holds.
LISTED_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `cursor` leads to the next page; None if there is none. It is valid for
    the same order and filters, even if the row it was taken from is deleted."""

    items: Sequence[T]
    cursor: tuple[Any, ...] | None
