"""Retention policies of tenants, which never keep runs longer than their jobs do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rota.model.retention import RetentionItem
from rota.postgres.plans import Execute
from rota.postgres.retention.parts import BATCH, FAILED, OTHERS
from rota.postgres.steps import Steps

if TYPE_CHECKING:
    from rota.postgres.retention.retention import Pass


class TenantPruning:
    """Prunes the runs of tenants, as part of a pass."""

    def __init__(self, work: Pass) -> None:
        self._work = work

    def run(self) -> Steps[None]:
        for row in (yield Execute("retention/tenants", {})):
            for outcome, states, days in _wanted(row):
                before = self._work.before(days)
                params = {"tenant": row["name"], "states": states, "before_at": before}
                total = yield from self._prune("tenant", params)
                if total:
                    item = RetentionItem(
                        "delete",
                        "ended_runs",
                        total,
                        tenant=row["name"],
                        outcome=outcome,
                        until=before,
                    )
                    self._work.items.append(item)
        yield from self._days(self._work.settings.rollup_days)

    def _days(self, days: int) -> Steps[None]:
        before = self._work.before(days)
        total = yield from self._prune("days", {"before_at": before})
        if total:
            item = RetentionItem("delete", "tenant_days", total, until=before)
            self._work.items.append(item)

    def _prune(self, what: str, params: dict[str, Any]) -> Steps[int]:
        if self._work.dry_run:
            params = params | {"dropped": self._work.dropped}
            (found,) = yield Execute(f"retention/count_{what}", params)
            return int(found["rows"])
        total = 0
        while True:
            ask = Execute(f"retention/prune_{what}", params | {"limit": BATCH})
            (row,) = yield from self._work.portion(ask)
            removed = int(row["removed"])
            total += removed
            self._work.on_progress(removed)
            if removed < BATCH:
                return total


def _wanted(row: dict[str, Any]) -> Iterator[tuple[str, list[str], int]]:
    """Return the retention by outcome; failed runs are kept like others unless configured."""
    failed = row["failed_retention_days"] or row["retention_days"]
    for outcome, states, days in (
        ("failed", FAILED, failed),
        ("succeeded or cancelled", OTHERS, row["retention_days"]),
    ):
        if days is not None:
            yield outcome, states, days
