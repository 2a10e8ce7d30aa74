"""The flags that say which runs: of lists and of bulk actions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli import values
from rota.cli.names import job_names, one_of, queue_names, schedule_names

STATES = ("blocked", "scheduled", "queued", "running", "succeeded", "failed", "cancelled")

State = Annotated[
    list[str] | None,
    typer.Option(
        "--state", metavar="STATE", help=f"{', '.join(STATES)}; repeated, or a,b.",
        autocompletion=one_of(STATES),
    ),
]  # fmt: skip
JobName = Annotated[
    str | None, typer.Option("--job", metavar="NAME", autocompletion=job_names)
]  # fmt: skip
QueueName = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", autocompletion=queue_names)
]  # fmt: skip
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="NAME")]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY")]
ScheduleName = Annotated[
    str | None,
    typer.Option(
        "--schedule", metavar="NAME", help="Made by this schedule.", autocompletion=schedule_names
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="2h|TIME", help="Created since then: a duration or a time."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="2h|TIME", help="Created before then.")
]
Dead = Annotated[bool, typer.Option("--dead", help="Dead letters: their attempts are used up.")]


def read(**given: Any) -> dict[str, Any]:
    """The filters that are set, as `app.runs` takes them."""
    found = {
        "states": _states(given.pop("state")),
        "since": values.since(given.pop("since"), "--since"),
        "until": values.since(given.pop("until"), "--until"),
        "dead": given.pop("dead") or None,
        **given,
    }
    return {name: value for name, value in found.items() if value is not None}


def _states(given: list[str] | None) -> list[str] | None:
    states = [state for text in given or [] for state in values.names(text) or []]
    for state in states:
        if state not in STATES:
            values.refuse("--state", f"{state!r} is no state; there are {', '.join(STATES)}")
    return states or None
