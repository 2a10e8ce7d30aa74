"""`postgres/schema` as something to read: each function once, with what it promises above it."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.schema.topics import Function, callers, files, functions, reference_lines

FUNCTIONS = functions()
CALLERS = callers()
_CREATES = re.compile(
    r"^CREATE (?:UNLOGGED )?(?:TABLE|VIEW|SEQUENCE|TYPE|DOMAIN) rota\.(\w+)", re.M
)
# Words about earlier texts, which nobody can read any more.
_PAST = re.compile(r"as before \(|\bmigration \d|\(0\d{3}\)", re.IGNORECASE)
_LONG = 120
_TEXT_OR_COMMENT = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$(?!body\$)(\w+)\$.*?\$\1\$", re.S)


def test_everything_is_defined_once() -> None:
    found = Counter(function.name for function in FUNCTIONS)
    for path in files():
        found.update(_CREATES.findall(path.read_text("utf-8")))
    assert [name for name, times in found.items() if times > 1] == []
    text = "\n".join(path.read_text("utf-8") for path in files())
    assert "CREATE OR REPLACE" not in text
    assert not re.search(r"^(ALTER FUNCTION|DROP|DO) ", text, re.M)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_file_opens_with_what_it_is_about(path: Path) -> None:
    text = path.read_text("utf-8")
    opening = text.partition("\n\n")[0]
    assert opening.startswith("-- ")
    assert all(line.startswith("--") for line in opening.splitlines())
    assert not _PAST.search(text)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_lines_are_short(path: Path) -> None:
    """Longer are only those that a text makes so, which cannot be cut."""

    def shorten(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("--") else "''"

    lines = _TEXT_OR_COMMENT.sub(shorten, path.read_text("utf-8")).splitlines()
    assert [line for line in lines if len(line) > _LONG] == []


def test_a_table_says_what_it_holds() -> None:
    silent = []
    for path in files():
        text = path.read_text("utf-8")
        for name in re.findall(r"^CREATE (?:UNLOGGED )?TABLE rota\.(\w+)", text, re.M):
            above = rf"^--[^\n]*\nCREATE (?:UNLOGGED )?TABLE rota\.{name}\b"
            if not re.search(rf"{above}|^COMMENT ON TABLE rota\.{name}\b", text, re.M):
                silent.append(name)
    assert silent == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_function_has_its_contract(function: Function) -> None:
    """Prose, then who calls it and what it locks, as the files say it now."""
    words = " ".join(line.removeprefix("--").strip() for line in function.above.splitlines())
    wanted = reference_lines(function, CALLERS[function.name])
    assert words.endswith(wanted.replace("\n", " ")), (
        f"{function.file}, {function.name}: the contract ends with\n" + as_comment(wanted)
    )
    prose = words.removesuffix(wanted.replace("\n", " ")).strip()
    assert len(prose) > 10, f"{function.file}: what {function.name} does is not said above it"
    assert "Called by:" not in prose


def test_one_function_says_what_holds_a_run() -> None:
    """A hold that is decided elsewhere forgets the others: a suspect ran beside its neighbours."""
    elsewhere = [
        f"{function.name}: {found[0]}"
        for function in FUNCTIONS
        for found in re.finditer(r"(?<![.\w])held_by = (?!rota\.hold_of\()[^\n]*", function.text)
        if (function.name, found[0]) != ("claim_suspect", "held_by = NULL")  # it runs
    ]
    assert elsewhere == []
    silent = [
        function.name
        for function in FUNCTIONS
        if re.search(r"INSERT INTO rota\.open_runs \([^)]*\bheld_by\b", function.text)
        and "rota.hold_of(" not in function.text
    ]
    assert silent == []


def as_comment(text: str) -> str:
    lines = [textwrap.wrap(line, 117, break_on_hyphens=False) for line in text.splitlines()]
    return "\n".join(f"-- {line}" for part in lines for line in part)
