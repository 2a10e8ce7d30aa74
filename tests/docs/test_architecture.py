"""docs/architecture.md names every table of the schema, and only code that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rota"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_CODE = re.compile(r"`([\w/]+\.py)::([\w.]+)`")


@cache
def names_in(path: str) -> frozenset[str]:
    """`function`, `Class` and `Class.method` of a module."""
    found = set()
    for node in ast.parse((SOURCE / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (
                it for it in node.body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            found |= {f"{node.name}.{it.name}" for it in methods}
    return frozenset(found)


def test_every_table_has_a_row_and_every_row_a_table(conn: psycopg.Connection[Any]) -> None:
    query = """
        SELECT relname FROM pg_class
        WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    """
    section = PAGE.partition("<!-- tables -->")[2].partition("<!-- end of tables -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(name for (name,) in conn.execute(query))
    assert all(text.endswith(".") for _, text in rows)


def test_named_code_exists() -> None:
    named = _CODE.findall(PAGE)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (SOURCE / path).exists() or name not in names_in(path)
    ]
    assert named
    assert not missing, "architecture.md names code that does not exist:\n" + "\n".join(missing)


def test_named_functions_of_the_schema_exist(conn: psycopg.Connection[Any]) -> None:
    query = """
        SELECT proname FROM pg_proc WHERE pronamespace = 'rota'::regnamespace
        UNION SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace
    """
    known = {name for (name,) in conn.execute(query)}
    assert set(re.findall(r"`?rota\.([a-z_]+)", PAGE)) <= known


def test_every_walk_names_the_code_of_each_step() -> None:
    walks = PAGE.partition("## Five walks")[2].partition("\n## ")[0].split("\n### ")[1:]
    assert [walk.partition("\n")[0] for walk in walks] == [
        "A run", "An occurrence", "A log line", "An API request", "A dashboard page",
    ]  # fmt: skip
    for walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        bare = [step for step in steps if not (_CODE.search(step) or "`rota." in step)]
        assert not bare
