"""Keyset pagination: a statement orders rows and returns the place of each.

Such a statement takes `order`, `after` (the place of the last row of the previous page) and
`limit`, and returns a column `place`. So a page costs only the rows that it shows, and no row is
repeated or omitted because others were added or removed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from rota.errors import FilterError
from rota.model.page import PAGE_BYTES, Page, fitting
from rota.postgres.plans import Execute, Plan

T = TypeVar("T")
RowKey = tuple[Any, ...]


def read_page(
    statement: str,
    params: Mapping[str, Any],
    make: Callable[..., T],
    *,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
    most_bytes: int | None = PAGE_BYTES,
) -> Plan[Page[T]]:
    """Return a page. One more row than `limit` is read, to find out whether there is another
    page."""
    rows = yield from read_rows(statement, params, make, order=order, cursor=cursor, limit=limit)
    return page_of(rows, limit, most_bytes)


def page_of(
    rows: Sequence[tuple[RowKey, T]], limit: int, most_bytes: int | None = PAGE_BYTES
) -> Page[T]:
    """Return the page: at most `limit` rows and `most_bytes` bytes."""
    shown = fitting([row for _, row in rows[:limit]], most_bytes)
    next_cursor = rows[shown - 1][0] if len(rows) > shown else None
    return Page([row for _, row in rows[:shown]], next_cursor)


def read_rows(
    statement: str,
    params: Mapping[str, Any],
    make: Callable[..., T],
    *,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
) -> Plan[list[tuple[RowKey, T]]]:
    """Return the rows of a page, and one more if there is one, each with its place."""
    if limit < 1:
        raise FilterError(f"limit must be at least 1, not {limit}")
    after = None if cursor is None else json.dumps(list(cursor))
    yield Execute("session/plan_by_values", {"is_local": True})
    asked = dict(params) | {"order": order, "after": after, "limit": limit + 1}
    rows = yield Execute(statement, asked)
    return [(tuple(row.pop("place")), make(**row)) for row in rows]


def read_all(
    statement: str, params: Mapping[str, Any], make: Callable[..., T], *, order: str = "name"
) -> Plan[list[T]]:
    """Return the whole list; for short lists."""
    rows = yield Execute(statement, dict(params) | {"order": order, "after": None, "limit": None})
    for row in rows:
        del row["place"]
    return [make(**row) for row in rows]


def check_order(order: str, orders: Any) -> str:
    if order not in get_args(orders):
        there = ", ".join(get_args(orders))
        raise FilterError(f"unknown order {order!r}", hint=f"choose from {there}")
    return order


def check_filters(given: Mapping[str, Any], filters: Any, what: str) -> None:
    """Reject unknown filters; ignoring them would return too many rows."""
    for name in given:
        if name not in filters.__annotations__:
            there = ", ".join(filters.__annotations__)
            raise FilterError(f"{what}: unknown filter {name}", hint=f"choose from {there}")


def wanted_metadata(given: Mapping[str, Any] | None) -> str | None:
    """Return the metadata filter as the statements compare it: every value as text."""
    if not given:
        return None
    return json.dumps({key: _text(value) for key, value in given.items()}, ensure_ascii=False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def excluded(given: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return what a list leaves out, as its statement compares it."""
    return {
        "not_names": [name for name, _ in given],
        "not_values": [value for _, value in given],
        "not_patterns": [like(value) for _, value in given],
    }


def like(text: str) -> str:
    """Return a LIKE pattern that matches the text anywhere."""
    plain = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{plain}%"
