"""Every command that an explanation advises can be run as it is printed."""

from __future__ import annotations

import re
import shlex
from typing import Any

import psycopg
import typer

from rota.cli.program import command_of

ADVISED = "SELECT code, command FROM rota.reasons WHERE command IS NOT NULL ORDER BY code, command"
# What stands in a command for options that only some facts need.
PARTS = {"of": "--job work", "of_tenant": "--tenant acme "}


def parse(words: list[str]) -> None:
    command: Any = command_of(words)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("rota", words)


def fault(text: str) -> str | None:
    filled = re.sub(r"\{(\w+)\}", lambda it: PARTS.get(it[1], "1"), text)
    program, *words = shlex.split(filled)
    try:
        parse(words)
    except typer.Exit:
        return None if words[-1] == "--help" else "it ends at once"
    except Exception as error:
        return str(error)
    return None if program == "rota" else "it is none of rota"


def test_they_are_complete(conn: psycopg.Connection[Any]) -> None:
    advised = conn.execute(ADVISED).fetchall()
    assert len(advised) > 50
    faults = [(code, text, found) for code, text in advised if (found := fault(text))]
    assert faults == []
