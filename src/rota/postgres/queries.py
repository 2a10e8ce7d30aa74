"""Single typed statements: their parameters, and the reader of their rows.

The runtime sends one statement at a time, over any connection. A function in the package of a noun
makes the query; the owner of the connection sends it and gets the result. Several statements in one
transaction are a plan (plans.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
# Rows as tuples, in the order of the statement's columns.
Tuples = list[Any]


class Query(NamedTuple, Generic[T_co]):
    """A statement (a file such as `runs/rescue`), its parameters, and the reader of its rows."""

    statement: str
    params: Mapping[str, Any]
    read: Callable[[Tuples], T_co]


def calling(function: str, read: Callable[[Tuples], T], **arguments: Any) -> Query[T]:
    """Call a SQL function of the schema by its name and named arguments."""
    return Query(f"{function}({', '.join(arguments)})", arguments, read)


class Fetch(Protocol):
    """Sends a query and returns its result."""

    def __call__(self, query: Query[T], /) -> Awaitable[T]: ...


class FetchSync(Protocol):
    """The synchronous counterpart of `Fetch`."""

    def __call__(self, query: Query[T], /) -> T: ...


def nothing(_rows: Tuples) -> None:
    """Read no rows, of a statement that is executed for its effect."""


def has_any(rows: Tuples) -> bool:
    return bool(rows)


def number(rows: Tuples) -> int:
    """Return the number in the only row; 0 if there is no row, or NULL."""
    return int(rows[0][0] or 0) if rows else 0


def column(rows: Tuples) -> list[Any]:
    return [row[0] for row in rows]


def each(make: Callable[[Any], T]) -> Callable[[Tuples], list[T]]:
    """Read all rows; `make` takes a tuple, like the `_make` of a NamedTuple."""
    return lambda rows: [make(row) for row in rows]


def first(make: Callable[[Any], T]) -> Callable[[Tuples], T | None]:
    return lambda rows: make(rows[0]) if rows else None


def only(make: Callable[[Any], T]) -> Callable[[Tuples], T]:
    """Read the row of a statement that always returns one."""
    return lambda rows: make(rows[0])
