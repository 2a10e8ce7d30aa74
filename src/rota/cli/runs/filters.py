"""The flags that select runs, of lists and of bulk actions:

    @commands.command("list")
    @filtered
    def list_runs(ctx: typer.Context, wanted: Wanted, json: Json = False) -> None: …

The command gets all of these flags; `wanted` contains those that are set, as `app.runs` takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from rota.cli.tenants.whose import whose
from rota.cli.terminal import values
from rota.cli.terminal.names import (
    job_names,
    one_of,
    queue_names,
    schedule_names,
    tenant_names,
)
from rota.model.states import RUN_STATES

F = TypeVar("F", bound=Callable[..., Any])
Wanted = dict[str, Any]


State = Annotated[
    list[str] | None,
    typer.Option(
        "--state", metavar="STATE", help=f"State: {', '.join(RUN_STATES)}; repeat, or use a,b.",
        autocompletion=one_of(RUN_STATES),
    ),
]  # fmt: skip
JobName = Annotated[
    str | None,
    typer.Option("--job", metavar="NAME", help="Runs of this job.", autocompletion=job_names),
]
QueueName = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Runs in this queue.", autocompletion=queue_names),
]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Runs with this tag.")]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Runs of this tenant.",
        autocompletion=tenant_names,
        callback=whose,
    ),
]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Runs with this key.")]
ScheduleName = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="NAME",
        help="Runs of this schedule, also manual runs and backfills: NAME, or TENANT/NAME.",
        autocompletion=schedule_names,
    ),
]
WorkerId = Annotated[
    int | None,
    typer.Option(
        "--worker", metavar="ID", min=0, help="Runs whose current or last worker is this one."
    ),
]
Text = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="Text in the payload or last error."),
]
Error = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Text in the last error.")
]
Group = Annotated[
    str | None,
    typer.Option("--group", metavar="ID", help="Error group of the last error; see rota errors."),
]
PayloadField = Annotated[
    list[str] | None,
    typer.Option(
        "--payload-field", metavar="KEY:VALUE", help="Payload field and value; repeatable."
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="2h|TIME", help="Created since this time, or this long ago."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="2h|TIME", help="Created before this time.")
]
EndedSince = Annotated[
    str | None, typer.Option("--ended-since", metavar="2h|TIME", help="Finished since this time.")
]
EndedUntil = Annotated[
    str | None, typer.Option("--ended-until", metavar="2h|TIME", help="Finished before this time.")
]
Dead = Annotated[bool, typer.Option("--dead", help="Dead letters: runs that failed permanently.")]
Handled = Annotated[
    bool | None,
    typer.Option("--handled/--unhandled", help="Dead letters that are handled, or not."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="NAME:VALUE", help="Leave out what matches this filter; repeatable."
    ),
]

FLAGS: dict[str, tuple[Any, Any]] = {
    "state": (State, None),
    "job": (JobName, None),
    "queue": (QueueName, None),
    "tag": (Tag, None),
    "tenant": (Tenant, None),
    "key": (Key, None),
    "schedule": (ScheduleName, None),
    "worker": (WorkerId, None),
    "text": (Text, None),
    "error": (Error, None),
    "group": (Group, None),
    "payload_field": (PayloadField, None),
    "since": (Since, None),
    "until": (Until, None),
    "ended_since": (EndedSince, None),
    "ended_until": (EndedUntil, None),
    "dead": (Dead, False),
    "handled": (Handled, None),
    "exclude": (Exclude, None),
}
_TIMES = {"since", "until", "ended_since", "ended_until"}


def filtered(command: F) -> F:
    """Return the command, with these flags in the place of its `wanted`."""

    @wraps(command)
    def wrapper(**given: Any) -> Any:
        wanted = {name: given.pop(name) for name in FLAGS}
        return command(**given, wanted=read(**wanted))

    hints = get_type_hints(command, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    own: list[inspect.Parameter] = []
    for name in inspect.signature(command).parameters:
        if name == "wanted":
            own += [
                inspect.Parameter(flag, kind, default=default, annotation=annotation)
                for flag, (annotation, default) in FLAGS.items()
            ]
        else:
            default = inspect.signature(command).parameters[name].default
            own.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
    made: Any = wrapper
    made.__signature__ = inspect.Signature(own)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return made  # type: ignore[no-any-return]


def read(**given: Any) -> Wanted:
    """Return the filters that are set, as `app.runs` takes them."""
    found = {
        "states": _states(given.pop("state")),
        "dead": given.pop("dead") or None,
        "error_group": given.pop("group"),
        "payload_fields": values.pairs(given.pop("payload_field"), "--payload-field"),
        "exclude": given.pop("exclude") or None,
    }
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        found[name] = values.since(value, flag) if name in _TIMES else value
    return {name: value for name, value in found.items() if value is not None}


def _states(given: list[str] | None) -> list[str] | None:
    states = [state for text in given or [] for state in values.names(text) or []]
    for state in states:
        values.choice(state, RUN_STATES, "--state")
    return states or None
