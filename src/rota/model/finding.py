"""The findings of a check of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Verdict = Literal["ok", "warn", "bad"]
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: `title` is the finding, `detail` its impact, `advice` what to do,
    `commands` what to run; `figure` is the measured value, `limit` its threshold."""

    check: str
    verdict: Verdict
    title: str
    figure: str = ""
    limit: str | None = None
    detail: str | None = None
    advice: str | None = None
    commands: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, most severe first."""

    at: datetime
    took_ms: float
    bad: int
    warn: int
    ok: int
    findings: list[Finding]


def judge(value: float | None, *, warn: float, bad: float) -> Verdict:
    """Compare a value with its limits; an unknown value is fine."""
    if value is None or value < warn:
        return "ok"
    return "bad" if value >= bad else "warn"


def graded(
    check: str, verdict: Verdict, fine: str, wrong: str, *, figure: str, limit: str | None = None,
    detail: str, advice: str, commands: Sequence[str] = (),
) -> Finding:  # fmt: skip
    """Return the finding with one of its two titles; impact and advice only if there is a
    problem."""
    if verdict == "ok":
        return Finding(check, "ok", fine, figure, limit)
    return Finding(check, verdict, wrong, figure, limit, detail, advice, list(commands))
