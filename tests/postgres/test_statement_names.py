"""Statements are called by typed functions of the store, and by their names only there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rota
from rota.model.audit import AuditFilters
from rota.model.error_group import ErrorFilters
from rota.model.event import EventFilters
from rota.model.exclusion import can_exclude, filters_by_word
from rota.model.log_question import LogFilters
from rota.model.run_filter import RunFilters

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


def test_statements_compare_each_filter_that_can_be_left_out_by_its_name() -> None:
    """One without a comparison of its own would leave out nothing, or something else."""
    filters = {
        "runs": RunFilters, "logs": LogFilters, "errors": ErrorFilters, "events": EventFilters,
        "audit": AuditFilters,
    }  # fmt: skip
    seen = set()
    for path in sorted(SQL.rglob("*.sql")):
        for compared in re.findall(r"CASE x\.name\n(.*?) END", path.read_text("utf-8"), re.DOTALL):
            noun = path.parent.name
            words = filters_by_word(filters[noun]).items()
            declared = {word for word, argument in words if can_exclude(argument)}
            assert set(re.findall(r"^ +WHEN '(\w+)' THEN", compared, re.M)) == declared, path
            assert not re.search(r"^ +ELSE ", compared, re.M), path
            seen.add(noun)
    assert seen == {*filters}
