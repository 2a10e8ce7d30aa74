"""Pages of lists: those that the database cuts, and short ones that are cut here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rota.api.schemas.values import read_cursor, write_cursor
from rota.model.log import LogPage


def cut(
    kind: str,
    found: Sequence[Any],
    key: Callable[[Any], Any],
    cursor: str | None,
    limit: int,
) -> dict[str, Any]:
    """A page of a list that is short enough to be read whole, in ascending order of a unique
    key: names of jobs, queues, calendars."""
    place = read_cursor(kind, cursor, str)
    rest = [one for one in found if place is None or key(one) > place[0]]
    rest.sort(key=key)
    return full(kind, rest[: limit + 1], limit, key)


def full(
    kind: str, found: Sequence[Any], limit: int, *keys: Callable[[Any], Any]
) -> dict[str, Any]:
    """A page out of one more row than it shows: whether there is a next one."""
    shown = list(found[:limit])
    more = len(found) > limit
    cursor = write_cursor(kind, *(key(shown[-1]) for key in keys)) if more else None
    return {"items": shown, "next_cursor": cursor}


def log_page(kind: str, found: LogPage) -> dict[str, Any]:
    cursor = None if found.cursor is None else write_cursor(kind, found.cursor)
    return {
        "items": found.lines,
        "next_cursor": cursor,
        "searched_back_to": found.searched_back_to,
    }
