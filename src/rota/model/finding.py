"""The findings of a check of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from rota.model.fields import Field

Verdict = Literal["ok", "warn", "bad"]
VERDICTS: tuple[Verdict, ...] = ("bad", "warn", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: `title` is the finding, `detail` its impact, `advice` what to do,
    `commands` what to run; `figure` is the measured value, `limit` its threshold."""

    check: Annotated[str, Field("Check that reported it.", "oldest_transaction")]
    verdict: Annotated[Verdict, Field("`ok`, `warn` or `bad`.", "bad")]
    title: Annotated[
        str, Field("Finding in one sentence.", "A transaction has been open for 3 h 41 min")
    ]
    figure: Annotated[str, Field("What was measured.", "3 h 41 min")] = ""
    limit: Annotated[str | None, Field("Threshold; null if there is none.", "5 min")] = None
    detail: Annotated[
        str | None,
        Field(
            "Impact; null if all is well.",
            "Process 31007, user bi_export: idle in transaction. Dead rows cannot be removed while "
            "it is open: claims and lists become slower.",
        ),
    ] = None
    advice: Annotated[
        str | None,
        Field(
            "Recommended action; null if all is well.",
            "ask its owner to end it, or end it yourself; then give that role a limit.",
        ),
    ] = None
    commands: Annotated[
        list[str], Field("Commands to run.", ["psql -c 'select pg_terminate_backend(31007)'"])
    ] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, most severe first."""

    at: Annotated[datetime, Field("Current time of the database's clock.")]
    took_ms: Annotated[float, Field("How long the checks took.", 12.0)]
    bad: Annotated[int, Field("Number of findings that need action.", 1)]
    warn: Annotated[int, Field("Number of warnings.", 0)]
    ok: Annotated[int, Field("Number of checks that passed.", 18)]
    findings: Annotated[list[Finding], Field("All findings, most severe first.")]


def judge(value: float | None, *, warn: float, bad: float) -> Verdict:
    """Compare a value with its limits; an unknown value is fine."""
    if value is None or value < warn:
        return "ok"
    return "bad" if value >= bad else "warn"


def graded(
    check: str,
    verdict: Verdict,
    fine: str,
    wrong: str,
    *,
    figure: str,
    limit: str | None = None,
    detail: str,
    advice: str,
    commands: Sequence[str] = (),
) -> Finding:
    """Return the finding with one of its two titles; impact and advice only if there is a
    problem."""
    if verdict == "ok":
        return Finding(check, "ok", fine, figure, limit)
    return Finding(check, verdict, wrong, figure, limit, detail, advice, list(commands))
