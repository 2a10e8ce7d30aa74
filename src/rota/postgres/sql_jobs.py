"""Jobs that are database functions: listing them, and how to call one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rota.postgres.queries import Query, each, only


class StoredSqlJob(NamedTuple):
    name: str
    timeout: float | None
    backoff: Mapping[str, Any] | None
    log_level: str | None


class SqlCall(NamedTuple):
    """The text of a call, with `$1` for the payload. `transaction_mode` is "none" for a procedure
    that commits by itself. With `run_as`, `$2` is a nonce that is returned as the second column;
    `settle` executes the deferred constraints of that role, and `state` is the version of the
    function that calls as that role."""

    call: str
    transaction_mode: str
    is_answering: bool
    settle: str | None
    run_as: str | None
    state: str | None


class CommandMark(NamedTuple):
    """The number of a command in its transaction, and whether a cursor is still open."""

    number: int
    has_cursor: bool


def list_sql_jobs() -> Query[list[StoredSqlJob]]:
    return Query("jobs/sql_jobs", {}, each(StoredSqlJob._make))


def find_call(job: str) -> Query[SqlCall]:
    return Query("jobs/sql_call", {"job": job}, only(SqlCall._make))


def caller_state(role: str) -> Query[str]:
    """Return the version of the function that calls as this role; an error if it was modified."""
    return Query("jobs/caller_state", {"role": role}, only(lambda row: str(row[0])))


def mark_command() -> Query[CommandMark]:
    """Mark the command; the mark is to be rolled back. Its number is one more than the last mark's
    if nothing was written in between."""
    return Query("jobs/mark_command", {}, only(CommandMark._make))
