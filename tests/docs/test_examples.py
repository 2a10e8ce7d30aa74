"""Runs the examples of README and docs: blocks after a line `<!-- run -->`, page by page.

The python and sql blocks of a page share one database, and the python blocks one namespace and
one event loop, so that `await` may stand alone. What a block prints is compared with the block
after `<!-- output -->`, if there is one.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^<!-- (run|output) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    language: str
    text: str
    line: int
    output: str | None


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "<!-- run -->" in page.read_text(encoding="utf-8")]


def examples(page: Path) -> Iterator[Example]:
    text = page.read_text(encoding="utf-8")
    blocks = list(_BLOCK.finditer(text))
    for n, block in enumerate(blocks):
        if block[1] == "run":
            after = blocks[n + 1] if n + 1 < len(blocks) else None
            output = after[3] if after and after[1] == "output" else None
            yield Example(block[2], block[3], text.count("\n", 0, block.start(3)), output)


class Page:
    """Runs the examples of one page, one after another."""

    def __init__(self, page: Path, database_url: str) -> None:
        self._page = page
        self._url = database_url
        self.module = ModuleType(f"example_{page.stem.replace('-', '_')}")

    def run(self, runner: asyncio.Runner, example: Example) -> None:
        if example.language == "sql":
            with psycopg.connect(self._url, autocommit=True) as conn:
                conn.execute(example.text.encode())
            return
        assert example.language == "python", f"cannot run {example.language}"
        # As many empty lines before it as in the page: tracebacks name the page's own line.
        source = "\n" * example.line + example.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(self._page), "exec", flags=flags, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, vars(self.module)))
        else:
            exec(code, vars(self.module))

    def close(self, runner: asyncio.Runner) -> None:
        app: Any = vars(self.module).get("app")
        if app is not None:
            runner.run(app.close())


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(
    page: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
    monkeypatch.setenv("ROTA_WORKER_POLL_SECONDS", "0.1")
    prepared = Page(page, database_url)
    monkeypatch.setitem(sys.modules, prepared.module.__name__, prepared.module)
    if page.stem == "sql":
        register_jobs_of_sql_page(database_url)
    with asyncio.Runner() as runner:
        for example in examples(page):
            prepared.run(runner, example)
            printed = capsys.readouterr().out
            if example.output is not None:
                assert printed == example.output, f"{page.name}, line {example.line}"
        prepared.close(runner)


def register_jobs_of_sql_page(database_url: str) -> None:
    """That page speaks to people without Python; somebody else declares their jobs."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('send_welcome')")


def test_every_marker_is_followed_by_a_block() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        marks = len(re.findall(r"^<!-- (?:run|output) -->", text, re.MULTILINE))
        assert marks == len(_BLOCK.findall(text)), page.name
