"""The output about runs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.cli.reports.logs import line_text
from rota.cli.terminal import paging, times
from rota.cli.terminal.output import (
    as_pairs,
    block,
    compact,
    facts,
    first_line,
    heading,
    json_block,
    listed,
    print_json,
    remark,
    say,
    table,
)
from rota.cli.terminal.place import shown
from rota.model.printable import entry

if TYPE_CHECKING:
    from rota.jobs.handle import Run
    from rota.model.attempt import AttemptInfo
    from rota.model.details import Isolation, RunDetails
    from rota.model.log import LogLine
    from rota.model.run import RunInfo
    from rota.model.run_filter import RunPage

HEADERS = ("ID>", "STATE", "JOB", "QUEUE", "ATTEMPT>", "CREATED", "DETAILS")
WITH_TENANT = ("ID>", "STATE", "TENANT", *HEADERS[2:])


def print_list(found: list[RunInfo], now: datetime, is_absolute: bool) -> None:
    if not found:
        remark("no runs")
        return
    # Show the column only if there are tenants.
    is_shared = any(run.tenant for run in found)
    rows = [
        (
            run.id,
            run.state,
            *([run.tenant] if is_shared else []),
            run.job,
            run.queue,
            _attempts(run),
            times.shown(run.created_at, now, is_absolute),
            news(run, now, is_absolute),
        )
        for run in found
    ]
    table(WITH_TENANT if is_shared else HEADERS, rows)


def print_more(page: RunPage) -> None:
    """Print how to continue: the page is full, or the search took too long."""
    if page.cursor is not None and page.searched_to is not None:
        to = times.absolute(page.searched_to)
        remark(f"searched back to {to}; to continue the search: --after {page.cursor}")
    else:
        paging.more(len(page.runs), page.cursor)


def _attempts(run: RunInfo) -> str:
    """Return the attempts that count: handed back or snoozed attempts do not use the allowance."""
    current = 1 if run.state == "running" else 0
    return f"{run.attempts_used + current}/{run.max_attempts}"


def news(run: RunInfo, now: datetime, is_absolute: bool = False) -> str:
    """Return the most useful fact about a run in this state."""
    error = first_line(run.last_error)
    match run.state:
        case "scheduled":
            due = f"due {times.shown(run.run_at, now, is_absolute)}"
            return f"{due}, after: {error}" if error else due
        case "queued" if run.held_by:
            detail = f", {error}" if run.held_by == "payload" and error else ""
            return f"held: {run.held_by}{detail}"
        case "queued":
            since = f"since {times.absolute(run.run_at)}"
            return f"waiting {since if is_absolute else times.span(_seconds(run.run_at, now))}"
        case "running":
            progress = "" if run.progress is None else f", {run.progress:.0%}"
            since = times.span(_seconds(run.started_at or now, now))
            return f"for {since} on worker {run.worker}{progress}"
        case "succeeded":
            return f"took {times.took(run.duration_ms)}"
        case "failed":
            return error or run.end_reason or ""
        case _:
            return run.end_reason or ""


def _seconds(start: datetime, now: datetime) -> float:
    return (now - start).total_seconds()


def print_details(found: RunDetails, now: datetime) -> None:
    run = found.run
    facts(_facts(run, now, found.isolation))
    _json_section("payload", run.payload)
    if run.result is not None:
        _json_section("result", run.result)
    if found.attempts:
        heading("attempts")
        _print_attempts(found.attempts)
        _print_failure(found.attempts)
        _print_answer(found.attempts)
    if found.logs:
        heading("log")
        for line in found.logs:
            block(_log_text(line))


_ISOLATION = {
    "waiting": "waiting to be isolated, because a worker was lost while running it",
    "process": "isolated in a separate process, because a worker was lost while running it",
    "inline": "isolated in its worker's process, because a worker was lost while running it",
}


def _facts(run: RunInfo, now: datetime, isolation: Isolation | None) -> list[tuple[str, object]]:
    by = dict(as_pairs(run.triggered_by))
    kind = by.pop("type", "")
    triggered = ", ".join([str(kind), *(f"{key} {value}" for key, value in by.items())])
    return [
        ("run", run.id),
        ("state", run.state if run.finished_at else f"{run.state}, {news(run, now)}"),
        ("isolation", _ISOLATION[isolation] if isolation else ""),
        ("error", first_line(run.last_error)),
        ("job", run.job),
        ("queue", run.queue),
        ("priority", run.priority),
        ("attempts", f"{run.attempts_used} of {run.max_attempts} used"),
        ("key", run.key),
        ("tenant", run.tenant),
        ("tags", listed(run.tags)),
        ("metadata", compact(run.metadata) if run.metadata else ""),
        ("schedule", run.schedule),
        ("triggered by", triggered),
        ("created", times.both(run.created_at, now)),
        ("run at", times.both(run.run_at, now) if run.run_at != run.created_at else ""),
        ("started", times.both(run.started_at, now)),
        ("finished", times.both(run.finished_at, now)),
        ("took", times.took(run.duration_ms)),
        ("expires", times.both(run.expires_at, now)),
        ("worker", run.worker),
        ("message", run.message),
        ("end reason", run.end_reason),
    ]


def _json_section(title: str, value: Any) -> None:
    heading(title)
    json_block(value)


def _print_attempts(attempts: list[AttemptInfo]) -> None:
    rows = [
        (
            attempt.attempt,
            attempt.state,
            attempt.worker,
            times.absolute(attempt.started_at),
            times.took(attempt.duration_ms),
            _attempt_news(attempt),
        )
        for attempt in attempts
    ]
    table(("#>", "STATE", "WORKER>", "STARTED", "TOOK>", "DETAILS"), rows)


def _attempt_news(one: AttemptInfo) -> str:
    remarks = (
        "not counted" if one.is_spent is False else "",
        "redelivered" if one.is_redelivery else "",
        _error_text(one) or one.message,
    )
    return ", ".join(part for part in remarks if part)


def _error_text(one: AttemptInfo) -> str:
    return ": ".join(part for part in (one.error_type, one.error) if part)


def _print_failure(attempts: list[AttemptInfo]) -> None:
    failed = [attempt for attempt in attempts if attempt.error]
    if not failed:
        return
    last = failed[-1]
    heading(f"error of attempt {last.attempt}")
    block(last.traceback or _error_text(last))


def _print_answer(attempts: list[AttemptInfo]) -> None:
    """Print the details that a SQL function returned; after a success they are part of the
    result."""
    last = attempts[-1]
    if last.details is not None and last.state != "succeeded":
        _json_section(f"details of attempt {last.attempt}", last.details)


def _log_text(line: LogLine) -> str:
    start = f"{times.absolute(line.at)}  {line.attempt}  {line.level:<8}"
    return f"{start}  {entry(line_text(line), '    ')}"


def print_enqueued(run: Run, is_json: bool) -> None:
    if is_json:
        print_json({"id": run.id, "job": run.job, "is_duplicate": run.is_duplicate})
    else:
        say(enqueued(run))


def enqueued(run: Run) -> str:
    return f"run {run.id} {'already holds the key' if run.is_duplicate else 'enqueued'}"


def print_ended(run: RunInfo, is_json: bool) -> int:
    """Print only the result on stdout; return 1 if there is none because the run did not
    succeed."""
    if is_json:
        print_json(run)
    elif run.state == "succeeded":
        print_json(run.result)
    if run.state == "succeeded":
        return 0
    reason = ": ".join(part for part in (run.end_reason, run.last_error) if part)
    remark(f"error: run {run.id} {run.state}{': ' + reason if reason else ''}")
    remark(f"hint: {shown('runs', 'show', str(run.id))}")
    return 1
