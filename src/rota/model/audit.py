"""The record of an audit entry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of `rota.audit`: who did what to which object, when and why. `actor` is who acted,
    `db_user` the database login. `before` and `after` contain the values that the action
    changed."""

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

    @property
    def changes(self) -> list[Change]:
        """The fields with their values before and after, changed fields first; if the value is not
        an object, the whole value."""
        before, after = self.before, self.after
        if not isinstance(before, dict | None) or not isinstance(after, dict | None):
            return [Change("", before, after)]
        names = sorted({*(before or {}), *(after or {})})
        found = [Change(name, (before or {}).get(name), (after or {}).get(name)) for name in names]
        return sorted(found, key=lambda it: it.is_same)


@dataclass(frozen=True, slots=True)
class Change:
    """A field with its value before and after."""

    field: str
    before: Any
    after: Any

    @property
    def is_same(self) -> bool:
        return bool(self.before == self.after)
