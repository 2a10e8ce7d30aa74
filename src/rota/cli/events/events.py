"""`rota events`: emit, list, show and replay events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.reads import read_command
from rota.cli.terminal import times
from rota.cli.terminal.output import compact, facts, heading, json_block, remark, table
from rota.cli.terminal.watch import watched
from rota.model.event import where_from
from rota.model.formatting import plural
from rota.operations.events import EventCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.event import BindingInfo, EventInfo
    from rota.model.table_watch import Refusal

commands = typer.Typer(name="events", help=DECLARED["events"], no_args_is_help=True)

HEADERS = ("ID>", "WHEN", "EVENT", "FROM", "STARTED")
WITH_TENANT = ("ID>", "WHEN", "TENANT", *HEADERS[2:])


def _list(ctx: typer.Context, app: App, found: list[EventInfo], given: dict[str, Any]) -> None:
    if not found:
        remark("no events match")
        return
    now, is_absolute = app.clock.sync.now(), ctx.params["absolute"]
    # Show the column only if there are tenants.
    is_shared = any(event.tenant for event in found)
    rows = [
        (
            one.id,
            times.shown(one.at, now, is_absolute),
            *([one.tenant] if is_shared else []),
            one.name,
            where_from(one.source),
            started(one),
        )
        for one in found
    ]
    table(WITH_TENANT if is_shared else HEADERS, rows)


def started(one: EventInfo) -> str:
    """Return what the event started, in a few words."""
    if one.duplicate_of is not None:
        return f"nothing: event {one.duplicate_of} came first"
    if one.outcome == "unbound":
        return "nothing: no job was bound to it"
    if one.outcome == "filtered":
        return f"nothing: the filters of {plural(len(one.told), 'job')} did not match"
    return ", ".join(delivery.brief for delivery in one.told if delivery.run is not None)


def _show(ctx: typer.Context, app: App, found: EventInfo) -> None:
    facts(
        [
            ("event", found.id),
            ("name", found.name),
            ("tenant", found.tenant),
            ("when", times.both(found.at, app.clock.sync.now())),
            ("key", found.key),
            ("actor", found.actor),
            ("database role", found.role),
            ("from", where_from(found.source)),
            ("source", compact(found.source) if found.source else ""),
            ("outcome", started(found)),
        ]
    )
    if found.told:
        heading("jobs")
        table(("JOB", "RUN>", "RESULT"), [(it.job, it.run or "", it.word) for it in found.told])
    heading("payload")
    json_block(found.payload)


def _bindings(ctx: typer.Context, app: App, found: list[BindingInfo]) -> None:
    if not found:
        is_filtered = ctx.params["event"] or ctx.params["job"]
        remark("no bindings match" if is_filtered else "no job is bound to an event")
        return
    rows = [
        (
            binding.pattern,
            binding.job,
            compact(binding.filter) if binding.filter else "",
            "" if binding.is_enabled else "job disabled: its runs wait",
        )
        for binding in found
    ]
    table(("EVENT", "JOB", "FILTER", "NOTE"), rows)


def _refusals(ctx: typer.Context, app: App, found: list[Refusal], given: dict[str, Any]) -> None:
    if not found:
        remark("no refused requests")
        return
    now, is_absolute = app.clock.sync.now(), ctx.params["absolute"]
    rows = [
        (times.shown(it.last_at, now, is_absolute), it.hook, it.reason, it.address, it.refusals)
        for it in found
    ]
    table(("WHEN", "HOOK", "WHY", "FROM", "TIMES>"), rows)


add_actions(commands, "events", None)
commands.command("list")(watched(list_command("events", _list, limit=50)))
commands.command("show")(watched(read_command("events", EventCommands.get, _show, options=())))
commands.command("bindings")(
    watched(read_command("events", EventCommands.bindings, _bindings, options=()))
)
commands.command("refusals")(watched(list_command("events", _refusals, limit=50, read="refusals")))
