"""Commands that only read: their arguments are declared fields, as those of operations are.

    @reading(FilterError)
    def named(self, text: SearchText, *, limit: MostOfKind = 8) -> Plan[Hits]: …

Arguments without a declaration, such as the cursor of a page, are passed on as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from rota.errors import InputError, RotaError
from rota.model.fields import arguments_of
from rota.operations.commands import Command
from rota.operations.registry import checked
from rota.postgres.plans import Plan

P = ParamSpec("P")
T = TypeVar("T")


def reading(
    error: type[RotaError] = InputError,
) -> Callable[[Callable[Concatenate[Any, P], Plan[T]]], Command[P, T]]:
    """Check the arguments of a command before its plan begins; wrong ones raise `error`."""

    def declare(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
        def check(_: Any, given: dict[str, Any]) -> dict[str, Any]:
            return _check(plan, given, error)

        return Command(checked(plan, check))

    return declare


def _check(
    plan: Callable[..., Any], given: dict[str, Any], error: type[RotaError]
) -> dict[str, Any]:
    known = {one.name: one for one in arguments_of(plan)}
    plain = inspect.signature(plan).parameters
    for name in given:
        if name not in known and name not in plain:
            raise error(f"unknown filter {name}", hint=f"choose from {', '.join(known)}")
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
