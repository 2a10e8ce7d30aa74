"""What docs/reference/cli.md and api.md say of declared operations, read from the declarations.

.venv/bin/python -m tests.docs.declared_reference        writes it

The text above the table of a command is written by hand; a new command gets its summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

import rota
from rota.api import create_api
from rota.cli.program import program
from rota.model.fields import Argument
from rota.operations.registry import COMMON, NOUNS, Noun, Operation, commands_of, operations_of
from tests.docs.faces_data import DOCS

_ANSWER = (
    "Output a list of `{target, is_changed, result}` as JSON; `error` in place of `result` for a "
    "target that failed."
)
CLI, API = DOCS / "cli.md", DOCS / "api.md"


def cli_page(text: str) -> str:
    """The page with the tables of all declared commands, and a section for each new one."""
    nouns = typer.main.get_command(program()).commands  # type: ignore[attr-defined]
    for many in NOUNS:
        for operation in operations_of(commands_of(many), "cli"):
            command = nouns[many].commands[operation.verb]
            table = _flags(command, operation, commands_of(many).noun)
            text = _with_section(text, many, operation.verb, operation.summary, table)
    return text


def _with_section(text: str, many: str, verb: str, summary: str, table: str) -> str:
    heading = f"## `rota {many} {verb}`\n"
    if heading not in text:
        *_, last = re.finditer(rf"^## `rota {many} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        text = f"{text[: last.end()]}{heading}\n{summary}\n\n{text[last.end() :]}"
    before, after = text.split(heading)
    section = re.match(r"(.*?)(?:\| Flag \|.*?)?(?=^## |\Z)", after, re.MULTILINE | re.DOTALL)
    assert section is not None
    return f"{before}{heading}{section[1].rstrip()}\n\n{table}\n{after[section.end() :]}"


def _flags(command: Any, operation: Operation, noun: Noun) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in _rows(command, operation, noun))
    return f"| Flag | Meaning |\n|---|---|\n{rows}"


def _rows(command: Any, operation: Operation, noun: Noun) -> Iterator[tuple[str, str]]:
    known = {one.name: _about(one) for one in operation.arguments[1:]}
    names = ": `NAME`, or `TENANT/NAME`" if operation.has_tenant else ""
    targets = operation.target.field.help if operation.positional else f"One or more {noun.one}s."
    known |= {"targets": targets.replace(".", f"{names}."), "json": _ANSWER}
    for one in command.params:
        text = known.get(one.name) or _cell(one.help or "")
        if one.param_type_name == "argument":
            yield one.metavar, text
        elif not one.hidden:
            for flag in (*one.opts, *one.secondary_opts):
                yield flag, text


def _about(one: Argument) -> str:
    field = one.field
    if field.choices and one.kind == "choice":
        meanings = "; ".join(f"`{word}`: {means}" for word, means in field.choices.items())
        words = f" {meanings}."
    else:
        words = f" Choices: {', '.join(f'`{word}`' for word in one.words)}." if one.words else ""
    none = f" `{field.none}`: {field.none_means}." if one.is_optional and field.none_means else ""
    is_common = one.name in COMMON or one.kind in ("flag", "choice", "moment")
    example = f" Example: `{_text(field.example)}`." if field.example and not is_common else ""
    return _cell(f"{field.help}{words}{none}{example}")


def _text(example: Any) -> str:
    return ",".join(example) if isinstance(example, list) else str(example)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def api_page(text: str) -> str:
    """The page with the rows of all declared operations."""
    described = create_api(
        rota.App(embedded=False, server={"token": "a token for tests"})
    ).openapi()
    for many in NOUNS:
        commands: Any = commands_of(many)
        declared = {one.name_of(commands.noun) for one in operations_of(commands, "api")}
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if operation["operationId"] in declared:
                    name = f"`{method.upper()} {path}`"
                    text = _with_row(text, many, name, _cell(operation["description"]))
    return text


def _with_row(text: str, many: str, name: str, about: str) -> str:
    row = re.search(rf"^\| {re.escape(name)} \| .* \| (.*)\|$", text, re.MULTILINE)
    assert row is not None, f"docs/reference/api.md needs a row of {name}, with its parameters"
    return f"{text[: row.start()]}| {name} | {about} | {row[1]}|{text[row.end() :]}"


if __name__ == "__main__":
    CLI.write_text(cli_page(CLI.read_text(encoding="utf-8")), encoding="utf-8")
    API.write_text(api_page(API.read_text(encoding="utf-8")), encoding="utf-8")
