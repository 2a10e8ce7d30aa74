"""Counts of ended attempts per tenant, kept in memory until the roll-ups are written."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.run import Claim
from rota.model.states import FAILED_ATTEMPT_STATES
from rota.postgres.metrics import TenantChange


@dataclass(slots=True)
class TenantRollup:
    succeeded: int = 0
    failed: int = 0
    other: int = 0
    seconds: float = 0.0

    def add(self, other: TenantRollup) -> None:
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.other += other.other
        self.seconds += other.seconds


class TenantRollups:
    """A run without a tenant costs only one check."""

    def __init__(self) -> None:
        self._rollups: dict[str, TenantRollup] = {}

    def count(self, claim: Claim, outcome: str, duration_ms: float) -> None:
        tenant = claim.tenant
        if not tenant:
            return
        rollup = self._rollups.get(tenant)
        if rollup is None:
            rollup = self._rollups[tenant] = TenantRollup()
        if outcome == "succeeded":
            rollup.succeeded += 1
        elif outcome in FAILED_ATTEMPT_STATES:
            rollup.failed += 1
        else:
            rollup.other += 1
        rollup.seconds += duration_ms / 1000

    def take(self) -> dict[str, TenantRollup]:
        taken, self._rollups = self._rollups, {}
        return taken

    def put_back(self, taken: dict[str, TenantRollup]) -> None:
        """Keep the roll-ups for the next write."""
        for tenant, rollup in taken.items():
            self._rollups.setdefault(tenant, TenantRollup()).add(rollup)


def changes(rollups: dict[str, TenantRollup]) -> list[TenantChange]:
    """Convert the roll-ups for the database."""
    return [
        TenantChange(tenant, rollup.succeeded, rollup.failed, rollup.other, rollup.seconds)
        for tenant, rollup in rollups.items()
    ]
