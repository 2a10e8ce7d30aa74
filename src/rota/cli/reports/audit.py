"""`rota audit`: who did what, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rota.cli.operations import list_command
from rota.cli.program import DECLARED
from rota.cli.reads import read_command
from rota.cli.terminal import times
from rota.cli.terminal.output import compact, facts, heading, remark, table
from rota.cli.terminal.watch import watched
from rota.operations.reports.audit import AuditCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.audit import AuditEntry, Change

commands = typer.Typer(name="audit", help=DECLARED["audit"], no_args_is_help=True)

# A created record has all its columns as changes: this many are enough to identify it.
_MOST_CHANGES = 4
HEADERS = ("ID>", "WHEN", "ACTOR", "ACTION", "OBJECT", "WHY")
WITH_TENANT = (*HEADERS[:4], "TENANT", *HEADERS[4:])


def _list(ctx: typer.Context, app: App, found: list[AuditEntry], given: dict[str, Any]) -> None:
    if not found:
        remark("no entries match")
        return
    now = app.clock.sync.now()
    # Show the column only if there are tenants.
    is_shared = any(entry.tenant for entry in found)
    rows = [
        (
            entry.id,
            times.shown(entry.at, now, ctx.params["absolute"]),
            entry.actor,
            entry.action,
            *([entry.tenant] if is_shared else []),
            _object(entry),
            _why(entry),
        )
        for entry in found
    ]
    table(WITH_TENANT if is_shared else HEADERS, rows)


def _object(entry: AuditEntry) -> str:
    return f"{entry.object_type} {entry.object_id}"


def _why(entry: AuditEntry) -> str:
    """Return the reason; without one, the changes. `show` prints all previous values."""
    if entry.reason is not None or entry.after is None:
        return entry.reason or ""
    changes = [_change(change) for change in entry.changes if not change.is_same]
    more = [f"and {len(changes) - _MOST_CHANGES} more"] if len(changes) > _MOST_CHANGES else []
    return ", ".join([*changes[:_MOST_CHANGES], *more])


def _change(it: Change) -> str:
    if it.before is None:
        return f"{it.field} {compact(it.after)}"
    return f"{it.field} {compact(it.before)} → {compact(it.after)}"


def _show(ctx: typer.Context, app: App, found: AuditEntry) -> None:
    now = app.clock.sync.now()
    facts(
        [
            ("entry", found.id),
            ("action", found.action),
            ("object", _object(found)),
            ("tenant", found.tenant),
            ("actor", found.actor),
            ("database login", found.db_user),
            ("when", times.both(found.at, now)),
            ("why", found.reason),
        ]
    )
    if found.changes:
        heading("changes")
        rows = [(it.field, _value(it.before), _value(it.after)) for it in found.changes]
        table(("FIELD", "BEFORE", "AFTER"), rows)


def _value(value: Any) -> str:
    return "" if value is None else compact(value)


commands.command("list")(watched(list_command("audit", _list, limit=50)))
commands.command("show")(watched(read_command("audit", AuditCommands.get, _show, options=())))
