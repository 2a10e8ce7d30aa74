"""Watched tables: their watches, and drift."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

OPERATIONS = ("insert", "update", "delete")
_PART = re.compile(r"\s*([a-z]+)\s*(?:\[([^\]]*)\])?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class WatchInfo:
    """One watch of a table: its rows become events named `event`, a dot and the operation.

    `update_of`: an update emits an event only if one of these columns changed. `columns`: only
    these are in the payload. `drift` has a sentence for each difference between the database and
    what was installed.
    """

    id: int
    tenant: str
    table_name: str
    event: str
    operations: list[str]
    update_of: list[str] | None
    columns: list[str] | None
    condition: str | None
    tenant_column: str | None
    created_at: datetime
    created_by: str
    drift: list[str]

    @property
    def watched(self) -> str:
        """`insert, update[status], delete`"""
        changed = f"[{', '.join(self.update_of)}]" if self.update_of else ""
        return ", ".join(f"{it}{changed if it == 'update' else ''}" for it in self.operations)


def read_operations(text: str) -> tuple[list[str], list[str] | None]:
    """Read `insert,update[status,total],delete`: operations, and the columns whose change counts.
    Raise ValueError for any other text."""
    found: list[str] = []
    columns: list[str] | None = None
    place = 0
    while place < len(text):
        part = _PART.match(text, place)
        if part is None or part[1] not in OPERATIONS or part[1] in found:
            raise ValueError(f"{text!r} must consist of insert, update, update[columns] and delete")
        if part[2] is not None:
            if part[1] != "update":
                raise ValueError(f"{part[1]} takes no columns; only update does")
            columns = [column.strip() for column in part[2].split(",") if column.strip()]
        found.append(part[1])
        place = part.end()
    if not found:
        raise ValueError("name at least one of insert, update, update[columns], delete")
    return found, columns


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay or its dry run: matching events, runs started, events that joined the
    run of another event (because the job combines bursts), and events that were delivered before,
    did not match the job's filters, or were locked by another transaction."""

    events: int
    started: int
    joined: int
    delivered_before: int
    filtered: int
    held: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook delivery: the event that it is stored as, and whether it was delivered before."""

    event_id: int
    is_duplicate: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Webhook requests that were refused in one minute: why, from where and how often."""

    hook: str
    reason: str
    address: str
    minute: datetime
    refusals: int
    last_at: datetime
