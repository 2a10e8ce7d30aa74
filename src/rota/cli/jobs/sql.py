"""`rota jobs create` and `functions`: jobs that call a function of the database."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.jobs import settings  # noqa: F401  its commands come first
from rota.cli.jobs.jobs import commands
from rota.cli.session import actor, administer
from rota.cli.terminal import values
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.flags import Json, NameOption, Reason
from rota.cli.terminal.output import listed, print_json, remark, say, table
from rota.errors import JobError


@commands.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new job.")],
    sql: Annotated[
        str,
        typer.Option(
            metavar="FUNCTION",
            help="Function to call, with its schema; `rota jobs functions` lists them.",
        ),
    ],
    run_as: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="Role to run as. Default: the role of the workers."),
    ] = None,
    transaction_mode: Annotated[
        str | None,
        typer.Option(
            metavar="whole|none", help="none: a procedure that commits by itself. Default: whole."
        ),
    ] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="Description.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Queue of its runs.")] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="0..9", help="Priority; lower runs first.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum attempts. Default: 3.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Timeout of each attempt.")
    ] = None,
    tags: Annotated[str | None, typer.Option(metavar="A,B", help="Tags.")] = None,
    default_payload: Annotated[
        str | None,
        typer.Option(
            "--default-payload", "--payload", metavar="JSON|@FILE|-",
            help="Payload of runs enqueued without one.",
        ),
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="A,B", help="Events that start it: names and patterns.")
    ] = None,
    name_option: NameOption = None,
    reason: Reason = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Create a job that calls a SQL function. Its other settings are changed by `rota jobs
    update`."""
    given: dict[str, Any] = {
        "run_as": run_as,
        "transaction_mode": transaction_mode,
        "description": description,
        "queue": queue,
        "priority": priority,
        "max_attempts": max_attempts,
        "timeout": values.seconds(timeout, "--timeout"),
        "tags": values.names(tags),
        "default_payload": values.payload(default_payload, "--default-payload"),
        "events": values.names(events),
    }
    settings_given: Any = {key: value for key, value in given.items() if value is not None}
    with administer(ctx) as app:
        try:
            made = app.jobs.by(actor()).sync.create(name, sql, reason=reason, **settings_given)
        except JobError as error:
            # The error is about a typed value, not about the application's code.
            raise Failure(str(error), hint=error.hint, code=2) from error
    if json:
        print_json(made)
    else:
        say(f'job "{name}" created: it calls {made.function_name}')


@commands.command("functions")
def functions(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the name or schema.")
    ] = None,
    json: Json = False,
) -> None:
    """List the SQL functions and procedures that a job can call: they take no argument or one
    jsonb."""
    with administer(ctx) as app:
        found = app.jobs.sync.functions(text)
    if json:
        print_json(found)
    elif found:
        headers = ("FUNCTION", "ARGUMENTS", "KIND", "OWNER", "JOBS", "DESCRIPTION")
        rows = [
            (it.function_name, it.arguments, it.kind, it.owner, listed(it.jobs), it.description)
            for it in found
        ]
        table(headers, rows)
    else:
        remark("no functions that a job can call; it takes no argument or one jsonb")
