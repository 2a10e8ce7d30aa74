"""Writes log lines to the database, each once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rota.postgres.queries import Query, each, nothing, only
from rota.postgres.statements import Statements


class LineKey(NamedTuple):
    run: int
    attempt: int
    seq: int


def copy_text(statements: Statements, mark: str) -> str:
    """Return the COPY for lines; it begins with the mark by which `is_writing` finds it."""
    return f"{mark} {statements.get('logs/write')}"


def is_writing(mark: str) -> Query[bool]:
    """Return whether the server still executes the COPY of a broken connection."""
    return Query("logs/is_writing", {"mark": mark}, only(lambda row: bool(row[0])))


def stored(keys: Sequence[tuple[int, int, int]], since: datetime) -> Query[list[LineKey]]:
    """Return those of these lines that are stored."""
    params = {
        "runs": [run for run, _, _ in keys],
        "attempts": [attempt for _, attempt, _ in keys],
        "seqs": [seq for _, _, seq in keys],
        "since": since,
    }
    return Query("logs/stored", params, each(LineKey._make))


def make_room(since: datetime, until: datetime) -> Query[None]:
    """Create partitions for lines that were delayed, or whose clock was changed."""
    return Query("logs/make_room", {"since": since, "until": until}, nothing)
