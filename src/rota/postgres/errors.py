"""Translates drivers' errors to Rota's; the only place that interprets SQLSTATEs.

SQL functions of the schema raise SQLSTATEs of class RO. On Rota's connections every error is
translated. On a caller's connection only class RO is: the caller may expect other errors of the
driver, like a serialization failure to repeat.
"""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType
from typing import Any

import psycopg

from rota.errors import BY_SQLSTATE, DatabaseError, RotaError, SchemaError, code_of
from rota.hints import Hint, ShellCommand
from rota.postgres.hints import HINTS

# Schema, table or function is missing: the database was not migrated, or not far enough. The
# configuration of the database is not known here.
_MISSING = Hint(
    "the schema is missing or too old: run {} for this database; `--app` or `--config` tells it "
    "which one",
    ShellCommand(("migrate",)),
)
_NOT_THERE = frozenset({"3F000", "42P01", "42883"})
_CHECK_VIOLATION = "23514"
_UNREADABLE = "XX001"  # data_corrupted
_INTERNAL = "XX000"  # internal_error


class _Translation:
    """A reusable context manager without state: one based on a generator costs a microsecond."""

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
    """Translate errors of statements on Rota's connections: `with translate(): …`."""
    return _OWN


def translate_foreign() -> _Translation:
    """Translate errors of statements on a caller's connection, of any driver."""
    return _FOREIGN


def is_missing_partition(error: Any) -> bool:
    """Return whether a row has no partition. The message cannot be used, as it is in the server's
    language: this is the only check violation without a constraint name. `error` is of psycopg or
    asyncpg, or None."""
    if getattr(error, "sqlstate", None) != _CHECK_VIOLATION:
        return False
    about = getattr(error, "diag", error)
    return about.constraint_name is None and about.table_name is not None


def as_rota_error(error: Any) -> RotaError:
    """Translate an error with a SQLSTATE, of psycopg or asyncpg."""
    diag = getattr(error, "diag", None)
    if diag is not None and diag.message_primary:
        message, detail, hint = diag.message_primary, diag.message_detail, diag.message_hint
    else:
        message = str(getattr(error, "message", None) or error)
        detail, hint = getattr(error, "detail", None), getattr(error, "hint", None)
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        # An error of the driver about a received value: not an outage.
        return DatabaseError(f"a value cannot be read: {message}", sqlstate=_UNREADABLE)
    if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
        # An error of the driver about a statement: not an outage either.
        return DatabaseError(message, sqlstate=_INTERNAL)
    if error.sqlstate in _NOT_THERE:
        return SchemaError(message, hint=_MISSING)
    kind = BY_SQLSTATE.get(error.sqlstate)
    if kind is not None:
        return _of_schema(kind, error, message, detail, hint)
    text = f"{message}: {detail}" if detail else message
    return DatabaseError(text, sqlstate=error.sqlstate, hint=hint)


def _of_schema(
    kind: type[RotaError], error: Any, message: str, detail: str | None, hint: str | None
) -> RotaError:
    """Return an error that a function of the schema raised, with its data."""
    about = getattr(error, "diag", error)
    values = _values(detail)
    code = getattr(about, "constraint_name", None) or code_of(kind)
    advice: Hint | str | None = hint
    with suppress(KeyError):  # another's function raised it, without the values of ours
        advice = HINTS[code](values)
    return kind(
        message,
        hint=advice,
        field=getattr(about, "column_name", None) or None,
        code=code,
        values=values,
    )


def _values(detail: str | None) -> dict[str, Any]:
    """The data of an error; functions of users may raise our codes with any text."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def find_sqlstate(error: BaseException) -> Any:
    """Return the driver's error inside an ORM's error; None if there is none."""
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
