"""`rota retention`: preview and remove expired data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import read_flags
from rota.cli.program import DECLARED
from rota.cli.reads import option, printing, summary_of
from rota.cli.session import actor, administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, say, table
from rota.cli.terminal.progress import progress
from rota.model.fields import arguments_of
from rota.model.formatting import plural, size
from rota.operations.reading import plan_behind
from rota.operations.retention import RetentionCommands

if TYPE_CHECKING:
    from rota.model.retention import RetentionItem, RetentionResult

commands = typer.Typer(name="retention", help=DECLARED["retention"], no_args_is_help=True)
_RUN = arguments_of(plan_behind(RetentionCommands.run))


@commands.callback()
def retention() -> None:
    """How long finished runs and logs are kept: [retention] in rota.toml, or per job."""


def _run(ctx: typer.Context, dry_run: bool, json: bool, **texts: Any) -> int:
    given = dict(read_flags(_RUN, texts))
    with administer(ctx) as app:
        face = app.retention.by(actor()).sync
        if dry_run:
            result = face.plan()
        else:
            with progress("removing rows") as bar:
                result = face.run(**given, on_progress=bar.advance)
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


_DRY_RUN = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be deleted without deleting it.")
]
commands.command("run")(
    printing(
        "run",
        _run,
        summary_of(RetentionCommands.run),
        _RUN,
        option("dry_run", _DRY_RUN, False),
        option("json", Json, False),
    )
)
