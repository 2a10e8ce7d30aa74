"""The checks of `rota doctor`: one module per subject, each check a plan that returns findings.

A new check is a function that yields statements of `postgres/sql/doctor/` and returns findings; add
it to CHECKS, with a test that provokes each of its verdicts.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.model.finding import Finding
from rota.operations.reports.checks import (
    replication,
    schema,
    server,
    storage,
    transactions,
    upkeep,
    walls,
    workers,
)
from rota.postgres.plans import Plan

Check = Callable[[], Plan[list[Finding]]]

CHECKS: tuple[Check, ...] = (
    server.check,
    schema.check,
    workers.check,
    upkeep.check,
    transactions.check,
    storage.check,
    replication.check,
    walls.check,
)
