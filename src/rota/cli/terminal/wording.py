"""Errors in the words of the command line, with the names of flags."""

from __future__ import annotations

import re
from collections.abc import Collection

from rota.model.wording import renamed, said

# Columns and arguments that have another name than their flags; the first that the command has.
_FLAGS = {
    "timeout": ("--attempt-timeout", "--timeout"),
    "timeout_seconds": ("--attempt-timeout", "--timeout"),
    "key_seconds": ("--key-keep",),
    "period_seconds": ("--key-period", "--period"),
    "delay_seconds": ("--delay",),
    "expires_in_seconds": ("--expires-in",),
    "interval_seconds": ("--every",),
    "jitter_seconds": ("--jitter",),
    "grace_seconds": ("--grace",),
    "catch_up_seconds": ("--catch-up-window",),
    "has_seconds": ("--with-seconds",),
    "is_shadow": ("--shadow",),
    "is_enabled": ("--enabled",),
    "run_at": ("--run-at", "--at"),
    "run_tags": ("--run-tag",),
    "tags": ("--tag", "--tags"),
    "name": (),  # an argument
}
_SECONDS = re.compile(r"(at (?:least|most) [\d.]+) seconds\b")


def typed(text: str, flags: Collection[str]) -> str:
    """Return the text for a user who typed a command with these flags."""

    def flag(name: str) -> str:
        known = _FLAGS.get(name, (f"--{name.replace('_', '-')}",))
        return next((flag for flag in known if flag in flags), name)

    return _SECONDS.sub(r"\1s", renamed(said(text, "cli"), flag))
