"""Errors in the words of the command line. What refuses is the database or the library, which speak
of columns, arguments and calls; whoever typed a command is told of commands and flags."""

from __future__ import annotations

import re
from collections.abc import Collection

# What to do, as SQL and Python say it, and as it is typed.
_CALLS = (
    ("delete_job(…, cascade => true)", "--cascade"),
    ("delete_job(…, cancel_open => true)", "--cancel-open"),
    ("rota.jobs lists them", "`rota jobs list` lists them"),
    ("rota.schedules lists them", "`rota schedules list` lists them"),
    ("NULL takes the cap away", "`none` removes the limit"),
    ("null takes the cap away", "`none` removes the limit"),
    ("must be seconds or a timedelta", "must be a duration"),
    ("key_period or key_keep", "--key-period or --key-keep"),
)  # fmt: skip
# Columns and arguments, and the flags that set them; the first that the command has.
_FLAGS = {
    "timeout_seconds": ("--attempt-timeout", "--timeout"),
    "key_seconds": ("--key-keep",),
    "period_seconds": ("--key-period", "--per"),
    "delay_seconds": ("--delay",),
    "interval_seconds": ("--every",),
    "jitter_seconds": ("--jitter",),
    "grace_seconds": ("--grace",),
    "catch_up_seconds": ("--catch-up-window",),
    "has_seconds": ("--with-seconds",),
    "is_shadow": ("--shadow",),
    "default_payload": ("--payload",),
    "next_after": ("--next-after",),
    "on_full": ("--on-full",),
    "when_full": ("--when-full",),
    "max_waiting": ("--max-waiting",),
    "max_runs_per_day": ("--max-runs-per-day",),
    "max_bytes_per_day": ("--max-bytes-per-day",),
    "retention_days": ("--retention-days",),
    "failed_retention_days": ("--failed-retention-days",),
}
_NAMES = re.compile(rf"(?<![\w.\"'-])({'|'.join(_FLAGS)})\b")


def typed(text: str, flags: Collection[str]) -> str:
    """The text as somebody reads it who typed a command with these flags."""
    for call, words in _CALLS:
        text = text.replace(call, words)

    def flag(found: re.Match[str]) -> str:
        return next((one for one in _FLAGS[found[1]] if one in flags), found[1])

    return _NAMES.sub(flag, text)
