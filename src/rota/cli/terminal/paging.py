"""`--limit`, `--after` and `--order`: the same for every list.

A list that may be long is shown in pages. Each page ends with the cursor of the next one. A
position in a list by ids is the id itself; any other is a token that is valid only for its list and
its order.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.terminal import values
from rota.cli.terminal.output import remark
from rota.model.cursors import read_cursor, write_cursor

_LIMIT_HELP = "Maximum number of results."
_AFTER_HELP = "Show the next page: the cursor printed below the previous one."

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help=_LIMIT_HELP)]
# For records that people define: there are hundreds, and programs want them all.
LongLimit = Annotated[
    int, typer.Option("--limit", min=1, max=10_000, metavar="N", help=_LIMIT_HELP)
]
AfterId = Annotated[int | None, typer.Option("--after", min=0, metavar="CURSOR", help=_AFTER_HELP)]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help=_AFTER_HELP)]

NEWEST = ("newest", "oldest")


def sorted_by(*orders: str) -> Any:
    """Return the option `--order` of a list; `order` reads its value."""
    return typer.Option("--order", metavar="ORDER", help=f"Sort order: {', '.join(orders)}.")


def order(text: str, orders: tuple[str, ...]) -> Any:
    return values.choice(text, orders, "--order")


def place(after_id: int | None) -> tuple[int] | None:
    """Return where a page of a list by ids begins."""
    return None if after_id is None else (after_id,)


def read(kind: str, token: str | None, *, is_by_id: bool = False) -> tuple[Any, ...] | None:
    """Return where a page begins. `kind` is the list and its order."""
    if token is None:
        return None
    if is_by_id and token.isdecimal():
        return place(int(token))
    try:
        return tuple(read_cursor(kind, token))
    except ValueError:
        values.refuse("--after", f"{token!r} is not a cursor of this list in this order")


def more(shown: int, cursor: tuple[Any, ...] | int | str | None, kind: str = "") -> None:
    """Print how to get the next page, if there is one."""
    if cursor is None:
        return
    if isinstance(cursor, tuple):
        is_id = len(cursor) == 1 and isinstance(cursor[0], int)
        cursor = str(cursor[0]) if is_id else write_cursor(kind, *cursor)
    remark(f"{shown:,} shown; next page: --after {cursor}")
