"""Policies and decisions of schedules in plain words. Pure."""

from __future__ import annotations

from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_info import ScheduleInfo
from rota.web import time_text
from rota.web.schedule_values import value_of

_REASONS = {
    "overlap": "the previous run had not ended",
    "paused": "the schedule was paused",
    "disabled": "the schedule was disabled",
    "job_deleted": "no code declared its job",
    "job_disabled": "its job was disabled",
    "calendar": "its calendar was closed",
    "dst_gap": "this local time does not exist on that day: the clocks go forward",
    "requirement": "a requirement had not succeeded",
    "limit": "the limit was reached",
    "queue_full": "the queue was full",
    "coalesced": "a later missed time ran instead",
    "max_runs": "it had reached its maximum number of runs",
    "shadow": "it is a shadow: it records decisions and enqueues nothing",
    "policy none": "its policy is not to catch up",
    "window": "older than the catch-up window",
    "cap": "more times were missed than the catch-up limit allows",
    "edited": "the schedule was edited",
    "rescheduled": "the schedule was rescheduled",
}


def policies(one: ScheduleInfo) -> list[tuple[str, str]]:
    """Return pairs of a case and its consequence."""
    found = [
        ("a time is missed", _missed(one)),
        ("the previous run has not ended", _overlap(one)),
    ]
    if one.calendar:
        what = _sentence("on_closed", one.on_closed)
        found.append(("the day is closed", f"{what}. Calendar {one.calendar}."))
    if one.cron and one.timezone != "UTC":
        gap, fold = value_of("gap", one.gap), value_of("fold", one.fold)
        text = f"A skipped local time: {gap}; a repeated one: {fold}."
        found.append(("the clocks change", text))
    if one.jitter_seconds:
        text = f"Start up to {time_text.duration(one.jitter_seconds)} later (jitter)."
        found.append(("others start at the same time", text))
    if one.burst_allowed:
        found.append(("many are due at the same instant", "Start on time."))
    if one.pause_after_failures:
        now = one.failures_in_a_row
        most = time_text.plural(one.pause_after_failures, "consecutive failure")
        text = f"Pause after {most}; now {now}."
        found.append(("it keeps failing", text))
    if one.max_runs:
        limit = time_text.plural(one.max_runs, "run")
        text = f"End after {limit}; {time_text.number(one.run_count)} so far."
        found.append(("it has reached its maximum number of runs", text))
    if one.is_shadow:
        found.append(("it is due", "Record decisions in the ledger, but enqueue nothing (shadow)."))
    if one.requires:
        names = ", ".join(str(requirement.get("name", "")) for requirement in one.requires)
        found.append(("it is due", f"Run only if these have succeeded: {names}."))
    return found


def _sentence(column: str, value: str) -> str:
    words = value_of(column, value)
    return f"{words[:1].upper()}{words[1:]}"


def _overlap(one: ScheduleInfo) -> str:
    text = f"{_sentence('overlap', one.overlap)}."
    if one.max_concurrent_runs == 1 or one.overlap == "allow":
        return text
    return f"Up to {one.max_concurrent_runs} run at a time. Beyond that: {text}"


def _missed(one: ScheduleInfo) -> str:
    text = _sentence("catch_up", one.catch_up)
    if one.catch_up == "none":
        return f"{text}."
    if one.catch_up_window_seconds is not None:
        text += f", if it is no more than {time_text.duration(one.catch_up_window_seconds)} old"
    if one.catch_up == "all":
        text += f", at most {time_text.number(one.catch_up_limit)} of them"
    grace = f" Up to {time_text.duration(one.grace_seconds)} late counts as on time."
    return f"{text}.{grace if one.grace_seconds else ''}"


def reason_of(one: OccurrenceInfo) -> str:
    """Return why this was decided; empty for a time that ran normally."""
    if one.error:
        return one.error
    text = _REASONS.get(one.reason or "", one.reason or "")
    unmet = (one.details or {}).get("unmet")
    if one.reason == "requirement" and isinstance(unmet, list) and unmet:
        return f"{text}: {', '.join(map(str, unmet))}"
    return f"{text}; an operator set this time" if one.is_moved and text else text
