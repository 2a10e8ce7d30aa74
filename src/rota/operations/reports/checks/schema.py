"""The schema: whether it fits this release."""

from __future__ import annotations

from rota.model.finding import Finding
from rota.postgres.migrate import latest
from rota.postgres.plans import Plan
from rota.postgres.reports.doctor import schema_number


def check() -> Plan[list[Finding]]:
    return [judged((yield from schema_number()), latest())]


def judged(installed: int, known: int) -> Finding:
    if installed < known:
        return Finding(
            "schema",
            "bad",
            "The schema is older than this release",
            figure=f"{installed:04}",
            limit=f"{known:04}",
            detail="Workers of this release do not start.",
            advice="apply the missing migrations; the previous release keeps working meanwhile.",
            commands=["rota migrate"],
        )
    if installed > known:
        return Finding(
            "schema",
            "warn",
            "The schema is newer than this release",
            figure=f"{installed:04}",
            limit=f"{known:04}",
            detail="It still serves this release; the next one may not.",
            advice="upgrade Rota in this environment.",
        )
    return Finding("schema", "ok", "The schema fits this release", figure=f"{installed:04}")
