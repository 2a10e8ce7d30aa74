"""`rota retention`: preview and remove expired data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, say, table
from rota.cli.terminal.progress import progress
from rota.model.formatting import plural, size

if TYPE_CHECKING:
    from rota.model.retention import RetentionItem, RetentionResult

commands = typer.Typer(
    name="retention",
    help="Retention of finished runs, logs and other history.",
    no_args_is_help=True,
)


@commands.callback()
def retention() -> None:
    """How long finished runs and logs are kept: [retention] in rota.toml, or per job."""


@commands.command("run")
def run(
    ctx: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted without deleting it.")
    ] = False,
    hurry: Annotated[
        bool,
        typer.Option(
            "--hurry", help="Do not pause between batches. Faster, but slows busy workers."
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Delete expired data now instead of waiting for the nightly pass."""
    with administer(ctx) as app:
        face = app.retention.by(actor()).sync
        if dry_run:
            result = face.plan()
        else:
            with progress("removing rows") as bar:
                result = face.run(hurry=hurry, on_progress=bar.advance)
    if json:
        print_json(result)
    else:
        _print(result)
    return 1 if not dry_run and any(item.note for item in result.items) else 0


def _print(result: RetentionResult) -> None:
    if not result.items:
        remark("nothing has expired")
        return
    rows = [
        (
            item.action,
            item.partition or item.table,
            _whose(item),
            item.outcome or "",
            f"about {item.rows:,}" if item.action == "drop" else f"{item.rows:,}",
            _size(item),
            times.absolute(item.until),
            item.note or "",
        )
        for item in result.items
    ]
    table(("ACTION", "WHERE", "OF", "OUTCOME", "ROWS>", "SIZE>", "UNTIL", "NOTE"), rows)
    done = "would remove" if result.is_dry_run else "removed"
    say(f"{done} about {plural(result.rows, 'row')}")


def _whose(one: RetentionItem) -> str:
    return one.job or (f"tenant {one.tenant}" if one.tenant else "")


def _size(one: RetentionItem) -> str:
    return "" if one.bytes is None else size(one.bytes)
