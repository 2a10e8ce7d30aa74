"""The reference of the command line and the commands themselves cannot drift apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from rota.cli.program import program

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def commands(command: Any, path: str = "rota") -> Iterator[tuple[str, Any]]:
    """Every command that does something; a noun alone does not."""
    children = getattr(command, "commands", {})
    if not children or path == "rota":
        yield path, command
    for name, child in children.items():
        yield from commands(child, f"{path} {name}")


def flags(command: Any) -> list[str]:
    found: list[str] = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            found.append(parameter.metavar)
        elif not parameter.hidden:
            found += [*parameter.opts, *parameter.secondary_opts]
    return found


def documented() -> dict[str, list[str]]:
    """The first column of each section's table, by the command in its heading."""
    sections: dict[str, list[str]] = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = re.match(r"`(rota[a-z -]*)`\n", section)
        assert heading, section[:40]
        rows = re.findall(r"^\| `(.+?)` \| \S", section, flags=re.MULTILINE)
        sections[heading[1]] = [row.replace("\\|", "|") for row in rows]
    return sections


def test_every_command_and_flag_has_an_entry_and_every_entry_is_one() -> None:
    actual = {path: flags(command) for path, command in commands(typer.main.get_command(program()))}
    assert documented() == actual


def test_every_command_explains_itself() -> None:
    for path, command in commands(typer.main.get_command(program())):
        assert command.help, path
