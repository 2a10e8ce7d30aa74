"""The command line of an operation, made from its declaration; it can be run as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

from rota.hints import OperationCall
from rota.model.fields import Argument, arguments_of
from rota.operations.registry import NOUNS, Operation, commands_of, operations_of, plan_of

# The commands that show one record.
_VERBS = {"get": "show"}


def command_line(call: OperationCall) -> str:
    """Return `rota queues resume mail`. What is not declared, such as a list, has flags by the
    names of its arguments."""
    words = ["rota", call.noun, _VERBS.get(call.verb, call.verb.replace("_", "-"))]
    target = [] if call.target is None else [str(call.target)]
    is_odd = bool(target) and target[0].startswith("-")
    words += [] if is_odd else target
    known = {one.name: one for one in _arguments(call)}
    for name, value in call.arguments.items():
        words += _flag(known.get(name), name, value)
    # A name that looks like a flag comes last.
    return shlex.join([*words, "--", *target] if is_odd else words)


def line_of(noun: str, verb: str, target: str | int | None = None, **arguments: Any) -> str:
    return command_line(OperationCall(noun, verb, target, arguments))


def of_tenant(tenant: str) -> dict[str, str]:
    """The argument for what belongs to a tenant."""
    return {"tenant": tenant} if tenant else {}


@cache
def find_operation(noun: str, verb: str) -> Operation | None:
    if noun not in NOUNS:
        return None
    return next((one for one in operations_of(commands_of(noun)) if one.verb == verb), None)


def _arguments(call: OperationCall) -> tuple[Argument, ...]:
    declared = find_operation(call.noun, call.verb)
    if declared is not None:
        return declared.arguments
    has_plan = call.noun in NOUNS and hasattr(commands_of(call.noun), call.verb)
    return arguments_of(plan_of(commands_of(call.noun), call.verb)) if has_plan else ()


def _flag(argument: Argument | None, name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}" if argument is None else argument.flag
    if value is True or (value is False and (argument is None or argument.default is not False)):
        yield flag if value else f"--no-{flag[2:]}"
    elif value is None:
        yield from (flag, "none" if argument is None else argument.field.none)
    elif value is not False:
        yield from (flag, ",".join(value) if isinstance(value, list) else str(value))
