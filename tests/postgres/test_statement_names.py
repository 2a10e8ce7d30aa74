"""Statements are called by typed functions of the store, and by their names only there."""

from __future__ import annotations

import ast
from pathlib import Path

import rota

ROOT = Path(rota.__file__).parent
SQL = ROOT / "postgres" / "sql"
NAMES = {path.relative_to(SQL).with_suffix("").as_posix() for path in SQL.rglob("*.sql")}
NOUNS = tuple(f"{path.name}/" for path in SQL.iterdir() if path.is_dir())


def named_statements(source: str) -> list[tuple[int, str]]:
    """Line and text of strings that name a statement, or of f-strings that put a name together."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            found.append((node.lineno, str(node.value)))
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            first = str(node.values[0].value)
            if first.startswith(NOUNS) and " " not in first:
                found.append((node.lineno, first))
    return found


def test_nobody_outside_of_the_store_names_a_statement() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sorted(ROOT.rglob("*.py"))
        if not path.is_relative_to(ROOT / "postgres")
        for line, text in named_statements(path.read_text("utf-8"))
    ]
    assert not named, "write a typed function in the room of its noun in postgres/"


def test_the_check_finds_names_and_names_put_together() -> None:
    sample = (
        'sql = statements.get("runs/rescue")\n'
        'rows = await feed.run("queues/busy")\n'
        'yield Execute(f"views/{verb}", params)\n'
        'text = f"runs/s {number}"\n'
        'path = "runs/unknown"\n'
    )
    assert named_statements(sample) == [(1, "runs/rescue"), (2, "queues/busy"), (3, "views/")]
