"""Part of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """`cursor` leads to the next part; None: there is no more. It holds for the same order and the
    same filters, also when what it was taken from is gone."""

    items: Sequence[T]
    cursor: tuple[Any, ...] | None
