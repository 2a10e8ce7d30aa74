"""The record of an audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypedDict

from rota.model.asked import BIGGEST_ID, OfTenant, Since, Until
from rota.model.exclusion import Exclude
from rota.model.fields import Field

EntryId = Annotated[int, Field("Audit entry ID.", 12, least=1, most=BIGGEST_ID, metavar="ID")]


class AuditFilters(TypedDict, total=False):
    """Filters of the audit trail."""

    actor: Annotated[str | None, Field("Filter by actor, e.g. cli:ada.", "cli:ada", metavar="NAME")]
    action: Annotated[
        str | None,
        Field("Filter by action, e.g. run.cancelled.", "run.cancelled", metavar="ACTION"),
    ]
    object_type: Annotated[
        str | None,
        Field(
            "Filter by type of object: run, job, schedule, queue, worker, …",
            "queue",
            metavar="NOUN",
            word="noun",
        ),
    ]
    object_id: Annotated[
        str | None,
        Field(
            "Filter by name or ID of the object.",
            "mail",
            longest=400,
            metavar="NAME|ID",
            word="name",
        ),
    ]
    tenant: OfTenant
    text: Annotated[
        str | Sequence[str] | None,
        Field(
            "Text in the actor, the action, the object or the reason; all of them if there are "
            "several.",
            "provider",
            shortest=1,
            longest=400,
            metavar="TEXT",
        ),
    ]
    since: Since
    until: Until
    exclude: Exclude


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of `rota.audit`: who did what to which object, when and why. `actor` is who acted,
    `db_user` the database login. `before` and `after` contain the values that the action
    changed."""

    id: Annotated[int, Field("ID.", 12)]
    at: Annotated[datetime, Field("Time of the change.")]
    actor: Annotated[str, Field("Who did it.", "api:admin")]
    db_user: Annotated[str, Field("Database login used.", "rota")]
    action: Annotated[str, Field("What was done.", "queue.paused")]
    object_type: Annotated[str, Field("Type of object.", "queue")]
    object_id: Annotated[str, Field("Name or ID of the object.", "mail")]
    tenant: Annotated[str, Field("Tenant.", "")]
    before: Annotated[Any, Field("Values before the change.")]
    after: Annotated[Any, Field("Values after the change.", {"is_paused": True})]
    reason: Annotated[str | None, Field("Reason.", "the provider is down")]

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
