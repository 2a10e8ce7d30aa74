"""Explanations of why something does not run, or what happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["run", "schedule", "job", "queue"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, in plain words.

    `code` is for programs, `sentence` for people. `since` and `until` say from when to when it
    applies, or is expected to; if `is_past`, `since` is when it happened. `by_whom` caused it.
    `next_step` is what happens next, or what to do; `command` would change it. `facts` are the
    names and numbers in the sentence.
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
    """The reasons for one run, schedule, job or queue, most important first.

    `also` lists the other kinds of object with the same name. `at` is the database's time.
    """

    kind: Kind
    name: str
    tenant: str
    at: datetime
    also: list[str]
    reasons: list[Reason]
