"""An entry of the audit as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of `rota.audit`: who did what to which object, when and why.

    `actor` is who acted, `db_user` the login under which it reached the database. `before` and
    `after` hold what the action changed.
    """

    id: int
    at: datetime
    actor: str
    db_user: str
    action: str
    object_type: str
    object_id: str
    tenant: str
    before: Any
    after: Any
    reason: str | None
