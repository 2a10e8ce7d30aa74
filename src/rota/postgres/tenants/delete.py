"""Deletes all data of a tenant, in steps that each commit on their own."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from rota.errors import WrongState
from rota.model.tenant import TenantAmount, TenantRemoval
from rota.postgres.audit import write_audit
from rota.postgres.plans import Execute, Plan, call
from rota.postgres.steps import OnProgress, Pause, Steps
from rota.postgres.tenants.tenants import find_tenant

# In this order: schedules before the runs that they would create, and their records before their
# names.
PARTS = (
    "schedules",
    "open_runs",
    "ended_runs",
    "keys",
    "events",
    "event_keys",
    "limits",
    "limit_slots",
    "limit_releases",
    "hook_refusals",
    "ledger",
    "backfill_times",
    "backfills",
    "schedule_days",
    "init_runs",
    "deleted_schedules",
    "tenant_days",
    "tenant_changes",
    "tenant_depths",
    "bulk_actions",
)
_BATCH = 1000
_CANCEL_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def read_amount(name: str) -> Plan[TenantAmount]:
    yield from find_tenant(name)
    (row,) = yield Execute("tenants/amount", {"name": name})
    return TenantAmount(**row)


class Deletion:
    """The deletion of one tenant. It may stop when its time is up, and be started again."""

    def __init__(
        self,
        name: str,
        *,
        cancel_running: bool,
        seconds: float | None,
        reason: str | None,
        actor: str | None,
        on_progress: OnProgress | None,
    ) -> None:
        self._name = name
        self._cancel_running = cancel_running
        self._until = None if seconds is None else time.monotonic() + seconds
        self._reason, self._actor = reason, actor
        self._told = on_progress or (lambda count: None)
        self._removed: dict[str, int] = {}

    def run(self) -> Steps[TenantRemoval]:
        tenant = yield from find_tenant(self._name)
        if not self._cancel_running and (yield from self._running()):
            yield from self._refuse()
        if not tenant.is_paused:
            # Start no more of its runs.
            why = "its data is being deleted"
            yield from call("pause_tenant", name=self._name, reason=why, actor=self._actor)
        yield from self._stop_running()
        is_done = yield from self._remove()
        kept = {part: count for part, count in self._removed.items() if count}
        if is_done:
            yield from call(
                "forget_tenant",
                of_tenant=self._name,
                removed=json.dumps(kept),
                reason=self._reason,
                actor=self._actor,
            )
        else:
            yield from write_audit(
                self._actor,
                "tenant.deleting",
                "tenant",
                self._name,
                before=kept,
                reason=self._reason,
                tenant=self._name,
            )
        return TenantRemoval(self._name, is_done, kept)

    def _remove(self) -> Steps[bool]:
        for part in PARTS:
            params = {"of_tenant": self._name, "part": part, "max_rows": _BATCH}
            while (yield from self._portion(part, call("delete_tenant_part", **params))) >= _BATCH:
                if self._is_late():
                    return False
        for row in (yield Execute("tenants/stretches", {})):
            if self._is_late():
                return False
            traces = call("delete_tenant_traces", of_tenant=self._name, **row)
            yield from self._portion("traces", traces)
        return True

    def _portion(self, part: str, deleted: Plan[int]) -> Steps[int]:
        removed = yield from deleted
        self._removed[part] = self._removed.get(part, 0) + removed
        self._told(removed)
        return removed

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _running(self) -> Steps[list[int]]:
        rows = yield Execute("tenants/running", {"name": self._name, "limit": _BATCH})
        return [row["id"] for row in rows]

    def _stop_running(self) -> Steps[None]:
        asked: set[int] = set()
        until = time.monotonic() + _CANCEL_SECONDS
        while running := (yield from self._running()):
            for run_id in running:
                if run_id not in asked:
                    asked.add(run_id)
                    given = {"reason": self._reason, "actor": self._actor}
                    yield from call("cancel_run", run_id=run_id, **given)
            if self._is_late() or time.monotonic() >= until:
                yield from self._refuse()
            yield Pause(_LOOK_SECONDS)

    def _refuse(self) -> Steps[None]:
        amount = yield from read_amount(self._name)
        raise WrongState(
            f'tenant "{self._name}" has {asdict(amount)["running"]} runs that are running',
            hint="wait until they have ended, or cancel them",
        )
