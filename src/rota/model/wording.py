"""Errors and advice in the words of each interface.

Errors are raised by SQL or by the library: SQL speaks of columns and functions, the library of
arguments and calls. `said` translates them for each interface. To advise something that has
different names in the interfaces, add a row to `WORDS`, or use `listed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

Face = Literal["sql", "python", "rest", "cli", "page"]
Noun = Literal[
    "jobs", "schedules", "calendars", "limits", "templates", "watches", "cleanups", "recipes"
]


class Words(NamedTuple):
    """The wording of each interface for one thing; empty if the interface says nothing about it."""

    sql: str
    python: str
    rest: str
    cli: str
    page: str


def _lists(table: str, call: str, path: str, command: str, page: str) -> Words:
    return Words(
        f"rota.{table} lists them" if table else "",
        f"app.{call} lists them",
        f"GET /api/v1/{path} lists them",
        f"`rota {command}` lists them",
        f"the page {page} lists them",
    )


LISTS: dict[Noun, Words] = {
    "jobs": _lists("jobs", "jobs.list()", "jobs", "jobs list", "Jobs"),
    "schedules": _lists(
        "schedules", "schedules.list()", "schedules", "schedules list", "Schedules"
    ),
    "calendars": _lists(
        "calendars", "calendars.list()", "calendars", "calendars list", "Calendar"
    ),
    "limits": _lists("limits", "limits.list()", "limits", "limits list", "Limits"),
    "templates": _lists(
        "schedule_templates", "schedules.templates()", "schedule-templates",
        "schedules templates list", "New schedule",
    ),
    "watches": _lists(
        "table_watches", "watches.list()", "watches", "watches list", "Events"
    ),
    # A noun without a table has no words in SQL.
    "cleanups": _lists("", "cleanup.list()", "cleanup", "cleanup list", "Cleanup"),
    "recipes": _lists("", "cleanup.recipes()", "cleanup-recipes", "cleanup recipes", "Cleanup"),
}  # fmt: skip


def listed(noun: Noun) -> str:
    """Return where existing records are listed, for the hint of an error of the library."""
    return LISTS[noun].python


def _quota(setting: str) -> Words:
    words = f"raise {setting} of the tenant"
    flag = f"--{setting.replace('_', '-')}"
    return Words(words, words, words, f"raise it with `rota tenants set {flag}`", words)


_QUEUE = (
    "raise max_waiting of the queue, or set its when_full to drop_lowest, which drops the runs "
    "with the lowest priority"
)
WORDS: tuple[Words, ...] = (
    *LISTS.values(),
    *map(_quota, ("max_waiting", "max_runs_per_day", "max_bytes_per_day")),
    Words(
        "Call rota.rename_job",
        "Call app.jobs.rename()",
        "Call POST /api/v1/jobs/{name}/rename",
        "Run `rota jobs rename`",
        "Rename it",
    ),
    Words(
        "rota.job_functions lists those that can",
        "app.jobs.functions() lists those that can",
        "GET /api/v1/functions lists those that can",
        "`rota jobs functions` lists those that can",
        "the page New job lists those that can",
    ),
    Words(
        "delete_job(…, cascade => true)",
        "app.jobs.delete(…, cascade=True)",
        "cascade=true",
        "--cascade",
        "“Also delete its schedules”",
    ),
    Words(
        "delete_job(…, cancel_open => true)",
        "app.jobs.delete(…, cancel_open=True)",
        "cancel_open=true",
        "--cancel-open",
        "“Cancel its unfinished runs”",
    ),
    Words(
        "null removes the cap",
        "None removes the cap",
        "null removes the cap",
        "`none` removes the cap",
        "An empty field removes the cap",
    ),
    Words(
        "or null for all jobs",
        "or None for all jobs",
        "or null for all jobs",
        'or "any" for all jobs',
        "or empty for all jobs",
    ),
    Words(
        "rota.jobs.payload_schema describes its arguments",
        "payload_schema of app.jobs.get(…) describes its arguments",
        "payload_schema of GET /api/v1/jobs/{name} describes its arguments",
        "`rota jobs show` describes its arguments",
        "The page of the job describes its arguments",
    ),
    Words(
        "next_run_at = NULL recomputes it; rota.trigger_schedule runs it now",
        "app.schedules.trigger(…) runs it now",
        "POST /api/v1/schedules/{name}/trigger runs it now",
        "`rota schedules trigger` runs it now",
        "“Run now” runs it now",
    ),
    Words(
        "use rota.pause_schedule or rota.disable_schedule; next_run_at = NULL recomputes its next "
        "time",
        "pause or disable it",
        "pause or disable it",
        "pause or disable it",
        "pause or disable it",
    ),
    Words(
        _QUEUE,
        _QUEUE,
        _QUEUE,
        "raise it with `rota queues set --max-waiting`, or drop the runs with the lowest priority "
        "with `rota queues set --when-full drop_lowest`",
        _QUEUE,
    ),
    Words(
        "set cap 100 and period_seconds 60",
        "pass cap=100 and period_seconds=60",
        "set cap 100 and period_seconds 60",
        "pass --cap 100 --period 1m",
        "set cap 100 and period 60",
    ),
    Words(
        "Pass infinity to keep",
        "Pass 'forever' to keep",
        'Pass "forever" to keep',
        "Pass `forever` to keep",
        "Pass forever to keep",
    ),
    Words(
        "period_seconds counts from the event, key_seconds from",
        "key_period counts from the event, key_keep from",
        "period_seconds counts from the event, key_seconds from",
        "--key-period counts from the event, --key-keep from",
        "the period counts from the event, the other from",
    ),
    Words(
        "narrow since and until",
        "narrow since and until",
        "narrow since and until",
        "narrow --since and --until",
        "choose a shorter period",
    ),
    Words("Correct the value, or omit the column to use its default.", "", "", "", ""),
    Words(
        "cron, interval_seconds, run_at and init",
        "cron, every, at and init",
        "cron, interval_seconds, run_at and init",
        "--cron, --every, --at and --init",
        "cron, interval, time and start",
    ),
    Words(
        "cron, interval_seconds, run_at or init",
        "cron, every, at or init",
        "cron, interval_seconds, run_at or init",
        "--cron, --every, --at or --init",
        "cron, interval, time or start",
    ),
    Words(
        "every_from = end requires interval_seconds",
        "every_from = end requires every",
        "every_from = end requires interval_seconds",
        "--every-from end requires --every",
        "an interval from the end of a run needs an interval",
    ),
    Words(
        "run_at and delay cannot",
        "run_at and delay cannot",
        "run_at and delay_seconds cannot",
        "--run-at and --delay cannot",
        "a time and a delay cannot",
    ),
)
# Arguments of Python, and the fields of the API that have another name.
FIELDS = {
    "every": "interval_seconds",
    "at": "run_at",
    "with_seconds": "has_seconds",
    "jitter": "jitter_seconds",
    "catch_up_window": "catch_up_seconds",
    "grace": "grace_seconds",
    "shadow": "is_shadow",
    "enabled": "is_enabled",
    "timeout": "timeout_seconds",
    "delay": "delay_seconds",
    "expires_in": "expires_in_seconds",
    "key_keep": "key_seconds",
    "key_period": "period_seconds",
    "function": "function_name",
}
_OMITTED = re.compile(r"Omit the column to use its default, [^.]*\.$")
# The arguments of a job keep their names; choices are values.
_PROTECTED = re.compile(
    r"""("[^"]*"|'[^']*'|arguments? [\w, ]+|the job takes [\w, ]+|choose from [\w, ]+)"""
)
# A single word may be plain English; before the description of a problem, it is the name of an
# option.
_LEADING = re.compile(r"(?:(?<=^)|(?<=\": ))([a-z]+)(?= (?:must|needs|cannot|requires|is |-?\d))")
_FOUND = re.compile(r"(?<=, found )[a-z_]+(?: and [a-z_]+)*")
_NAMES = re.compile(r"(?<![\w.(-])([a-z]+(?:_[a-z]+)+)(?!\w)")


def said(text: str, face: Face) -> str:
    """Return a message or a hint in the words of this interface."""
    for pattern, mine in _patterns(face):
        text = pattern.sub(mine, text)
    if face != "sql":
        text = _OMITTED.sub("Pass a value, or leave it out.", text)
    return renamed(text, lambda name: FIELDS.get(name, name)) if face == "rest" else text


@cache
def _patterns(face: Face) -> list[tuple[re.Pattern[str], str]]:
    """Return the wordings of the other interfaces as patterns, with their replacements."""
    found = []
    for words in WORDS:
        mine = getattr(words, face)
        others = {re.escape(text) for text in words[1:] if text and text != mine}
        if words.sql and words.sql != mine:
            # The schema may have another name.
            others.add(re.escape(words.sql).replace(r"rota\.", r'[\w"]+\.'))
        if others:
            found.append((re.compile("|".join(sorted(others))), mine))
    return found


def renamed(text: str, rename: Callable[[str], str]) -> str:
    """Rename the options in a text; quoted text stays as it is."""
    found = _LEADING.sub(lambda it: rename(it[1]), text)
    found = _FOUND.sub(lambda it: " and ".join(map(rename, it[0].split(" and "))), found)
    parts = _PROTECTED.split(found)
    # Every other part is protected.
    parts[::2] = [_NAMES.sub(lambda it: rename(it[1]), part) for part in parts[::2]]
    return "".join(parts)
