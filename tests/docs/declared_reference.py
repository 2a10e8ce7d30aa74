"""What docs/reference/cli.md and api.md say of declared operations, read from the declarations.

.venv/bin/python -m tests.docs.declared_reference        writes it

The text above the table of a command is written by hand; a new command gets its summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer.main

import rota
from rota.api import create_api
from rota.cli.program import program
from rota.model.durations import write_duration
from rota.model.fields import Argument, arguments_of
from rota.operations.events import EventCommands
from rota.operations.logs.logs import LogCommands, SyncLogs
from rota.operations.reading import plan_behind
from rota.operations.registry import (
    COMMON,
    NOUNS,
    Noun,
    Operation,
    commands_of,
    operations_of,
    plan_of,
)
from rota.operations.reports.attention import AttentionCommands
from rota.operations.reports.audit import AuditCommands
from rota.operations.reports.doctor import DoctorCommands
from rota.operations.reports.find import FindCommands
from rota.operations.reports.stats import StatsCommands
from rota.operations.reports.why import WhyCommands
from rota.operations.retention import RetentionCommands
from rota.operations.schedules.reads import ScheduleReads
from tests.docs.faces_data import DOCS

_ANSWER = (
    "Output a list of `{target, is_changed, result}` as JSON; `error` in place of `result` for a "
    "target that failed."
)
READS: dict[str, Any] = {
    "why": WhyCommands.ask, "find": FindCommands.named, "stats": StatsCommands.get,
    "trend": StatsCommands.trend, "attention": AttentionCommands.get,
    "doctor": DoctorCommands.get, "audit show": AuditCommands.get,
    "events show": EventCommands.get, "events bindings": EventCommands.bindings,
    "events refusals": EventCommands.refusals, "logs search": LogCommands.search,
    "logs show": LogCommands.show, "retention run": RetentionCommands.run,
    "schedules simulate": ScheduleReads.simulate, "schedules preview": ScheduleReads.preview,
}  # fmt: skip
# The nouns whose list on the command line is read from its declaration.
LISTS = ("queues", "limits", "tenants", "workers", "schedules", "templates", "audit", "events")
CLI, API = DOCS / "cli.md", DOCS / "api.md"


def cli_page(text: str) -> str:
    """The page with the tables of all declared commands, and a section for each new one."""
    nouns = typer.main.get_command(program()).commands  # type: ignore[attr-defined]
    for many in NOUNS:
        for operation in operations_of(commands_of(many), "cli"):
            command = nouns[many].commands[operation.word]
            table = _flags(command, _meanings(operation, commands_of(many).noun))
            text = _with_section(text, f"{many} {operation.word}", operation.summary, table)
    for words, plan in reads().items():
        first, *rest = words.split()
        command = nouns[first].commands[rest[0]] if rest else nouns[first]
        table = _flags(command, {one.name: _about(one) for one in arguments_of(plan)})
        text = _with_section(text, words, command.help, table)
    return text


def reads() -> dict[str, Any]:
    """The plan behind each declared command that only reads."""
    lists = {f"{many} list": plan_of(commands_of(many), "list") for many in LISTS}
    lists["logs tail"] = SyncLogs.tail
    return lists | {words: plan_behind(read) for words, read in READS.items()}


def _with_section(text: str, words: str, summary: str, table: str) -> str:
    heading, many = f"## `rota {words}`\n", words.split()[0]
    if heading not in text:
        *_, last = re.finditer(rf"^## `rota {many} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        text = f"{text[: last.end()]}{heading}\n{summary}\n\n{text[last.end() :]}"
    before, after = text.split(heading)
    section = re.match(r"(.*?)(?:\| Flag \|.*?)?(?=^## |\Z)", after, re.MULTILINE | re.DOTALL)
    assert section is not None
    return f"{before}{heading}{section[1].rstrip()}\n\n{table}\n{after[section.end() :]}"


def _flags(command: Any, known: Mapping[str, str]) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in _rows(command, known))
    return f"| Flag | Meaning |\n|---|---|\n{rows}"


def _meanings(operation: Operation, noun: Noun) -> dict[str, str]:
    if not operation.has_target:
        return {one.name: _about(one) for one in operation.arguments}
    known = {one.name: _about(one) for one in operation.arguments[1:]}
    names = ": `NAME`, or `TENANT/NAME`" if operation.has_tenant else ""
    targets = operation.target.field.help if operation.positional else f"One or more {noun.one}s."
    return known | {"targets": targets.replace(".", f"{names}."), "json": _ANSWER}


def _rows(command: Any, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for one in command.params:
        text = known.get(one.name) or _cell(one.help or "") + _default(one)
        if one.param_type_name == "argument":
            yield _cell(one.metavar), text
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
    is_shown = _default(one) or str(field.example) in field.help
    is_common = is_shown or one.name in COMMON or one.kind in ("flag", "choice", "moment")
    example = f" Example: `{_text(field.example)}`." if field.example and not is_common else ""
    return _cell(f"{field.help}{words}{none}{example}{_default(one)}")


def _default(one: Any) -> str:
    """The default of an argument, or of a flag."""
    if isinstance(one, Argument) and one.field.default not in (None, "", False, [], {}):
        value = one.field.default
        return f" Default: `{write_duration(value) if one.kind == 'duration' else value}`."
    is_value = isinstance(one.default, str | int | float) and not isinstance(one.default, bool)
    return f" Default: `{one.default}`." if is_value and one.default != "" else ""


def _text(example: Any) -> str:
    if isinstance(example, dict):
        return json.dumps(example)
    return ",".join(map(str, example)) if isinstance(example, list) else str(example)


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
        declared |= {f"list_{many}", f"get_{commands.noun.one}"}
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if operation["operationId"] in declared:
                    name = f"`{method.upper()} {path}`"
                    text = _with_row(
                        text, many, name, _cell(" ".join(operation["description"].split()))
                    )
    return text


def _with_row(text: str, many: str, name: str, about: str) -> str:
    row = re.search(rf"^\| {re.escape(name)} \| .* \| (.*)\|$", text, re.MULTILINE)
    assert row is not None, f"docs/reference/api.md needs a row of {name}, with its parameters"
    return f"{text[: row.start()]}| {name} | {about} | {row[1]}|{text[row.end() :]}"


if __name__ == "__main__":
    CLI.write_text(cli_page(CLI.read_text(encoding="utf-8")), encoding="utf-8")
    API.write_text(api_page(API.read_text(encoding="utf-8")), encoding="utf-8")
