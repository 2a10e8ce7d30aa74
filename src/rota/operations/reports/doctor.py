"""The state of the installation, as `rota doctor` reports it."""

from __future__ import annotations

import time
from dataclasses import replace

from rota.model.finding import VERDICTS, Finding, Report
from rota.operations.commands import AsyncCommands, Commands, SyncCommands
from rota.operations.reading import reading
from rota.operations.reports.checks import CHECKS
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan
from rota.postgres.statements import render


class DoctorCommands(Commands):
    @reading()
    def get(self) -> Plan[Report]:
        """Check the installation: server, schema, workers, scheduler ticks, maintenance, old
        transactions, dead rows, partitions, connections. Each with a verdict, its impact, and what
        to do."""
        return _examine(self.database.schema)


def _examine(schema: str) -> Plan[Report]:
    began = time.monotonic()
    findings: list[Finding] = []
    for check in CHECKS:
        findings += [_here(finding, schema) for finding in (yield from check())]
    at = yield from read_clock()
    counts = {verdict: sum(one.verdict == verdict for one in findings) for verdict in VERDICTS}
    return Report(
        at=at,
        took_ms=(time.monotonic() - began) * 1000,
        bad=counts["bad"],
        warn=counts["warn"],
        ok=counts["ok"],
        findings=sorted(findings, key=lambda it: VERDICTS.index(it.verdict)),
    )


def _here(finding: Finding, schema: str) -> Finding:
    """Adapt the SQL of a finding to an installation whose schema has another name."""
    written = [render(line, schema) if line.endswith(";") else line for line in finding.commands]
    return replace(finding, commands=written)


class Doctor(DoctorCommands, AsyncCommands):
    """`app.doctor`"""

    @property
    def sync(self) -> SyncDoctor:
        return SyncDoctor(self.database, self.actor)


class SyncDoctor(DoctorCommands, SyncCommands):
    """`app.doctor.sync`"""
