"""Reads and commands written once, for async and sync callers alike.

A plan is a generator: it yields a statement with its parameters, is sent the rows, and returns
its answer. The database drives it over whichever kind of connection the caller has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

Rows = list[dict[str, Any]]
T = TypeVar("T")


class Ask(NamedTuple):
    """One statement (a file such as `runs/find`, or a call such as `cancel_run(run_id, reason)`)
    and its parameters.

    `is_large`: its answer has numbers by the thousand, which come cheaper in their binary form.
    `meanwhile` may be called while the server works, for what the plan needs later anyway.
    """

    statement: str
    params: dict[str, Any]
    is_large: bool = False
    meanwhile: Callable[[], object] | None = None


Plan = Generator[Ask, Rows, T]


def one(statement: str, **params: Any) -> Plan[Rows]:
    """The plan of a single statement."""
    rows = yield Ask(statement, params)
    return rows


def call(function: str, **arguments: Any) -> Plan[Any]:
    """Call a SQL function of the schema by its name and named arguments; returns its result."""
    rows = yield Ask(f"{function}({', '.join(arguments)})", arguments)
    return rows[0]["answer"]


def limited(plan: Plan[T], seconds: float) -> Plan[T]:
    """The same, but no statement of it may take longer."""
    yield Ask("session/limit_time", {"milliseconds": int(seconds * 1000)})
    return (yield from plan)
