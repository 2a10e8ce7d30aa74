"""Reasons in words, each with the command that would change it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rota.cli.terminal import times
from rota.cli.terminal.output import block, say
from rota.cli.terminal.place import placed

if TYPE_CHECKING:
    from rota.model.why import Reason, Why


def print_reasons(found: Why) -> None:
    for number, reason in enumerate(found.reasons, 1):
        say(f"{number}. {reason.sentence}")
        block("\n".join(_lines(reason, found.at)))


def _lines(reason: Reason, now: datetime) -> list[str]:
    when = when_text(reason, now)
    then = f"$ {placed(reason.command)}" if reason.command else ""
    return [f" {line}" for line in (when, reason.next_step, then) if line]


def when_text(reason: Reason, now: datetime) -> str:
    """Return `since … (3m ago), until … (in 5m)`; for the past, `at …`."""
    word = "at" if reason.is_past else "since"
    since = f"{word} {times.both(reason.since, now)}" if reason.since else ""
    until = f"until {times.both(reason.until, now)}" if reason.until else ""
    return ", ".join(part for part in (since, until) if part)
