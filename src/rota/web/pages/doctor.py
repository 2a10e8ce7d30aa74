"""Health: what `rota doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.finding import Finding, Report
from rota.model.printable import entry
from rota.web.context import Page
from rota.web.page_scope import PageScope


@dataclass(frozen=True, slots=True)
class DoctorPage(Page):
    template: ClassVar[str] = "doctor/page.html"
    section: ClassVar[str] = "health"

    at: datetime
    took_ms: float
    bad: list[Finding]
    odd: list[Finding]
    fine: list[Finding]
    text: str

    @property
    def title(self) -> str:
        return "Health"


async def show(request: Request) -> Response:
    scope = PageScope(request)
    report = await scope.web.watch.report(new="again" in request.query_params)
    by = {it: [one for one in report.findings if one.verdict == it] for it in ("bad", "warn", "ok")}
    page = DoctorPage(report.at, report.took_ms, by["bad"], by["warn"], by["ok"], as_text(report))
    return await scope.show(page)


def as_text(report: Report) -> str:
    """Return the report as text to paste into a request for help."""
    lines = [f"rota doctor, {report.at:%Y-%m-%d %H:%M:%S} UTC"]
    for one in report.findings:
        limit = f" (limit {one.limit})" if one.limit else ""
        lines.append(f"[{one.verdict}] {one.title}: {one.figure or 'yes'}{limit}")
        lines += [
            f"    {entry(part, '    ')}" for part in (one.detail, one.advice, *one.commands) if part
        ]
    return "\n".join(lines)


routes = [Route("/doctor", show)]
