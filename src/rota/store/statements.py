"""SQL lives in files, one statement each, that read as they are in psql.

The files name the schema `rota`. An installation under another name gets the same text with
that one qualifier exchanged; a test runs the engine under another name to hold this.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from psycopg import sql

from rota.store.queries import Query

Style = Literal["numeric", "named"]
Statement = tuple[str, dict[str, Any]]

_QUALIFIER = re.compile(r"\brota\.(?=[a-z_%])")
# A line `{runs/list_ids}` stands for that file.
_INCLUDED = re.compile(r"^\{(\w+/\w+)\}$", re.MULTILINE)
_PARAMETER = re.compile(r"%\((\w+)\)s(?:::(\w+(?: precision)?(?:\[\])?))?")


def render(text: str, schema: str) -> str:
    """The text for an installation whose schema has this name."""
    return text if schema == "rota" else _QUALIFIER.sub(f'"{schema}".', text)


@cache
def convert(text: str, style: Style) -> tuple[str, tuple[str, ...]]:
    """A statement with `%(name)s::type` in another style of parameters, and their order.

    `numeric` is asyncpg's `$1`, one number a name. `named` is SQLAlchemy's `:name`, cast by CAST:
    its parser does not take `:name::type`.
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
    """A file as it is, for a statement that names nothing of the schema; or a call."""
    if called := _CALL.fullmatch(name):
        arguments = ", ".join(f"{one} => %({one})s" for one in called[2].split(", ") if one)
        return f"SELECT rota.{called[1]}({arguments}) AS answer"
    text = files("rota.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return _INCLUDED.sub(lambda found: read(found[1]), text)


class Statements:
    """All statements, for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._rendered: dict[str, str] = {}

    def get(self, name: str) -> str:
        """The statement of a file such as `runs/claim`, or the call of a SQL function."""
        text = self._rendered.get(name)
        if text is None:
            text = self._rendered[name] = render(read(name), self.schema)
        return text

    def naming(self, name: str, **identifiers: str) -> sql.Composed:
        """The statement of a file with `{places}` for these names."""
        quoted = {place: sql.Identifier(one) for place, one in identifiers.items()}
        return sql.SQL(self.get(name)).format(**quoted)

    def of(self, query: Query[Any]) -> Statement:
        """Its text and its parameters, for a connection that is not ours to use."""
        return self.get(query.statement), dict(query.params)


def as_json_rows(text: str) -> str:
    """The same rows, each as one JSON text: drivers differ in how they name columns and in what
    they make of their types."""
    return read("session/json_rows").replace("{statement}", text)
