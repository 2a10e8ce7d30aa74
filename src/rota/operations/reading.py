"""Commands that only read: their arguments are declared fields, as those of operations are.

    @reading(FilterError)
    def named(self, text: SearchText, *, limit: MostOfKind = 8) -> Plan[Hits]: …

Arguments without a declaration, such as the cursor of a page, are passed on as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from rota.errors import InputError, RotaError
from rota.model.fields import Argument, arguments_of
from rota.operations.commands import Command
from rota.operations.registry import by_own_names, checked
from rota.postgres.plans import Plan

P = ParamSpec("P")
T = TypeVar("T")


def reading(
    error: type[RotaError] = InputError,
) -> Callable[[Callable[Concatenate[Any, P], Plan[T]]], Command[P, T]]:
    """Check the arguments of a command before its plan begins; wrong ones raise `error`."""

    def declare(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
        def check(commands: Any, given: dict[str, Any]) -> dict[str, Any]:
            noun = getattr(commands, "noun", None)
            known = {one.name: one for one in arguments_of(plan)}
            named = given if noun is None else by_own_names(noun, given, known)
            return _check(plan, known, named, error)

        return Command(checked(plan, check))

    return declare


def _check(
    plan: Callable[..., Any],
    known: Mapping[str, Argument],
    given: dict[str, Any],
    error: type[RotaError],
) -> dict[str, Any]:
    plain = inspect.signature(plan).parameters
    for name in given:
        if name not in known and name not in plain:
            raise error(
                f"unknown filter {name}", hint=f"choose from {', '.join(known)}", field=name
            )
    try:
        return {
            name: known[name].read(value) if name in known else value
            for name, value in given.items()
        }
    except InputError as wrong:
        raise wrong.retold(error) from None


def plan_behind(read: Command[Any, Any]) -> Callable[..., Any]:
    """The function that declares the arguments, and what is returned."""
    found: Callable[..., Any] = inspect.unwrap(read.plan)
    return found


def result_of(read: Command[Any, Any]) -> Any:
    hint = inspect.get_annotations(plan_behind(read), eval_str=True)["return"]
    return get_args(hint)[-1]
