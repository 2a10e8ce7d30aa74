"""Watched tables: their watches, and drift."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from rota.model.fields import BIGGEST_ID, Check, Field
from rota.model.watch_condition import watch_condition

OPERATIONS = ("insert", "update", "delete")
_PART = re.compile(r"\s*([a-z]+)\s*(?:\[([^\]]*)\])?\s*(?:,|$)")


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


def _check_operations(_: str, text: str) -> str:
    read_operations(text)
    return text


WatchId = Annotated[int, Field("Watch ID.", 1, least=1, most=BIGGEST_ID)]
Table = Annotated[str, Field("Table with its schema, quoted as in SQL.", "shop.orders", shortest=1)]
On = Annotated[
    str,
    Field(
        "Operations to watch; update[status]: only if one of these columns changed.",
        "insert,update[status]",
        longest=2000,
        metavar="insert,update[COLUMNS],delete",
    ),
    Check(_check_operations),
]
When = Annotated[
    str | None,
    Field(
        "Condition on columns of `new` and `old`. It cannot call functions.",
        "new.total > 100",
        shortest=1,
        longest=10_000,
        none_means="all rows",
        metavar="EXPR",
    ),
    Check(lambda _, text: watch_condition(text)),
]
Columns = Annotated[
    list[str] | None,
    Field("Columns to include in the payload.", ["id", "status"], none_means="all"),
]
EventName = Annotated[
    str | None,
    Field(
        "Event name, followed by a dot and the operation. Default: the table name.",
        "orders",
        shortest=1,
    ),
]
EventTenant = Annotated[str, Field("Tenant of the events.", "")]
TenantColumn = Annotated[
    str | None,
    Field("Column that holds the tenant of each row.", shortest=1, longest=63, metavar="COLUMN"),
]


@dataclass(frozen=True, slots=True)
class WatchInfo:
    """One watch of a table: its rows become events named `event`, a dot and the operation.

    `update_of`: an update emits an event only if one of these columns changed. `columns`: only
    these are in the payload. `drift` has a sentence for each difference between the database and
    what was installed.
    """

    id: WatchId
    tenant: Annotated[str, Field("Tenant of its events, unless a column holds it.", "")]
    table_name: Annotated[str, Field("Table name when the watch was created.", "public.orders")]
    event: Annotated[str, Field("Event name, followed by a dot and the operation.", "orders")]
    operations: Annotated[
        list[str], Field("Operations watched: insert, update, delete.", ["insert", "update"])
    ]
    update_of: Annotated[
        list[str] | None,
        Field(
            "Updates emit an event only if one of these columns changed; null: always.", ["status"]
        ),
    ]
    columns: Annotated[list[str] | None, Field("Columns included in the payload; null: all.")]
    condition: Annotated[
        str | None, Field("SQL condition on the row; null: all rows.", "new.total > 100")
    ]
    tenant_column: Annotated[str | None, Field("Column that holds the tenant of each row.")]
    created_at: Annotated[datetime, Field("When it was created.")]
    created_by: Annotated[str, Field("Who created it.", "cli:ada")]
    drift: Annotated[list[str], Field("Where the database differs from what was installed.", [])]

    @property
    def watched(self) -> str:
        """`insert, update[status], delete`"""
        changed = f"[{', '.join(self.update_of)}]" if self.update_of else ""
        return ", ".join(f"{it}{changed if it == 'update' else ''}" for it in self.operations)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay or its dry run: matching events, runs started, events that joined the
    run of another event (because the job combines bursts), and events that were delivered before,
    did not match the job's filters, or were locked by another transaction."""

    events: Annotated[int, Field("Number of matching events.", 12)]
    started: Annotated[int, Field("Number of runs started, or that would be.", 9)]
    joined: Annotated[
        int,
        Field("Number of events that joined the run of another event (debounce or throttle).", 0),
    ]
    delivered_before: Annotated[int, Field("Number of events already delivered to the job.", 2)]
    filtered: Annotated[int, Field("Number of events that do not match the job's filters.", 1)]
    held: Annotated[
        int, Field("Number of events locked by another transaction; try them again.", 0)
    ]
    is_dry_run: Annotated[bool, Field("Whether they were only counted.", True)]


@dataclass(frozen=True, slots=True)
class Received:
    """A webhook delivery: the event that it is stored as, and whether it was delivered before."""

    event_id: int
    is_duplicate: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Webhook requests that were refused in one minute: why, from where and how often."""

    hook: Annotated[str, Field("The webhook.", "stripe")]
    reason: Annotated[str, Field("Why it was refused.", "signature")]
    address: Annotated[str, Field("Address of the client.", "192.0.2.7")]
    minute: Annotated[datetime, Field("Start of the minute.")]
    refusals: Annotated[int, Field("Number of refusals in that minute.", 3)]
    last_at: Annotated[datetime, Field("Time of the last one.")]
