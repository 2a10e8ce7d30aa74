"""How the command line names operations, fields and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.cli.terminal.place import has_place, placed, shown
from rota.hints import OperationCall, ShellCommand, Words


class CliWords(Words):
    """A field is the flag of the command that was typed; others keep their names."""

    none = "`none`"

    def __init__(self, parameters: Iterable[Any] = ()) -> None:
        self._flags = {
            one.name: one.opts[-1] for one in parameters if one.name and one.opts[-1][:2] == "--"
        }

    def field(self, name: str, short: str | None = None) -> str:
        # The unit is part of a duration, not of its flag.
        names = (name, short, name.removesuffix("_seconds"))
        return next((self._flags[one] for one in names if one in self._flags), name)

    def call(self, call: OperationCall) -> str:
        from rota.operations.command_line import command_line

        return f"`{placed(command_line(call))}`"

    def command(self, command: ShellCommand) -> str:
        return shown(*command.words) if has_place() else f"`{command.line}`"
