"""An action on all runs of a filter, as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rota.model.bulk import Action

BulkState = Literal["running", "paused", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One row of `rota.bulk_actions`.

    `done`, `skipped` and `failed` are runs: a skipped one had changed its state or was gone when
    its turn came, a failed one could not be acted on; `problems` says of the first twenty why.
    `total` is how many fit, as far as they have been counted, and all of them if `is_counted`.
    `error` says why it does not go on; `has_worker`, whether there is anybody to carry it out.
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
        """How many have had their turn."""
        return self.done + self.skipped + self.failed

    @property
    def is_open(self) -> bool:
        return self.state in ("running", "paused")
