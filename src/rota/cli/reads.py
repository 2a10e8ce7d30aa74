"""Commands of what is only read: their flags are the declared arguments of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from rota.cli.operations import flags_of, read_flags, shaped
from rota.cli.session import administer
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import print_json
from rota.model.fields import Argument, arguments_of
from rota.operations.commands import Command
from rota.operations.reading import plan_behind

if TYPE_CHECKING:
    from rota.app import App

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
CONTEXT = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
_ABSOLUTE = inspect.Parameter("absolute", _KEYWORD, annotation=Absolute, default=False)
JSON = inspect.Parameter("json", _KEYWORD, annotation=Json, default=False)


def option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A flag of how something is printed."""
    return inspect.Parameter(name, _KEYWORD, annotation=annotation, default=default)


def read_command(
    commands: str,
    read: Command[Any, Any],
    show: Callable[[typer.Context, App, Any], None],
    *,
    options: Sequence[inspect.Parameter] = (_ABSOLUTE,),
    complete: Callable[[App, dict[str, Any]], None] | None = None,
    code: Callable[[Any], int] = lambda _: 0,
    note: str = "",
) -> Any:
    """A command that prints what a command of `app.<commands>` returns. `show` reads the `options`
    from the context; `complete` fills in arguments that follow from the given ones; `code` returns
    the exit code. `note` is what only this command does."""
    plan = plan_behind(read)
    arguments = arguments_of(plan)

    def run(ctx: typer.Context, json: bool, **texts: Any) -> int:
        texts = {one.name: texts[one.name] for one in arguments}
        given = dict(read_flags(arguments, texts, is_filter=True))
        with administer(ctx) as app:
            if complete is not None:
                complete(app, given)
            found = getattr(getattr(app, commands).sync, plan.__name__)(**given)
            if json:
                print_json(found)
            else:
                show(ctx, app, found)
        return code(found)

    parameters = [CONTEXT, *flags_of(arguments), *options, JSON]
    return shaped(run, f"{commands}_{plan.__name__}", f"{summary(plan)} {note}".strip(), parameters)


def printing(
    name: str,
    run: Callable[..., Any],
    about: str,
    arguments: Sequence[Argument],
    *options: inspect.Parameter,
) -> Any:
    """A command with the flags of these arguments, which `run` reads and prints by itself."""
    return shaped(run, name, about, [CONTEXT, *flags_of(arguments), *options])


def summary_of(read: Command[Any, Any]) -> str:
    return summary(plan_behind(read))


def summary(plan: Any) -> str:
    """The first paragraph of its docstring, with flags in place of arguments."""
    text = " ".join((inspect.getdoc(plan) or "").partition("\n\n")[0].split())
    for one in arguments_of(plan):
        text = text.replace(f"`{one.name}`", one.flag)
    return text
