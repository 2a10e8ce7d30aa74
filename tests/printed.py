"""Runs commands as they are printed."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from typing import Any

import typer

from rota.cli.main import run
from rota.cli.program import command_of

# They run until they are stopped.
_ENDLESS = ("worker",)


def fault(line: str) -> str | None:
    """What keeps the line from being a command."""
    program, *words = shlex.split(line)
    command: Any = command_of(words)
    rest = words
    try:
        while hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context("rota", [*rest])
    except typer.Exit:
        return None if words[-1] == "--help" else "it ends at once"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if program == "rota" else "it is none of rota"


def run_printed(url: str, line: str) -> str | None:
    """Run the line against this database; return what went wrong."""
    wrong = fault(line)
    words = shlex.split(line)[1:]
    if wrong is not None or words[0] in _ENDLESS or words[-1] == "--help":
        return wrong
    before = os.environ.get("ROTA_DATABASE_URL")
    os.environ["ROTA_DATABASE_URL"] = url
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = run(words)
            if "'--yes'" in errors.getvalue():  # a terminal asks
                code = run([*words, "--yes"])
    finally:
        os.environ.pop("ROTA_DATABASE_URL")
        if before is not None:
            os.environ["ROTA_DATABASE_URL"] = before
    return None if code == 0 else f"{line}: exit code {code}: {errors.getvalue()}"
