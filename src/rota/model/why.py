"""Why something does not run, or did what it did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["run", "schedule", "job", "queue"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, in plain words.

    `code` is for programs, `sentence` for people. `since` and `until` say from when to when it
    holds, or is expected to; of what `is_past`, `since` is when it happened. `by_whom` made it so.
    `next_step` is what happens then, or what somebody should do; `command` would change it. `facts`
    are the names and numbers in the words.
    """

    code: str
    sentence: str
    since: datetime | None
    until: datetime | None
    by_whom: str | None
    next_step: str
    command: str | None
    facts: dict[str, Any]
    is_past: bool


@dataclass(frozen=True, slots=True)
class Why:
    """The reasons of one run, schedule, job or queue, the heaviest first.

    `also` are the other kinds of thing that have the same name. `at` is the database's time.
    """

    kind: Kind
    name: str
    tenant: str
    at: datetime
    also: list[str]
    reasons: list[Reason]
