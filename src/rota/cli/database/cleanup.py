"""`rota cleanup`: removing expired rows of your own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.operations import add_actions
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import cleanup_names
from rota.cli.terminal.output import facts, heading, print_json, remark, say, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.cleanup import CleanupRule

commands = typer.Typer(name="cleanup", help=DECLARED["cleanup"], no_args_is_help=True)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Cleanup name.", autocompletion=cleanup_names)
]
RULES = ("TABLE", "COLUMN", "OLDER THAN", "WHERE", "BATCH>", "BATCHES>")


@commands.command("list")
@watched
def list_cleanups(ctx: typer.Context, absolute: Absolute = False, json: Json = False) -> None:
    """List cleanups: what each deletes, and when."""
    with administer(ctx) as app:
        found = app.cleanup.sync.list()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif not found:
        remark(f"no cleanups; {shown('cleanup', 'recipes')} lists recipes for your tables")
    else:
        rows = [
            (
                item.name,
                item.state,
                "; ".join(map(_rule, item.rules)),
                item.timing,
                times.shown(item.last_run_at, now, absolute),
                times.shown(item.next_run_at, now, absolute),
            )
            for item in found
        ]
        table(("NAME", "STATE", "DELETES", "WHEN", "LAST RUN", "NEXT RUN"), rows)


def _rule(rule: CleanupRule) -> str:
    where = f" where {rule.where}" if rule.where else ""
    return f"{rule.table}.{rule.column} older than {rule.older_than}{where}"


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Show one cleanup and its rules."""
    with administer(ctx) as app:
        found = app.cleanup.sync.get(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    ended = {True: "succeeded", False: "failed", None: ""}[found.last_run_success]
    facts(
        [
            ("cleanup", found.name),
            ("description", found.description),
            ("state", found.state),
            ("when", found.timing),
            ("next run", times.both(found.next_run_at, now)),
            ("last run", f"{times.both(found.last_run_at, now)} {ended}".strip()),
        ]
    )
    heading("rules")
    rows = [
        (it.table, it.column, it.older_than, it.where, it.batch_size, it.max_batches)
        for it in found.rules
    ]
    table(RULES, rows)


@commands.command("recipes")
def recipes(ctx: typer.Context, json: Json = False) -> None:
    """List ready-made cleanups for tables that this database has."""
    with administer(ctx) as app:
        found = app.cleanup.sync.recipes()
    if json:
        print_json(found)
    elif not found:
        remark(
            "no recipe matches your tables; add your own cleanup with "
            + shown("cleanup", "add", "TABLE")
        )
    else:
        rows = [
            (one.name, one.prefix, one.description, "yes" if one.is_used else "") for one in found
        ]
        table(("RECIPE", "PREFIX", "DELETES", "ADDED"), rows)


@commands.command("plan")
def plan(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Cleanup name. Default: all.", autocompletion=cleanup_names
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Count the rows that each rule would delete now. Changes nothing."""
    with administer(ctx) as app:
        counts = app.cleanup.sync.plan(name)
    if json:
        print_json(counts)
    elif not counts:
        remark("no cleanups")
    else:
        rows = [(count.name, count.table, count.column, count.matching) for count in counts]
        table(("CLEANUP", "TABLE", "COLUMN", "ROWS>"), rows)
        say(f"would delete {plural(sum(count.matching for count in counts), 'row')}")


add_actions(commands, "cleanup", cleanup_names)
