"""Pages of lists, which the database cuts by key.

They are serialized directly, without validation against their schemas, which are made of the same
dataclasses: validation took a tenth of the time of a page of a thousand rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import Response
from pydantic import TypeAdapter
from pydantic_core import to_json

from rota.api.schemas.views import list_of
from rota.model.cursors import write_cursor
from rota.model.error_group import ErrorPage
from rota.model.log import LogPage
from rota.model.page import Page
from rota.model.run_filter import RunPage
from rota.model.unreadable import Unreadable, readable


def page_of(kind: str, found: Page[Any]) -> Response:
    """Return a page. `kind` is the list and its order: its cursor is valid only there."""
    return _page(kind, found.items, found.cursor)


def run_page(kind: str, found: RunPage) -> Response:
    cursor = None if found.cursor is None else (found.cursor,)
    return _page(kind, found.runs, cursor, searched_to=found.searched_to)


def log_page(kind: str, found: LogPage) -> Response:
    cursor = None if found.cursor is None else (found.cursor,)
    return _page(kind, found.lines, cursor, searched_back_to=found.searched_back_to)


def error_page(kind: str, found: ErrorPage) -> Response:
    more = {"standings": found.standings, "since": found.since, "failures": found.failures}
    return _page(kind, found.groups, found.cursor, **more)


def _page(kind: str, items: Sequence[Any], cursor: tuple[Any, ...] | None, **more: Any) -> Response:
    rest = {"next_cursor": None if cursor is None else write_cursor(kind, *cursor), **more}
    body = b'{"items":' + _written(items) + b"," + to_json(readable(rest))[1:]
    return Response(body, media_type="application/json")


def _written(items: Sequence[Any]) -> bytes:
    if not items:
        return b"[]"
    if Unreadable.were_met:
        return to_json(readable(items))
    return _codec(items[0].__class__).dump_json(list(items), warnings=False)


@cache
def _codec(item: type) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list_of(item))
