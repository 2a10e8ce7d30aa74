"""`rota cleanup`: removing expired rows of your own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import actor, administer
from rota.cli.tenants.whose import refuse_slash
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Absolute, Json, Reason
from rota.cli.terminal.names import cleanup_names
from rota.cli.terminal.output import facts, heading, print_json, remark, say, table, tell
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural
from rota.model.tenant import split_name

if TYPE_CHECKING:
    from rota.model.cleanup import CleanupCount, CleanupInfo, CleanupRule

commands = typer.Typer(
    name="cleanup", help="Cleanup: delete expired rows of your tables.", no_args_is_help=True
)
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
        remark("no cleanups; `rota cleanup recipes` lists recipes for your tables")
    else:
        rows = [
            (
                item.name, item.state, "; ".join(map(_rule, item.rules)), item.timing,
                times.shown(item.last_run_at, now, absolute),
                times.shown(item.next_run_at, now, absolute),
            )
            for item in found
        ]  # fmt: skip
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
    _print_rules(found)


def _print_rules(found: CleanupInfo) -> None:
    table(
        RULES,
        [
            (it.table, it.column, it.older_than, it.where, it.batch_size, it.max_batches)
            for it in found.rules
        ],
    )


@commands.command("add")
def add(
    ctx: typer.Context,
    table_name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Table, with its schema (default public).")
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that holds the time.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Minimum age of the rows, e.g. 7d.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Further conditions, e.g. \"status <> 'pending'\"."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name. Default: cleanup_ and the table.")
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option(metavar="CRON", help="Cron expression. Default: every day at 03:00."),
    ] = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone of --cron.")] = "UTC",
    description: Annotated[str, typer.Option(metavar="TEXT", help="Description.")] = "",
    recipe: Annotated[
        str | None,
        typer.Option(metavar="RECIPE", help="Add a recipe of `rota cleanup recipes` instead."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="PREFIX", help="Prefix of the tables, if the recipe fits several."),
    ] = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Delete expired rows of a table regularly. Creates a schedule of the job rota.cleanup."""
    from rota.model.cleanup import DEFAULT_CRON

    age = values.seconds(older_than, "--older-than")
    if recipe is not None and (table_name or column or age is not None or where or cron):
        values.refuse(
            "--recipe", "a recipe sets table, column, age, condition and cron; do not pass them"
        )
    if recipe is None and (table_name is None or column is None or age is None):
        values.refuse("TABLE", "pass TABLE, --column and --older-than, or --recipe")
    if name is not None and split_name(name)[0] is not None:
        refuse_slash(name, "--name", "cleanups have no tenant: pass a name without a slash")
    with administer(ctx) as app:
        acting = app.cleanup.by(actor()).sync
        if recipe is not None:
            made = acting.add_recipe(recipe, prefix=prefix, name=name, reason=reason)
        else:
            made = acting.add(
                table_name or "", column=column or "", older_than=age or 0, where=where, name=name,
                cron=cron or DEFAULT_CRON, timezone=timezone, description=description,
                reason=reason,
            )  # fmt: skip
    if json:
        print_json(made)
        return
    say(f'cleanup "{made.name}" added, {made.timing}')
    _print_rules(made)


@commands.command("recipes")
def recipes(ctx: typer.Context, json: Json = False) -> None:
    """List ready-made cleanups for tables that this database has."""
    with administer(ctx) as app:
        found = app.cleanup.sync.recipes()
    if json:
        print_json(found)
    elif not found:
        remark("no recipe matches your tables; add your own cleanup with `rota cleanup add TABLE`")
    else:
        rows = [
            (one.name, one.prefix, one.description, "yes" if one.is_used else "") for one in found
        ]
        table(("RECIPE", "PREFIX", "DELETES", "ADDED"), rows)


@commands.command("remove")
def remove(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Remove a cleanup: nothing more is deleted. Its history and audit entries are kept."""
    with administer(ctx) as app:
        app.cleanup.by(actor()).sync.remove(name, reason=reason)
    tell(json, f'cleanup "{name}" removed', cleanup=name, action="removed")


@commands.command("run")
def run(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Cleanup name. Default: all.", autocompletion=cleanup_names
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the rows instead of deleting them.")
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Run a cleanup now, on a worker. Without NAME, runs all active ones. With --dry-run, counts
    the rows that would be deleted."""
    with administer(ctx) as app:
        acting = app.cleanup.by(actor()).sync
        if dry_run:
            _print_counts(acting.plan(name), json)
            return
        active = [one.name for one in acting.list() if one.state in ("active", "pending")]
        done = [acting.run(wanted, reason=reason) for wanted in ([name] if name else active)]
    if json:
        print_json([{"cleanup": started.schedule, "run_id": started.run_id} for started in done])
    elif not done:
        remark("no active cleanups")
    for started in () if json else done:
        say(f"run {started.run_id} of {started.schedule} enqueued")


def _print_counts(counts: list[CleanupCount], json: bool) -> None:
    if json:
        print_json(counts)
    elif not counts:
        remark("no cleanups")
    else:
        rows = [(count.name, count.table, count.column, count.matching) for count in counts]
        table(("CLEANUP", "TABLE", "COLUMN", "ROWS>"), rows)
        say(f"would delete {plural(sum(count.matching for count in counts), 'row')}")
