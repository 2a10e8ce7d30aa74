"""One action on several records: it continues even if some fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from rota.cli.session import administer
from rota.cli.terminal.output import print_json, say
from rota.cli.terminal.words import CliWords

if TYPE_CHECKING:
    from rota.app import App

T = TypeVar("T")


def each(
    ctx: typer.Context,
    noun: str,
    things: Sequence[T],
    action: Callable[[App, T], str],
    *,
    is_json: bool = False,
) -> int:
    """Print the result of each. With JSON, one list of `{noun, is_done, result | error}`. Return 1
    if any failed; an unreachable database ends the command."""
    from rota.cli.main import fail
    from rota.errors import DatabaseError, RotaError, SchemaError

    results: list[dict[str, object]] = []
    code = 0
    with administer(ctx) as app:
        for thing in things:
            try:
                result = action(app, thing)
                results.append({noun: thing, "is_done": True, "result": result})
                if not is_json:
                    say(f"{noun} {_shown(thing)} {result}")
            except (DatabaseError, SchemaError):
                raise
            except RotaError as error:
                parameters = ctx.command.params
                code = max(code, fail(error, parameters))
                text = error.sentence(CliWords(parameters))
                results.append({noun: thing, "is_done": False, "error": text})
    if is_json:
        print_json(results)
    return code


def _shown(thing: object) -> str:
    return f'"{thing}"' if isinstance(thing, str) else str(thing)
