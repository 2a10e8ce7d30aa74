"""How attempts of tenants have ended, kept in memory until the roll-ups are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.run import Claim

_FAILED = frozenset({"failed", "timed_out", "lost"})


@dataclass(slots=True)
class _Sum:
    succeeded: int = 0
    failed: int = 0
    other: int = 0
    seconds: float = 0.0

    def add(self, other: _Sum) -> None:
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.other += other.other
        self.seconds += other.seconds


class TenantTally:
    """A run that nobody in particular owns costs one look."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}

    def count(self, claim: Claim, outcome: str, duration_ms: float) -> None:
        tenant = claim.tenant
        if not tenant:
            return
        one = self._sums.get(tenant)
        if one is None:
            one = self._sums[tenant] = _Sum()
        if outcome == "succeeded":
            one.succeeded += 1
        elif outcome in _FAILED:
            one.failed += 1
        else:
            one.other += 1
        one.seconds += duration_ms / 1000

    def take(self) -> dict[str, _Sum]:
        taken, self._sums = self._sums, {}
        return taken

    def put_back(self, taken: dict[str, _Sum]) -> None:
        """To be written another time."""
        for tenant, one in taken.items():
            self._sums.setdefault(tenant, _Sum()).add(one)


def columns(sums: dict[str, _Sum]) -> dict[str, Any]:
    """For `tenants/tally.sql`."""
    return {
        "tenants": list(sums),
        "succeeded": [one.succeeded for one in sums.values()],
        "failed": [one.failed for one in sums.values()],
        "others": [one.other for one in sums.values()],
        "seconds": [one.seconds for one in sums.values()],
    }
