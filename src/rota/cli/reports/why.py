"""`rota why`: the reasons in order, and the command that would change each."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer
from rota.cli.tenants.whose import whose
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import subject_names
from rota.cli.terminal.output import block, print_json, remark, say
from rota.cli.terminal.place import whole_command
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.model.why import Reason, Why

KINDS = ("run", "schedule", "job", "queue")


@watched
def why(
    ctx: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SCHEDULE|JOB|QUEUE",
            help="Run ID, or a name.",
            autocompletion=subject_names,
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help=f"Kind of object, if the name is ambiguous: {', '.join(KINDS)}."
        ),
    ] = None,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Tenant of the schedule.", callback=whose)
    ] = "",
    json: Json = False,
) -> None:
    """Explain why something is not running, or what happened to it. A number is a run ID; a name is
    a schedule, else a job, else a queue.
    """
    chosen = values.choice(kind, KINDS, "--kind")
    with administer(ctx) as app:
        found = app.why.sync(subject, kind=chosen, tenant=tenant)
    if json:
        print_json(found)
        return
    say(f"{found.kind} {found.name}")
    print_reasons(found)
    for other in found.also:
        remark(f"a {other} has the same name; to ask about it: --kind {other}")


def print_reasons(found: Why) -> None:
    for number, reason in enumerate(found.reasons, 1):
        say(f"{number}. {reason.sentence}")
        block("\n".join(_lines(reason, found.at)))


def _lines(reason: Reason, now: datetime) -> list[str]:
    when = when_text(reason, now)
    then = f"$ {whole_command(reason.command)}" if reason.command else ""
    return [f" {line}" for line in (when, reason.next_step, then) if line]


def when_text(reason: Reason, now: datetime) -> str:
    """Return `since … (3m ago), until … (in 5m)`; for the past, `at …`."""
    word = "at" if reason.is_past else "since"
    since = f"{word} {times.both(reason.since, now)}" if reason.since else ""
    until = f"until {times.both(reason.until, now)}" if reason.until else ""
    return ", ".join(part for part in (since, until) if part)
