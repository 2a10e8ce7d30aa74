"""No interface advises in the words of another: all hints of SQL and of the library are read from
their sources, and said as each interface would."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import get_args

import pytest
import typer.main

import rota
from rota.api.app import create_api
from rota.api.schemas.schedule_bodies import ARGUMENTS
from rota.cli.program import program
from rota.cli.terminal.wording import typed
from rota.jobs.job_settings import SHORT_NAMES
from rota.jobs.options import OTHER_NAMES
from rota.model.wording import FIELDS, LISTS, WORDS, Face, listed, said
from tests.docs.test_cli_docs import commands, flags

PLACE = Path(rota.__file__).parent
FLAGS = {flag for _, one in commands(typer.main.get_command(program())) for flag in flags(one)}
# Operators install and serve Rota by commands, whatever they use it by.
OPERATION = r"`rota (?:migrate|grant|config list|server --new-token)`"
OF_SQL = r"=>|\brota\.[a-z_]+|\bNULL\b|\b[Cc]olumn to\b|\b[a-z]+_[a-z_]+\([^)]*\)"
OF_PYTHON = r"\bapp\.[a-z_]+|\b[a-z_]+=[A-Z'0-9]|\bNone\b|timedelta|@app"
OF_REST = r"/api/v1|\b(?:GET|POST|PUT|PATCH|DELETE) /"
OF_CLI = r"`rota [a-z]|(?<![\w-])--[a-z]"
FOREIGN: dict[str, re.Pattern[str]] = {
    "sql": re.compile("|".join((OF_PYTHON, OF_REST, OF_CLI))),
    "python": re.compile(
        "|".join((OF_SQL.replace(r"\b[a-z]+_[a-z_]+\([^)]*\)", "=>"), OF_REST, OF_CLI))
    ),
    "rest": re.compile("|".join((OF_SQL, OF_PYTHON, OF_CLI))),
    "cli": re.compile("|".join((OF_SQL, OF_PYTHON, OF_REST, r"[a-z]_seconds\b"))),
    "page": re.compile("|".join((OF_SQL, OF_PYTHON, OF_REST, OF_CLI))),
}
# By their beginning: SQL is what the reader has to write, or has written.
IN_SQL = (
    "Call allow_run_as(", "Return jsonb_build_object(", "Find out who changed it",
    "Do it as a member of that role",
    "Call pause_queue()", "Call pause_schedule()", "Call pause_tenant()",
)  # fmt: skip
# The reader writes or runs Python, whatever shows it.
IN_CODE = (
    "enqueue_sync()", "give one of them another name: ", "use force=True", "write (",
    "pass a payload, or give the job a default: @app.job", "pass the key to rota.debounce",
    "declare the job with @app.job", "set TEST_RUNNER = ",
)  # fmt: skip
# Keys of JSON, which are the same everywhere.
IN_JSON = (
    "Use kind, base_seconds, factor", 'Write for example {"debounce_seconds"',
    'Write for example [{"name": "import"',
)  # fmt: skip


def literals(text: str) -> Iterator[tuple[str, str]]:
    """The words and the string literals of SQL, in order. Two literals in a row are one."""
    tokens = re.findall(r"--[^\n]*|E?'(?:[^']|'')*'|\w+|:=|[^\s\w]", text)
    kinds = groupby(
        (one for one in tokens if not one.startswith("--")), lambda one: one.endswith("'")
    )
    for is_literal, group in kinds:
        if is_literal:
            parts = (re.sub(r"^E?'|'$", "", one).replace("''", "'") for one in group)
            yield "literal", "".join(parts).replace("\\n", "\n")
        else:
            yield from (("word", one) for one in group)


def hints_of_sql() -> set[str]:
    """What follows `HINT =` and `hint :=`, the last argument of `bad_…`, and the second line of the
    comment on a constraint."""
    found: set[str] = set()
    for path in sorted((PLACE / "postgres" / "schema").glob("*.sql")):
        statement: list[tuple[str, str]] = []
        for kind, text in literals(path.read_text(encoding="utf-8")):
            statement.append((kind, text))
            if (kind, text) == ("word", ";"):
                found |= _hints(statement)
                statement = []
    return found


def _hints(statement: list[tuple[str, str]]) -> set[str]:
    words = [text for kind, text in statement if kind == "word"]
    said_ = [text for kind, text in statement if kind == "literal"]
    if "CONSTRAINT" in words and "COMMENT" in words:
        return {line for text in said_ for line in text.split("\n")[1:]}
    if any(word.startswith("bad_") for word in words) and "FUNCTION" not in words:
        return {text for text in said_ if " " in text}
    for place, (kind, text) in enumerate(statement):
        if kind == "word" and (
            text == "HINT" or (text == "hint" and statement[place + 1][1] == ":=")
        ):
            return {it for kind, it in statement[place:] if kind == "literal" and " " in it}
    return set()


def hints_of_python() -> set[str]:
    """Of what all interfaces use; the command line and the pages speak for themselves."""
    places = ("operations", "postgres", "model", "timing", "jobs")
    return {
        text
        for place in places
        for path in sorted((PLACE / place).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for text in _given(node)
    }


def _given(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg == "hint":
        yield from _texts(node.value)
    if isinstance(node, ast.Assign) and any(ast.unparse(it) == "hint" for it in node.targets):
        yield from _texts(node.value)


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(
                it.value if isinstance(it, ast.Constant) else "x"
                for it in value.values
                if isinstance(it, ast.Constant | ast.FormattedValue)
            )  # type: ignore[misc]
        case ast.IfExp() | ast.BoolOp():
            for child in ast.iter_child_nodes(value):
                if isinstance(child, ast.expr):
                    yield from _texts(child)
        case ast.Call(func=ast.Name(id="listed"), args=[ast.Constant(value=noun)]):
            yield listed(noun)


SQL, PYTHON = hints_of_sql(), hints_of_python()


def test_hints_are_found() -> None:
    assert len(SQL) > 60
    assert len(PYTHON) > 30
    assert "rota.jobs.payload_schema describes its arguments." in SQL
    assert "Call pause_queue() or resume_queue()." in SQL
    assert "Write for example invoice:{invoice_id}." in SQL
    assert "app.jobs.list() lists them" in PYTHON


def foreign(text: str, face: Face) -> bool:
    bare = re.sub(OPERATION, "", text)
    return not text.startswith((*IN_SQL, *IN_CODE)) and bool(FOREIGN[face].search(bare))


def test_sql_speaks_its_own_words() -> None:
    assert [text for text in sorted(SQL) if foreign(text, "sql")] == []


@pytest.mark.parametrize("face", ["python", "rest", "page"])
def test_every_hint_in_the_words_of_the_interface(face: Face) -> None:
    heard = SQL if face == "python" else {said(text, "python") for text in SQL} | PYTHON
    told = {text: said(text, face) for text in sorted(heard)}
    assert {text: it for text, it in told.items() if foreign(it, face)} == {}


def test_every_hint_in_the_words_of_the_command_line() -> None:
    heard = {said(text, "python") for text in SQL} | PYTHON
    told = {text: typed(text, FLAGS) for text in sorted(heard) if not text.startswith(IN_JSON)}
    assert {text: it for text, it in told.items() if foreign(it, "cli")} == {}


def test_a_schema_by_another_name_is_understood() -> None:
    assert said("acme_jobs.jobs lists them.", "rest") == "GET /api/v1/jobs lists them."
    assert said("rota.jobs lists them.", "python") == "app.jobs.list() lists them."
    assert said(listed("jobs"), "cli") == "`rota jobs list` lists them"


def test_words_are_told_once() -> None:
    """What an interface says is nothing that it would translate again."""
    for face in get_args(Face):
        for words in WORDS:
            assert said(getattr(words, face), face) == getattr(words, face)


def test_lists_exist() -> None:
    paths = {path for path, _ in commands(typer.main.get_command(program()))}
    app = rota.App(embedded=False)
    api = create_api(rota.App(embedded=False, **{"server.token": "a token for tests"}))
    routes = {route.path for _, route in api.state.rota.routes}
    for words in LISTS.values():
        call = words.python.split("(")[0].split(".")[1:]
        found: object = app
        for name in call:
            found = getattr(found, name)
        assert words.cli.split("`")[1] in paths
        assert words.rest.split()[1].removeprefix("/api/v1") in routes


def test_fields_of_the_api_are_the_columns() -> None:
    known = {short: long for long, short in {**OTHER_NAMES, **ARGUMENTS}.items()}
    known |= {short: long for short, long in SHORT_NAMES.items() if short != "payload"}
    assert known | {"key_period": "period_seconds"} == FIELDS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every must be at least 1 seconds, not 0.5", "interval_seconds must be"),
        ('job "send": timeout must be positive', 'job "send": timeout_seconds must'),
        ("a schedule needs exactly one of cron, every, at and init, found cron and every",
         "cron, interval_seconds, run_at and init, found cron and interval_seconds"),
        ("key_period needs a key", "period_seconds needs a key"),
        ("drop the first field (the seconds), or set with_seconds", "or set has_seconds"),
        ("every run of it is late", "every run of it is late"),
        ('job "x": argument key_keep is missing', 'job "x": argument key_keep is missing'),
        ('no schedule is named "with_seconds"', 'no schedule is named "with_seconds"'),
    ],
)  # fmt: skip
def test_options_are_called_as_the_api_calls_them(text: str, told: str) -> None:
    assert told in said(text, "rest")
