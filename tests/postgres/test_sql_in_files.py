"""SQL stands in files, where it can be read, tried in psql and found: no Python string holds a
statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rota

PACKAGE = Path(rota.__file__).parent
_OBJECT = r"(?:SCHEMA|TABLE|DATABASE|ROLE|FUNCTION|VIEW|INDEX|TRIGGER|SYSTEM|SEQUENCE)\b"
_STATEMENT = re.compile(
    r"\s*(?:SELECT\s|WITH\s+\w+\s+AS\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s"
    rf"|(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+|UNIQUE\s+|TEMP\s+)?{_OBJECT}"
    r"|TRUNCATE\s|COPY\s|LOCK\s+TABLE\s|SET\s+(?:LOCAL|SESSION|CONSTRAINTS)\s|RESET\s|DISCARD\s"
    r"|LISTEN\s|UNLISTEN\b|NOTIFY\s|BEGIN\b|COMMIT\b|ROLLBACK\b|SAVEPOINT\s|CALL\s|VACUUM\b)"
)
# Statements that people are shown, and those about servers and databases, where no schema is.
ALLOWED = {
    "operations/reports/checks/": "the commands that `rota doctor` advises",
    "benchmark/run.py": "drops the temporary schema of a benchmark",
    "postgres/statements.py": "the call of a SQL function by its name",
    "embedded/server.py": "creates role and database of an embedded server",
    "testing/databases.py": "creates and drops databases of tests",
}


def test_no_statement_stands_in_a_python_string() -> None:
    found = [
        f"{place}:{line}: {text[:60]!r}"
        for place, line, text in strings()
        if _STATEMENT.match(text) and "…" not in text and not place.startswith(tuple(ALLOWED))
    ]
    assert found == [], "move them to postgres/sql/<noun>/<verb>.sql"


def test_what_is_allowed_is_still_there() -> None:
    holding = {place for place, _, text in strings() if _STATEMENT.match(text)}
    assert [
        allowed for allowed in ALLOWED if not any(place.startswith(allowed) for place in holding)
    ] == []


def strings() -> Iterator[tuple[str, int, str]]:
    """The file, the line and the text of each string that is no docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in prose:
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if isinstance(text, str):
                    yield str(path.relative_to(PACKAGE)), node.lineno, text
