"""What a check of the installation finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Verdict = Literal["ok", "warn", "bad"]
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """`title` says what is so, `detail` what it costs, `advice` what to do, `commands` what to
    type; `figure` is what was measured, `limit` what it should not pass."""

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
    """All findings, the worst first."""

    at: datetime
    took_ms: float
    bad: int
    warn: int
    ok: int
    findings: list[Finding]


def judge(value: float | None, *, warn: float, bad: float) -> Verdict:
    """Above its limits; what is not known is fine."""
    if value is None or value < warn:
        return "ok"
    return "bad" if value >= bad else "warn"
