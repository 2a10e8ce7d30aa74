"""From errors of a driver to errors of Rota: the one place that knows their codes.

SQL functions of the schema raise SQLSTATEs of class RO. On our own connections every error becomes
one of ours. On a caller's connection only those of class RO do: the rest is between the caller
and the driver, whose errors the caller may well expect, like a serialization failure to repeat.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import psycopg

from rota.errors import DatabaseError, RotaError, SchemaError, from_sqlstate
from rota.model.wording import said

# Schema, table or function not there: the database was not migrated, or not far enough.
# Whose database it is, nobody knows here.
_MISSING = (
    "the schema is missing or too old: run `rota migrate` for this database;"
    " `--app` or `--config` tells it which one"
)
_NOT_THERE = frozenset({"3F000", "42P01", "42883"})
_CHECK_VIOLATION = "23514"
_UNREADABLE = "XX001"  # data_corrupted
_INTERNAL = "XX000"  # internal_error


class _Translation:
    """Reusable and without state: a generator-based context manager costs a microsecond."""

    __slots__ = ("_is_foreign",)

    def __init__(self, is_foreign: bool) -> None:
        self._is_foreign = is_foreign

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            return
        if self._is_foreign:
            found = find_sqlstate(error)
            if found is not None and str(found.sqlstate).startswith("RO"):
                raise as_rota_error(found) from error
        elif isinstance(error, psycopg.Error):
            raise as_rota_error(error) from error


_OWN, _FOREIGN = _Translation(is_foreign=False), _Translation(is_foreign=True)


def translate() -> _Translation:
    """`with translate(): …` round statements on our own connections."""
    return _OWN


def translate_foreign() -> _Translation:
    """`with translate_foreign(): …` round statements on a caller's connection, of any driver."""
    return _FOREIGN


def is_missing_partition(error: Any) -> bool:
    """No partition takes the row. Not by its words, which are in the server's language: of all
    violations it is the one that names no constraint. An error of psycopg or asyncpg, or None."""
    if getattr(error, "sqlstate", None) != _CHECK_VIOLATION:
        return False
    about = getattr(error, "diag", error)
    return about.constraint_name is None and about.table_name is not None


def as_rota_error(error: Any) -> RotaError:
    """An error with a SQLSTATE, of psycopg or asyncpg, as one of ours."""
    diag = getattr(error, "diag", None)
    if diag is not None and diag.message_primary:
        message, detail, hint = diag.message_primary, diag.message_detail, diag.message_hint
    else:
        message = str(getattr(error, "message", None) or error)
        detail, hint = getattr(error, "detail", None), getattr(error, "hint", None)
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        # Of the driver, about a value that came: the database is there.
        return DatabaseError(f"a value cannot be read: {message}", sqlstate=_UNREADABLE)
    if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
        # Of the driver, about a statement that it was given: neither is this an outage.
        return DatabaseError(message, sqlstate=_INTERNAL)
    if error.sqlstate in _NOT_THERE:
        return SchemaError(message, hint=_MISSING)
    if str(error.sqlstate).startswith("RO"):
        # Ours, in the words of SQL.
        message, hint = said(message, "python"), said(hint or "", "python") or None
    return from_sqlstate(error.sqlstate, message, detail, hint)


def find_sqlstate(error: BaseException) -> Any:
    """The driver's own error inside what an ORM has wrapped round it; None if there is none."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if getattr(current, "sqlstate", None) and _has_text(current):
            return current
        current = getattr(current, "orig", None) or current.__cause__
    return None


def _has_text(error: BaseException) -> bool:
    # SQLAlchemy's adapter of asyncpg copies the code, but not detail and hint: look deeper.
    return hasattr(error, "diag") or hasattr(error, "detail") or error.__cause__ is None
