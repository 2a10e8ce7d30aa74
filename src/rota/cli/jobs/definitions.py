"""`rota jobs plan` and `sync`: the differences between code and database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.jobs.jobs import commands
from rota.cli.session import actor, administer, session
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import compact, print_json, remark, say, table
from rota.model.formatting import plural

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.drift import Drift
    from rota.operations.jobs import SyncJobs


WORDS = {
    "new": "new: will be added",
    "follows": "will be set from the code",
    "kept": "kept",
    "gone": "no longer in the code",
    "revived": "back in the code",
    "deleted": "deleted by an operator, stays deleted",
    "taken": "name taken by another schedule",
    "left": "removed from the code, {}: rota schedules delete",
    "renamed": "will be renamed from {}",
}
# The fate of a schedule that the code no longer declares.
_LEFT = {
    "active": "still active",
    "pending": "still active",
    "shadow": "still decides, as a shadow",
    "job_disabled": "skips its times (job disabled)",
    "job_deleted": "skips its times (job deleted from code)",
}


def _declared(ctx: typer.Context, app: App) -> SyncJobs:
    """Load the application without opening it: reading must not register anything."""
    loaded = session(ctx).load().app
    jobs = app.jobs.by(actor()).of(loaded.registry, loaded.config)
    return jobs.sync


@commands.command("plan")
def plan(ctx: typer.Context, json: Json = False) -> None:
    """Compare the application's jobs with the database. Shows the differences, and who made
    them."""
    with administer(ctx) as app:
        found = _declared(ctx, app).plan()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        headers = ("JOB", "OBJECT", "FIELD", "CODE", "DATABASE", "STATUS", "BY")
        table(headers, [_drift(drift, now) for drift in found])
    else:
        remark("code and database are in sync")


def _drift(one: Drift, now: datetime) -> tuple[object, ...]:
    what = one.kind if one.kind == "job" else f"{one.kind} {one.name}"
    by = f"{one.changed_by} {times.ago(one.changed_at, now)}" if one.changed_by else ""
    is_field = one.field is not None
    code, stored = (compact(one.code), compact(one.stored)) if is_field else ("", "")
    status = WORDS[one.change]
    if one.change == "left":
        status = status.format(_LEFT.get(one.stored, one.stored))
    elif one.change == "renamed":
        status = status.format(one.stored)
    return (one.job, what, one.field or "", code, stored, status, by)


@commands.command("sync")
def sync(
    ctx: typer.Context,
    force: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Job whose operator changes are overwritten; repeatable."),
    ] = None,
    force_all: Annotated[
        bool, typer.Option("--force-all", help="Overwrite operator changes of all jobs.")
    ] = False,
    json: Json = False,
) -> None:
    """Apply everything that the application declares: jobs, schedules and queues. Also marks jobs
    that it no longer declares."""
    with administer(ctx) as app:
        found = _declared(ctx, app).sync_definitions(force=force_all or force or ())
    if json:
        print_json(found)
        return
    for what, names in (("written", found.written), ("marked as deleted", found.deleted)):
        if names:
            say(f"{plural(len(names), 'job')} {what}: {', '.join(names)}")
    for what, count in (("schedule", found.schedules), ("queue", found.queues)):
        if count:
            say(f"{plural(count, what)} written")
    if not (found.written or found.deleted or found.schedules or found.queues):
        say("nothing to write")
