"""Reads and commands, written once for async and sync callers.

A plan is a generator: it yields a statement with its parameters, is sent the rows, and returns its
result. The database drives it over the caller's kind of connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

Rows = list[dict[str, Any]]
T = TypeVar("T")
R = TypeVar("R", bound="StatedRow")


class Execute(NamedTuple):
    """A statement (a file such as `runs/find`, or a call such as `cancel_run(run_id, reason)`) and
    its parameters.

    `is_large`: its result has thousands of numbers, which are cheaper in binary form. `meanwhile`
    may be called while the server works, to compute something that the plan needs later.
    """

    statement: str
    params: dict[str, Any]
    is_large: bool = False
    meanwhile: Callable[[], object] | None = None


Plan = Generator[Execute, Rows, T]


def one(statement: str, **params: Any) -> Plan[Rows]:
    """Return the rows of a single statement."""
    rows = yield Execute(statement, params)
    return rows


def call(function: str, **arguments: Any) -> Plan[Any]:
    """Call a SQL function of the schema by its name and named arguments; return its result."""
    rows = yield Execute(f"{function}({', '.join(arguments)})", arguments)
    return rows[0]["answer"]


class StatedRow(Protocol):
    """A dataclass with the statement whose rows it is made of."""

    STATEMENT: ClassVar[str]


def rows_of(kind: type[R], *, is_large: bool = False, **params: Any) -> Plan[list[R]]:
    """Return the rows that the statement of this type reads."""
    rows = yield Execute(kind.STATEMENT, params, is_large)
    return [kind(**row) for row in rows]


def limited(plan: Plan[T], seconds: float) -> Plan[T]:
    """Limit the duration of each statement of a plan."""
    yield Execute("session/limit_time", {"milliseconds": int(seconds * 1000)})
    return (yield from plan)
