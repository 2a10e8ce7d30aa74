"""The application and configuration of a command: commands that it suggests need them too, because
the URL of the database may be in the configuration."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

WITH_VALUE = ("--app", "--config")
_told: ContextVar[str] = ContextVar("told", default="")


def note_place(words: Sequence[str]) -> None:
    """Remember the options of the command line."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in WITH_VALUE:
            found[name] = value or next(rest, "")
    _told.set("".join(f" {name} {shlex.quote(value)}" for name, value in found.items()))


def placed(line: str) -> str:
    """Add the options to a command line of Rota; those of other programs stay as they are."""
    return f"rota{_told.get()} {line[5:]}" if line.startswith("rota ") else line


def shown(*words: str) -> str:
    """Return a command of Rota for a sentence: `rota --app shop.py runs show 7`."""
    return f"`{placed(shlex.join(('rota', *words)))}`"


def has_place() -> bool:
    return bool(_told.get())
