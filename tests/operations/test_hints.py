"""Errors are data: each interface says them in its own words, and never in those of another."""

from __future__ import annotations

import ast
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota import errors
from rota.api.app import create_api
from rota.api.errors import STATUS, as_problem
from rota.api.words import API
from rota.cli.terminal.words import CliWords
from rota.errors import BY_SQLSTATE, RotaError, code_of
from rota.hints import FIELD, PYTHON, Hint, Name, OperationCall, ShellCommand, Words
from rota.postgres.hints import HINTS
from rota.web.words import PAGES
from tests.cli.conftest import Cli

PLACE = Path(rota.__file__).parent
FACES: dict[str, Words] = {"python": PYTHON, "rest": API, "cli": CliWords(), "page": PAGES}
# Operators install and serve Rota by commands, whatever they use it by.
OPERATION = r"`(?:rota (?:migrate|grant|config list|server --new-token)|--app|--config)`"
SQL = r"=>|\brota\.[a-z_]+|\bNULL\b|\b[Cc]olumn to\b|\b[a-z]+_[a-z_]+\([^)]*\)"
IN_PYTHON = r"\bapp\.[a-z_]+|\b[a-z_]+=[A-Z'0-9]|\bNone\b|timedelta|@app"
REST = r"/api/v1|\b(?:GET|POST|PUT|PATCH|DELETE) /"
CLI = r"`rota [a-z]|(?<![\w-])--[a-z]"
FOREIGN = {
    "python": "|".join((SQL.replace(r"\b[a-z]+_[a-z_]+\([^)]*\)", "=>"), REST, CLI)),
    "rest": "|".join((SQL, IN_PYTHON, CLI)),
    "cli": "|".join((SQL, IN_PYTHON, REST)),
    "page": "|".join((SQL, IN_PYTHON, REST, CLI)),
}
ANY = "|".join((SQL, IN_PYTHON, REST, CLI))
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
    "declare the job with @app.job", "set TEST_RUNNER = ", "await enqueue()",
)  # fmt: skip
VALUES = {"job": "send", "schedule": "digest", "tenant": "acme", "queue": "mail", "run": 7}


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


def hints_of_sql() -> dict[str, set[str]]:
    """The codes of each hint: what follows `HINT =` and `hint :=`, the last argument of `bad_…`,
    and the second line of the comment on a constraint."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((PLACE / "postgres" / "schema").glob("*.sql")):
        statement: list[tuple[str, str]] = []
        for kind, text in literals(path.read_text(encoding="utf-8")):
            statement.append((kind, text))
            if (kind, text) == ("word", ";"):
                for hint in _hints(statement):
                    found[hint] |= _codes(statement)
                statement = []
    return found


def _hints(statement: list[tuple[str, str]]) -> set[str]:
    words = [text for kind, text in statement if kind == "word"]
    texts = [text for kind, text in statement if kind == "literal"]
    if "CONSTRAINT" in words and "COMMENT" in words:
        return {line for text in texts for line in text.split("\n")[1:]}
    if any(word.startswith("bad_") for word in words) and "FUNCTION" not in words:
        return {text for text in texts if " " in text}
    for place, (_, text) in enumerate(statement):
        if text == "HINT" or (text == "hint" and statement[place + 1][1] == ":="):
            return {it for kind, it in statement[place:] if kind == "literal" and " " in it}
    return set()


def _codes(statement: list[tuple[str, str]]) -> set[str]:
    texts = {text for kind, text in statement if kind == "literal"}
    return {code_of(BY_SQLSTATE[one]) for one in texts & set(BY_SQLSTATE)} | texts & set(HINTS)


def hints_of_python() -> set[str]:
    """The literal hints of what all interfaces use, and the texts of those that are data."""
    places = ("operations", "postgres", "model", "timing", "jobs")
    return {
        text
        for place in places
        for path in sorted((PLACE / place).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for text in _given(node)
    }


def _given(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.keyword(arg="hint", value=value):
            yield from _texts(value)
        case ast.Assign(targets=[ast.Name(id="hint")], value=value):
            yield from _texts(value)
        case ast.Call(func=ast.Name(id="Hint" | "_always" | "_of_job"), args=[first, *_]):
            yield from _texts(first)


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(
                str(it.value) if isinstance(it, ast.Constant) else "x" for it in value.values
            )
        case ast.IfExp() | ast.BoolOp():
            for child in ast.iter_child_nodes(value):
                if isinstance(child, ast.expr):
                    yield from _texts(child)


def messages_of_sql() -> set[str]:
    """What follows `RAISE EXCEPTION`, `fault :=` and the `what` of `bad_…`."""
    found: set[str] = set()
    for path in sorted((PLACE / "postgres" / "schema").glob("*.sql")):
        words = list(literals(path.read_text(encoding="utf-8")))
        for place, (kind, text) in enumerate(words):
            before = {word for _, word in words[max(0, place - 5) : place]}
            if kind == "literal" and before & {"EXCEPTION", "fault"}:
                found.add(text)
    return found


def messages_of_python() -> set[str]:
    """The messages of errors that all interfaces show; those of declarations show only in code."""
    places = ("operations", "postgres", "model", "timing")
    kinds = {kind.__name__ for kind in STATUS} | {"wrong"}
    return {
        text
        for place in places
        for path in sorted((PLACE / place).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and node.args
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in kinds
        for text in _texts(node.args[0])
    }  # fmt: skip


def foreign(text: str, pattern: str) -> bool:
    bare = re.sub(OPERATION, "", text)
    return not text.startswith((*IN_SQL, *IN_CODE)) and bool(re.search(pattern, bare))


def test_hints_of_sql_without_data_suit_every_interface() -> None:
    found = hints_of_sql()
    assert len(found) > 100
    plain = [text for text, codes in found.items() if not codes & set(HINTS)]
    assert [text for text in sorted(plain) if foreign(text, ANY)] == []


def test_every_code_with_data_is_raised() -> None:
    raised = set().union(*hints_of_sql().values())
    schema = "".join(path.read_text() for path in (PLACE / "postgres" / "schema").glob("*.sql"))
    assert [code for code in HINTS if code not in raised and f"'{code}'" not in schema] == []


def test_hints_of_the_library_suit_every_interface() -> None:
    found = hints_of_python()
    assert len(found) > 50
    assert [text for text in sorted(found) if foreign(text, ANY)] == []


def test_messages_suit_every_interface() -> None:
    found = messages_of_sql() | messages_of_python()
    assert len(found) > 250
    # A filter of the list of runs, and a place in code.
    known = ("a view needs a filter, such as", 'schedule "x" is declared twice: ')
    odd = [text for text in sorted(found) if re.search(ANY, re.sub(OPERATION, "", text))]
    assert [text for text in odd if not text.startswith(known)] == []


@pytest.fixture(scope="module", autouse=True)
def api() -> Any:
    """The paths of reads are known when the routes are there."""
    return create_api(rota.App(embedded=False, **{"server.token": "a token for tests"}))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("code", HINTS)
def test_every_code_in_the_words_of_the_interface(code: str, face: str) -> None:
    said = FACES[face].hint(HINTS[code](VALUES))
    assert said
    assert not re.search(FOREIGN[face], said), said
    assert "{" not in re.sub(r"\{name\}|\{\w+:int\}", "", said)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", STATUS, ids=code_of)
def test_every_error_in_the_words_of_the_interface(kind: type[RotaError], face: str) -> None:
    if kind in (errors.RunFailed, errors.AttemptTimeout):
        return
    hint = Hint("{} or {} or {} or {}", OperationCall("jobs", "rename", "a b"), Name("cap"), None,
                ShellCommand(("migrate",)))  # fmt: skip
    error = kind(f"{FIELD} is wrong", hint=hint, field="max_waiting", values={"least": 0})
    said = f"{error.sentence(FACES[face])}; {FACES[face].hint(error.advice)}"
    assert FIELD not in said
    assert not re.search(FOREIGN[face], re.sub(OPERATION, "", said)), said


WORDS = {
    "python": "app.jobs.delete('a b', cascade=True)",
    "rest": "DELETE /api/v1/jobs/a%20b?cascade=true",
    "cli": "`rota jobs delete 'a b' --cascade`",
    "page": "“Delete job” with “Cascade”",
}


@pytest.mark.parametrize("face", FACES)
def test_an_operation_is_named_from_the_registry(face: str) -> None:
    assert (
        FACES[face].call(OperationCall("jobs", "delete", "a b", {"cascade": True})) == WORDS[face]
    )


def test_a_problem_of_the_api_has_the_data() -> None:
    error = errors.LimitError(
        f"{FIELD} must be more",
        field="cap",
        code="out_of_range",
        values={"least": 1, "most": 1e999, "of": {"a": 1}},
    )
    error.operation = "set_limit"
    body = as_problem(error).body()
    assert {name: body[name] for name in ("code", "field", "operation", "values", "detail")} == {
        "code": "out_of_range", "field": "cap", "operation": "set_limit",
        "values": {"least": 1, "most": "inf", "of": {"a": 1}}, "detail": "cap must be more",
    }  # fmt: skip


def test_an_operation_names_itself(shop: rota.App) -> None:
    with pytest.raises(errors.UnknownJob) as caught:
        shop.jobs.sync.rename("nothing", "something")
    assert (caught.value.operation, caught.value.code) == ("rename_job", "unknown_job")
    assert caught.value.values == {"job": "nothing"}
    with pytest.raises(errors.InputError) as wrong:
        shop.queues.sync.set("mail", max_waiting=-1)
    assert (wrong.value.operation, wrong.value.field) == ("set_queue", "max_waiting")
    assert wrong.value.values["given"] == -1


# What is refused, on the command line; the commands of its hint run then.
SITUATIONS = {
    "job_has_schedules": ("jobs", "delete", "work"),
    "job_has_open_runs": ("jobs", "delete", "busy"),
    "unknown_job": ("jobs", "show", "nothing"),
    "enqueue_unknown_job": ("runs", "enqueue", "nothing"),
    "schedule_not_found": ("schedules", "trigger", "nothing"),
    "limit_not_found": ("limits", "remove", "nothing"),
    "no_payload": ("schedules", "create", "x", "strict", "--cron", "@daily"),
    "payload_mismatch": ("jobs", "update", "strict", "--default-payload", '{"n": "x"}'),
    "next_time_past": ("schedules", "reschedule", "often daily", "--at", "1999-01-01"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_command_in_a_hint_runs_as_it_is_printed(
    cli: Cli, conn: psycopg.Connection[Any], name: str
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work'), ('busy')")
    strict = '{"properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    conn.execute("INSERT INTO rota.jobs (name, payload_schema) VALUES ('strict', %s)", [strict])
    conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES"
        " ('often daily', 'work', 60)"
    )
    conn.execute("SELECT rota.enqueue('busy')")
    refused = cli(*SITUATIONS[name])
    assert refused.code in (1, 2), refused
    printed = re.findall(r"`rota ([^`]+)`", refused.err)
    assert printed, refused.err
    assert not re.search(FOREIGN["cli"], refused.err)
    for line in printed:
        done = cli(*shlex.split(line))
        assert done.code == 0, done
