"""The application and configuration of a command: commands that it suggests need them too, because
the URL of the database may be in the configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextvars import ContextVar

WITH_VALUE = ("--app", "--config")
_told: ContextVar[str] = ContextVar("told", default="")
# A command, with the application that the library named.
_COMMAND = r"rota (?:--app \S+ )?(?=[a-z])"
_IN_TEXT = re.compile(f"`{_COMMAND}")
_ALONE = re.compile(f"^{_COMMAND}")


def note_place(words: Sequence[str]) -> None:
    """Remember the options of the command line."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in WITH_VALUE:
            found[name] = value or next(rest, "")
    _told.set("".join(f" {name} {shlex.quote(value)}" for name, value in found.items()))


def advised(text: str) -> str:
    """Add the options to the commands in backticks of a text."""
    return _IN_TEXT.sub(lambda _: f"`rota{_told.get()} ", text) if _told.get() else text


def whole_command(line: str) -> str:
    """Add the options to a line, if it is a command of Rota."""
    return _ALONE.sub(lambda _: f"rota{_told.get()} ", line) if _told.get() else line
