"""Which application and configuration a command was told of: those that it advises need them too,
because the URL of the database may stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextvars import ContextVar

WITH_VALUE = ("--app", "--config")
_told: ContextVar[str] = ContextVar("told", default="")
# A command, with the application that the library knows of.
_COMMAND = r"rota (?:--app \S+ )?(?=[a-z])"
_IN_TEXT = re.compile(f"`{_COMMAND}")
_ALONE = re.compile(f"^{_COMMAND}")


def note_place(words: Sequence[str]) -> None:
    """As the command line says it."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in WITH_VALUE:
            found[name] = value or next(rest, "")
    _told.set("".join(f" {name} {shlex.quote(value)}" for name, value in found.items()))


def advised(text: str) -> str:
    """A text, with what its commands in backticks need."""
    return _IN_TEXT.sub(lambda _: f"`rota{_told.get()} ", text) if _told.get() else text


def whole_command(line: str) -> str:
    """A line that is a command of Rota, or of something else."""
    return _ALONE.sub(lambda _: f"rota{_told.get()} ", line) if _told.get() else line
