"""What errors advise, as data: operations, commands, fields and values. Each interface names them
in its own words.

    Hint("{} lists them", OperationCall("jobs", "list"))

`Words` are those of Python; those of the others derive from the registry (`api/words.py`,
`cli/terminal/words.py`, `web/words.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# Stands for the name of the field in the message of an error. A NUL, which no text of Postgres has
# and repr() escapes: no value in a message can be taken for it.
FIELD = "{\0field}"


@dataclass(frozen=True, slots=True)
class OperationCall:
    """An operation or a read, as declared in the registry: `OperationCall("queues", "pause")`."""

    noun: str
    verb: str
    target: str | int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command of operators, which is the same for all interfaces: `rota migrate`. `place` has the
    options that tell which application or configuration it is about."""

    words: tuple[str, ...]
    place: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return shlex.join(("rota", *self.place, *self.words))


@dataclass(frozen=True, slots=True)
class Name:
    """A field; `short` is its name for callers in Python, if that is another one."""

    field: str
    short: str | None = None


# None: the word for no value.
Part = OperationCall | ShellCommand | Name | None


@dataclass(frozen=True, slots=True, init=False)
class Hint:
    """A sentence; each `{}` stands for one of the parts."""

    text: str
    parts: Sequence[Part]

    def __init__(self, text: str, *parts: Part) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "parts", parts)

    def at(self, place: Sequence[str]) -> Hint:
        """The hint with these options in its commands."""
        parts = (
            replace(one, place=tuple(place)) if isinstance(one, ShellCommand) else one
            for one in self.parts
        )
        return Hint(self.text, *parts)


def run_command(*words: str) -> Hint:
    return Hint("run {}", ShellCommand(words))


class Words:
    """How an interface names things. These are the words of Python."""

    none = "None"

    def field(self, name: str, short: str | None = None) -> str:
        return short or name

    def call(self, call: OperationCall) -> str:
        given = [] if call.target is None else [repr(call.target)]
        given += [f"{name}={value!r}" for name, value in call.arguments.items()]
        return f"app.{call.noun}.{call.verb}({', '.join(given)})"

    def command(self, command: ShellCommand) -> str:
        return f"`{command.line}`"

    def hint(self, hint: Hint | str | None) -> str | None:
        if not isinstance(hint, Hint):
            return hint
        return hint.text.format(*map(self._part, hint.parts))

    def _part(self, part: Part) -> str:
        match part:
            case OperationCall():
                return self.call(part)
            case ShellCommand():
                return self.command(part)
            case Name():
                return self.field(part.field, part.short)
            case None:
                return self.none


PYTHON = Words()
