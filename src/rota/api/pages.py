"""Pages of lists, which the database cuts by key."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.values import write_cursor
from rota.model.log import LogPage
from rota.model.page import Page


def page_of(kind: str, found: Page[Any]) -> dict[str, Any]:
    """`kind` is the list and its order: a cursor leads nowhere else."""
    cursor = None if found.cursor is None else write_cursor(kind, *found.cursor)
    return {"items": found.items, "next_cursor": cursor}


def log_page(kind: str, found: LogPage) -> dict[str, Any]:
    cursor = None if found.cursor is None else write_cursor(kind, found.cursor)
    return {
        "items": found.lines,
        "next_cursor": cursor,
        "searched_back_to": found.searched_back_to,
    }
