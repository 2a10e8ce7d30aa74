"""The flags that select runs, of lists and of bulk actions: those of `model/run_filter.py`.

    @commands.command("list")
    @filtered
    def list_runs(ctx: typer.Context, wanted: Wanted, json: Json = False) -> None: …

The command gets all of these flags; `wanted` contains those that are set, as `app.runs` takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from rota.cli.operations import flags_of, read_flags
from rota.cli.tenants.whose import whose
from rota.cli.terminal.names import tenant_names
from rota.model.fields import settings_of
from rota.model.run_filter import RunFilters

F = TypeVar("F", bound=Callable[..., Any])
Wanted = dict[str, Any]
# Without it, the tenant is that of `--schedule TENANT/NAME`.
_TENANT = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Filter by tenant.", autocompletion=tenant_names, callback=whose
    ),
]


def filtered(command: F) -> F:
    """Return the command, with these flags in the place of its `wanted`."""
    filters = settings_of(RunFilters)

    @wraps(command)
    def wrapper(**given: Any) -> Any:
        texts = {one.name: given.pop(one.name) for one in filters}
        return command(**given, wanted=dict(read_flags(filters, texts, is_filter=True)))

    own = list(_parameters(command))
    made: Any = wrapper
    made.__signature__ = inspect.Signature(own)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return made  # type: ignore[no-any-return]


def _parameters(command: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if name != "wanted":
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            continue
        for flag in flags_of(settings_of(RunFilters)):
            yield flag.replace(annotation=_TENANT) if flag.name == "tenant" else flag
