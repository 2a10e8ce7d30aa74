"""The output about schedules."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.cli.tenants.whose import whole_name
from rota.cli.terminal import times
from rota.cli.terminal.output import (
    block,
    compact,
    facts,
    first_line,
    heading,
    remark,
    table,
)
from rota.model.formatting import number, percent
from rota.model.schedule_fields import schedule_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.fields import Argument
    from rota.model.occurrence import OccurrenceInfo
    from rota.model.schedule_edit import Override
    from rota.model.schedule_info import BackfillInfo, ScheduleInfo
    from rota.timing.preview import PreviewRow

# The listed runs of a backfill; a program gets all with --json.
_SHOWN_TIMES = 50
HEADERS = ("NAME", "STATE", "JOB", "WHEN", "NEXT", "LAST", "RUNS>", "SUCCESS>", "NOTE")


def print_list(found: list[ScheduleInfo], now: datetime, is_absolute: bool) -> None:
    rows = [
        (
            whole_name(one.tenant, one.name),
            one.state,
            one.job,
            one.timing,
            times.shown(one.next_run_at, now, is_absolute),
            _last(one, now, is_absolute),
            number(one.total_runs) if one.total_runs else "",
            _percent(one),
            _news(one),
        )
        for one in found
    ]
    table(HEADERS, rows)


def _last(one: ScheduleInfo, now: datetime, is_absolute: bool) -> str:
    if one.last_run_at is None:
        return ""
    how = "ok" if one.last_run_success else "failed"
    return f"{how} {times.shown(one.last_run_at, now, is_absolute)}"


def _percent(one: ScheduleInfo) -> str:
    rate = one.success_rate_percent
    return "" if rate is None else percent(rate / 100)


def _news(one: ScheduleInfo) -> str:
    if one.state == "paused":
        reason = f": {one.pause_reason}" if one.pause_reason else ""
        return f"by {one.paused_by}{reason}"
    return first_line(one.error) if one.state == "parked" else one.description


def _state_news(one: ScheduleInfo) -> str:
    if one.state == "pending":
        return "a worker will compute its next time"
    if one.state == "orphaned":
        return f"skips its times: no code declares job {one.job}"
    return _news(one) if one.state in ("paused", "parked") else ""


def print_details(one: ScheduleInfo, overrides: Sequence[Override], now: datetime) -> None:
    changed = [
        f"{it.field} by {it.changed_by or 'unknown'} {times.ago(it.changed_at, now)}".rstrip()
        for it in overrides
    ]
    own = [("overrides", "; ".join(changed))]
    facts([*_identity(one), *_settings(one), *own, *_standing(one, now)])


def _identity(one: ScheduleInfo) -> list[tuple[str, object]]:
    return [
        ("schedule", one.name),
        ("tenant", one.tenant),
        ("state", ", ".join(part for part in (one.state, _state_news(one)) if part)),
        ("job", one.job),
        ("when", one.timing),
        ("cron", one.cron),
        ("time zone", one.timezone),
        ("description", one.description),
    ]


def _settings(one: ScheduleInfo) -> list[tuple[str, object]]:
    """The settings that have a value, but for those of another kind of timing."""
    return [
        (it.label.lower(), _shown(it, getattr(one, name)))
        for name, it in schedule_settings().items()
        if name not in _ABOVE and not it.is_unset(getattr(one, name)) and _counts(one, name)
    ]


def _counts(one: ScheduleInfo, name: str) -> bool:
    return name not in _ONLY_WITH or getattr(one, _ONLY_WITH[name]) is not None


def _shown(it: Argument, value: Any) -> str:
    try:
        return f"{value}: {it.shown(value)}" if it.kind == "choice" else it.shown(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Plain SQL may have written anything.
        return compact(value)


_ABOVE = ("cron", "interval_seconds", "run_at", "init", "timezone", "description", "is_enabled")
_ONLY_WITH = {
    "gap": "cron",
    "fold": "cron",
    "every_from": "interval_seconds",
    "on_closed": "calendar",
}


def _standing(one: ScheduleInfo, now: datetime) -> list[tuple[str, object]]:
    edited = f"{times.both(one.updated_at, now)} by {one.updated_by}"
    took = f"{times.took(one.avg_duration_ms)}, longest {times.took(one.max_duration_ms)}"
    return [
        ("paused", times.both(one.paused_at, now)),
        ("paused until", times.both(one.paused_until, now)),
        ("next", times.both(one.next_run_at, now)),
        ("last run", _last(one, now, False)),
        ("last success", times.both(one.last_success_at, now)),
        ("runs", f"{one.total_runs:,}, {_percent(one)} succeeded" if one.total_runs else ""),
        ("takes", took if one.avg_duration_ms is not None else ""),
        ("finished", times.both(one.finished_at, now)),
        ("error", one.error),
        ("edited", edited if one.updated_by else ""),
        ("version", one.version),
    ]


def print_short_times(coming: list[PreviewRow], past: list[OccurrenceInfo], now: datetime) -> None:
    if coming:
        heading("next")
        for row in coming:
            block(f"{row.local:%a %Y-%m-%d %H:%M:%S %Z}  {row.note}".rstrip())
    if past:
        heading("last")
        print_history(past, now, False)


def print_preview(rows: list[PreviewRow]) -> None:
    if not rows:
        remark("no times")
        return
    table(
        ("UTC", "LOCAL", "YOURS", "NOTE"),
        [
            (
                f"{row.at:%Y-%m-%d %H:%M:%S}",
                f"{row.local:%a %Y-%m-%d %H:%M:%S %Z}",
                f"{times.local(row.at):%a %H:%M %Z}",
                row.note,
            )
            for row in rows
        ],
    )


def print_history(found: list[OccurrenceInfo], now: datetime, is_absolute: bool) -> None:
    if not found:
        remark("no entries")
        return
    rows = [
        (
            times.absolute(one.nominal_at),
            one.count,
            one.decision,
            _why(one),
            one.run_id or "",
            one.state or "",
            times.took(one.duration_ms),
            *_decided(one, now, is_absolute),
            _occurrence_news(one),
        )
        for one in found
    ]
    headers = (
        "TIME",
        "COUNT>",
        "DECISION",
        "REASON",
        "RUN>",
        "STATE",
        "TOOK>",
        "CLAIMED",
        "DECIDED",
        "NOTE",
    )
    table(headers, rows)


def _is_manual(one: OccurrenceInfo) -> bool:
    return one.decision in ("triggered", "backfilled")


def _why(one: OccurrenceInfo) -> str:
    if not _is_manual(one):
        return one.reason or ""
    return f"by {(one.details or {}).get('actor')}{f': {one.reason}' if one.reason else ''}"


def _decided(one: OccurrenceInfo, now: datetime, is_absolute: bool) -> tuple[str, str]:
    """Return empty texts for manual runs, for which there was no decision."""
    if _is_manual(one):
        return "", ""
    claimed = times.shown(one.claimed_at, now, is_absolute)
    return claimed, times.shown(one.decided_at, now, is_absolute)


def _occurrence_news(one: OccurrenceInfo) -> str:
    is_span = one.count > 1 and not _is_manual(one)
    remarks = (
        "moved" if one.is_moved else "",
        f"through {times.absolute(one.through_at)}" if is_span else "",
        _filled(one) if one.decision == "backfilled" else _backfilled(one),
        first_line(one.error),
    )
    return ", ".join(part for part in remarks if part)


def _filled(one: OccurrenceInfo) -> str:
    """Return the period of a backfill."""
    ends = [(one.details or {}).get(name) for name in ("from_at", "until_at")]
    return " to ".join(times.absolute(datetime.fromisoformat(at)) for at in ends if at)


def _backfilled(one: OccurrenceInfo) -> str:
    if one.backfill_run_id is None:
        return ""
    if one.count > 1:
        states = [f"{times_:,} {state}" for state, times_ in (one.backfill_states or {}).items()]
        ended = f" ({', '.join(states)})" if states else ""
        return f"{one.backfill_count:,} of {one.count:,} backfilled{ended}"
    state = f" ({one.backfill_state})" if one.backfill_state else ""
    return f"backfilled by run {one.backfill_run_id}{state}"


def print_backfill(done: BackfillInfo) -> None:
    runs: list[object] = [*done.run_ids] or [""] * len(done.times)
    if done.times:
        rows = [(times.absolute(at), run) for at, run in zip(done.times, runs, strict=True)]
        table(("TIME", "RUN>"), rows[:_SHOWN_TIMES])
        if len(rows) > _SHOWN_TIMES:
            remark(
                f"… and {len(rows) - _SHOWN_TIMES:,} more, up to {rows[-1][0]}; --json lists all"
            )
