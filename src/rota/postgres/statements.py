"""SQL statements are files, one each, that can be used as they are in psql.

The files name the schema `rota`. An installation under another name gets the same text with this
qualifier replaced; a test runs the engine under another name to verify this.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from psycopg import sql

from rota.postgres.queries import Query

Style = Literal["numeric", "named"]
Statement = tuple[str, dict[str, Any]]

_QUALIFIER = re.compile(r"\brota\.(?=[a-z_%])")
# A line `{runs/list_ids}` includes that file.
_INCLUDED = re.compile(r"^\{(\w+/\w+)\}$", re.MULTILINE)
_PARAMETER = re.compile(r"%\((\w+)\)s(?:::(\w+(?: precision)?(?:\[\])?))?")


def render(text: str, schema: str) -> str:
    """Return the text for an installation whose schema has this name."""
    return text if schema == "rota" else _QUALIFIER.sub(f'"{schema}".', text)


@cache
def convert(text: str, style: Style) -> tuple[str, tuple[str, ...]]:
    """Convert a statement with `%(name)s::type` to another parameter style; return it and the
    parameters' order.

    `numeric` is asyncpg's `$1`, one number a name. `named` is SQLAlchemy's `:name`, cast by CAST,
    because its parser does not accept `:name::type`.
    """
    names: list[str] = []

    def replace(found: re.Match[str]) -> str:
        name, kind = found.groups()
        if name not in names:
            names.append(name)
        place = f":{name}" if style == "named" else f"${names.index(name) + 1}"
        if kind is None:
            return place
        return f"CAST({place} AS {kind})" if style == "named" else f"{place}::{kind}"

    return _PARAMETER.sub(replace, text), tuple(names)


_CALL = re.compile(r"(\w+)\(([\w, ]*)\)")


@cache
def read(name: str) -> str:
    """Return the unchanged text of a file, for a statement that names nothing of the schema; or of
    a call."""
    if called := _CALL.fullmatch(name):
        arguments = ", ".join(f"{name} => %({name})s" for name in called[2].split(", ") if name)
        return f"SELECT rota.{called[1]}({arguments}) AS answer"
    text = files("rota.postgres").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return _INCLUDED.sub(lambda found: read(found[1]), text)


class Statements:
    """The statements for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._rendered: dict[str, str] = {}

    def get(self, name: str) -> str:
        """Return the statement of a file such as `runs/claim`, or the call of a SQL function."""
        text = self._rendered.get(name)
        if text is None:
            text = self._rendered[name] = render(read(name), self.schema)
        return text

    def naming(self, name: str, **identifiers: str) -> sql.Composed:
        """Return the statement of a file with these identifiers in its `{placeholders}`."""
        quoted = {place: sql.Identifier(text) for place, text in identifiers.items()}
        return sql.SQL(self.get(name)).format(**quoted)

    def of(self, query: Query[Any]) -> Statement:
        """Return the text and parameters of a query, for a caller's connection."""
        return self.get(query.statement), dict(query.params)


def as_json_rows(text: str) -> str:
    """Return a statement with the same rows, each as one JSON text: drivers differ in how they name
    columns and convert types."""
    return read("session/json_rows").replace("{statement}", text)
