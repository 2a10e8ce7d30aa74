"""docs/reference/sql.md names every function and column that users may rely on, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"sql.md has no section {title!r}"
    return found[1]


_FUNCTIONS = """
SELECT p.proname, pg_get_function_result(p.oid), ARRAY(
    SELECT jsonb_build_array(p.proargnames[n], format_type(p.proargtypes[n - 1], NULL),
                             pg_get_function_arg_default(p.oid, n))
    FROM generate_series(1, p.pronargs) n)
FROM pg_proc p WHERE p.pronamespace = 'rota'::regnamespace AND p.prorettype <> 'trigger'::regtype
"""
_RELATIONS = """
SELECT c.relname, CASE c.relkind WHEN 'v' THEN 'View' ELSE 'Table' END FROM pg_class c
WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p', 'v')
  AND NOT c.relispartition
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL),
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def functions(conn: psycopg.Connection[Any]) -> dict[str, tuple[str, str]]:
    """All functions of the schema: their arguments, and what they return, as the page writes it."""
    return {
        name: (", ".join(_argument(*one) for one in arguments), _short(result))
        for name, result, arguments in conn.execute(_FUNCTIONS).fetchall()
    }


def _argument(name: str, type_: str, default: str | None) -> str:
    """A default that is NULL is not written: it is what an argument is without one."""
    text = re.sub(r"::[\w ]+(\[\])?$", "", default or "NULL").replace(
        "CURRENT_USER", "current_user"
    )
    return f"{name} {_short(type_)}" + ("" if text == "NULL" else f" = {text}")


def _column(name: str, type_: str, default: str | None) -> str:
    shown = _argument(name, type_, default).removeprefix(f"{name} ")
    kind, _, value = shown.partition(" = ")
    return f"`{name}` | {kind}" + (f" = `{value}`" if value else "")


def _short(type_: str) -> str:
    return type_.replace("timestamp with time zone", "timestamptz").replace("TABLE(", "TABLE (")


def entries() -> dict[str, str]:
    """The functions that the page tells users about, each with its text."""
    parts = re.split(r"^### `rota\.(\w+)`\n", section("Functions"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def relations() -> dict[str, str]:
    """The relations that have a section, with their kind."""
    found = re.findall(r"^## (Table|View) `rota\.(\w+)`$", PAGE, re.MULTILINE)
    return {name: kind for kind, name in found}


def test_every_function_is_told_or_listed_as_internal(conn: psycopg.Connection[Any]) -> None:
    internal = re.findall(r"`(\w+)`", section("Internal functions"))
    assert sorted([*entries(), *internal]) == sorted(functions(conn))


@pytest.mark.parametrize("name", entries())
def test_entries_show_arguments_defaults_and_result(
    conn: psycopg.Connection[Any], name: str
) -> None:
    shown = re.search(
        rf"rota\.{name}\((.*?)\) RETURNS (.*?)(?:`|\n```)", entries()[name], re.DOTALL
    )
    assert shown, f"the entry of {name} shows no signature"
    told = tuple(re.sub(r"\s+", " ", part.strip()) for part in shown.groups())
    assert told == functions(conn)[name]


def test_every_relation_is_told_or_listed_as_internal(conn: psycopg.Connection[Any]) -> None:
    actual = dict(conn.execute(_RELATIONS).fetchall())
    internal = re.findall(r"`(\w+)`", section("Internal relations"))
    assert sorted([*relations(), *internal]) == sorted(actual)
    assert relations() == {name: actual[name] for name in relations()}


@pytest.mark.parametrize("name", relations())
def test_every_column_has_an_entry_with_its_type_and_default_and_every_entry_a_column(
    conn: psycopg.Connection[Any], name: str
) -> None:
    text = section(f"{relations()[name]} `rota.{name}`")
    rows = re.findall(r"^\| (`\w+` \| .+?) \|", text, re.MULTILINE)
    columns = conn.execute(_COLUMNS, [f"rota.{name}"]).fetchall()
    assert rows == [_column(*one) for one in columns]


def test_every_error_code_is_explained(conn: psycopg.Connection[Any]) -> None:
    source = "SELECT string_agg(prosrc, '') FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
    (text,) = conn.execute(source).fetchone() or ("",)
    raised = set(re.findall(r"'(RO\d{3})'", text))
    explained = set(re.findall(r"^\| `(RO\d{3})`", section("Errors"), re.MULTILINE))
    assert explained == raised
