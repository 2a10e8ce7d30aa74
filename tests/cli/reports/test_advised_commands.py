"""Every command that an explanation, a check or a page advises can be run as it is printed.

`tests/operations/reports` runs those of `why` and `attention` where they are provoked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.operations.command_line import line_of
from tests.printed import fault, run_printed

ADVISED = "SELECT code, command FROM rota.reasons WHERE command IS NOT NULL ORDER BY code, command"
# What stands in a command for options that only some facts need.
PARTS = {"of": "--job work", "of_tenant": "--tenant acme "}
PLACE = Path(rota.__file__).parent


def of_checks() -> Iterator[str]:
    for path in sorted((PLACE / "operations" / "reports" / "checks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and str(node.value).startswith("rota "):
                yield str(node.value)


def of_pages() -> Iterator[str]:
    for path in sorted((PLACE / "web" / "templates").rglob("*.html")):
        found = re.findall(r'ui\.command\("(rota [^"]*)"\)', path.read_text(encoding="utf-8"))
        yield from map(unescape, found)


def test_those_of_why_are_complete(conn: psycopg.Connection[Any]) -> None:
    advised = conn.execute(ADVISED).fetchall()
    assert len(advised) > 50
    filled = [
        (code, re.sub(r"\{(\w+)\}", lambda it: PARTS.get(it[1], "1"), text))
        for code, text in advised
    ]
    assert [(code, text, found) for code, text in filled if (found := fault(text))] == []


@pytest.mark.parametrize("line", sorted(set(of_checks())))
def test_those_of_checks_run(app_url: str, line: str) -> None:
    assert run_printed(app_url, line) is None


@pytest.mark.parametrize("line", sorted(set(of_pages())))
def test_those_of_pages_are_complete(line: str) -> None:
    assert fault(line) is None


def test_the_one_helper_quotes_and_knows_the_flags() -> None:
    lines = {
        line_of("schedules", "update", "it's due", jitter="90s"),
        line_of("queues", "set", "a b", max_waiting=None),
        line_of("limits", "set", "mail", cap=3, period_seconds=60, tenant="acme"),
        line_of("runs", "list", job="a b", state="failed"),
        line_of("jobs", "get", "-odd"),
    }
    assert "rota schedules update 'it'\"'\"'s due' --jitter 90s" in lines
    assert "rota limits set mail --cap 3 --period 60 --tenant acme" in lines
    assert [(line, found) for line in sorted(lines) if (found := fault(line))] == []
