"""docs/guarantees.md names tests that exist. They are looked up in the source, not imported."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


@cache
def defined_in(path: str) -> frozenset[str]:
    """`test_name`, or `TestClass::test_name`, of every test of a file."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for inner in body:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + inner.name)
    return frozenset(found)


def promises() -> dict[str, str]:
    """The text of each numbered promise, by its heading."""
    parts = re.split(r"^### (\d+\. .*)$", PAGE, flags=re.MULTILINE)
    return {
        title: text.split("\n## ")[0] for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_named_test_exists() -> None:
    named = _NAMED.findall(PAGE)
    assert named
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists() or test not in defined_in(path)
    ]
    assert not missing, "guarantees.md names tests that do not exist:\n" + "\n".join(missing)


def test_every_word_that_looks_like_a_test_is_checked() -> None:
    assert len(re.findall(r"tests/\S*::", PAGE)) == len(_NAMED.findall(PAGE))


def test_every_promise_is_shown_by_tests_or_not_yet_made() -> None:
    assert [title.split(".")[0] for title in promises()] == [str(n) for n in range(1, 11)]
    for title, text in promises().items():
        assert _NAMED.search(text) or "not yet made" in text, title


def test_every_row_of_a_table_names_a_test() -> None:
    rows = re.findall(r"^\| (?!---).*$", PAGE, re.MULTILINE)
    bare = [row for row in rows if not _NAMED.search(row) and not row.endswith("| test |")]
    assert not bare, "rows without a test:\n" + "\n".join(bare)
