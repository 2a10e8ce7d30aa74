"""The record of a bulk action."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rota.model.bulk import Action

BulkState = Literal["running", "paused", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One row of `rota.bulk_actions`.

    `done`, `skipped` and `failed` are numbers of runs: a skipped run was deleted or had changed its
    state, a failed one could not be acted on; `problems` has the reasons for the first 20. `total`
    is the number of matching runs counted so far; `is_counted` means that all are counted. `error`
    says why it does not continue, `has_worker` whether a live worker can carry it out.
    """

    id: int
    verb: Action
    filter: dict[str, Any]
    payload: dict[str, Any] | None
    delay_seconds: float | None
    limit: int | None
    rate: float | None
    actor: str
    reason: str | None
    state: BulkState
    done: int
    skipped: int
    failed: int
    total: int
    is_counted: bool
    problems: list[dict[str, Any]]
    error: str | None
    created_at: datetime
    changed_at: datetime
    finished_at: datetime | None
    has_worker: bool

    @property
    def worked(self) -> int:
        """The number of runs processed so far."""
        return self.done + self.skipped + self.failed

    @property
    def is_open(self) -> bool:
        return self.state in ("running", "paused")
