"""The reference of the command line and the commands themselves cannot drift apart."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from rota.cli.program import command_of, program
from rota.cli.terminal.watch import spell_out

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


def lines() -> Iterator[tuple[str, list[str]]]:
    """Each command line of the guides, with the page it is on."""
    for page in (*sorted((PAGE.parents[1] / "guides").glob("*.md")), PAGE.parents[2] / "README.md"):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^ *```(?:sh|bash|console)\n(.*?)^ *```", text, re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.shlex(line.strip(), posix=True, punctuation_chars=True)
                words.whitespace_split = True
                told = list(itertools.takewhile(lambda one: set(one) - set("|&;<>"), words))
                if "rota" in told[:1]:
                    yield page.name, told


def wrong(words: list[str]) -> str | None:
    """What the parser of the command refuses, without running anything."""
    rest = spell_out(words[1:])
    command = command_of(rest)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    try:
        given, left, _ = command.make_parser(typer.Context(command)).parse_args(args=[*rest])
    except Exception as error:
        return str(error)
    missing = [one.name for one in command.params if one.required and not given.get(one.name)]
    return f"left over: {left}, missing: {missing}" if left or missing else None


def test_every_command_line_of_the_guides_can_be_typed() -> None:
    told = list(lines())
    assert len(told) > 50
    assert [(page, *words, found) for page, words in told if (found := wrong(words))] == []
