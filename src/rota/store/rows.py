"""How rows come back: as dicts, with what is JSON taken apart. Lists have a thousand of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import no_result
from psycopg.types.json import set_json_loads

Row = dict[str, Any]


class Adapters:
    """What a connection of ours takes its loaders from."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        set_json_loads(_read_json, self)


def named_row(cursor: psycopg.AsyncCursor[Any] | psycopg.Cursor[Any]) -> Callable[..., Row]:
    """As the driver's `dict_row`, but with the names that Python's own code has: a row whose names
    are other objects takes four times as long to become a dataclass of thirty fields."""
    if cursor.description is None:
        return no_result
    names = [sys.intern(column.name) for column in cursor.description]

    def row(values: Sequence[Any]) -> Row:
        return dict(zip(names, values, strict=False))

    return row


def _read_json(data: str | bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # numbers beyond what a float can hold
        return json.loads(data)
