"""Partitions of the history, and their removal.

`DETACH … CONCURRENTLY` takes no lock that delays a finish, but it waits for every reader of the
table. So its time is limited, and the next pass completes an unfinished one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from rota.model.retention import RetentionItem
from rota.model.states import END_STATES
from rota.postgres.plans import Execute, call
from rota.postgres.steps import Steps, Write, WriteRefused

if TYPE_CHECKING:
    from rota.postgres.retention.retention import Pass

BATCH = 1000
# Ended runs, as policies distinguish them.
FAILED: list[str] = ["failed"]
OTHERS: list[str] = [state for state in END_STATES if state not in FAILED]
PATIENCE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition, and the statements about it that the database has composed."""

    parent: str
    partition: str
    relation: int
    from_at: datetime
    to_at: datetime
    state: str
    estimated_rows: int
    bytes: int
    detach: str
    finalize: str
    remove: str


def note_parts() -> Steps[list[Partition]]:
    rows = yield Execute("retention/parts", {})
    return [Partition(**row) for row in rows]


def rows_of(part: Partition) -> Steps[int]:
    """About how many rows a partition has. One that nobody has analyzed yet is counted."""
    if part.estimated_rows:
        return part.estimated_rows
    counted: int = yield from call("count_part", name=part.partition)
    return counted


class PartitionDrops:
    """Removes partitions from the history."""

    def __init__(self, work: Pass) -> None:
        self._work = work

    def drop(self, part: Partition, *, with_logs: bool = False) -> Steps[None]:
        rows = yield from rows_of(part)
        item = RetentionItem(
            "drop",
            part.parent,
            rows,
            part.partition,
            until=part.to_at,
            bytes=part.bytes,
        )
        self._work.dropped.append(part.relation)
        if not self._work.dry_run:
            try:
                yield from self._detach(part)
                if part.parent.startswith("ended_runs_"):
                    yield from self._remove_traces(part, with_logs)
                yield Write(part.remove)
            except WriteRefused as error:
                item = replace(item, note=f"left for the next pass: {error}")
            self._work.on_progress(item.rows)
        self._work.items.append(item)

    def _detach(self, part: Partition) -> Steps[None]:
        if part.state == "detached":
            return
        yield Write(part.finalize if part.state == "detaching" else part.detach, PATIENCE_SECONDS)

    def _remove_traces(self, part: Partition, with_logs: bool) -> Steps[None]:
        last: int | None = 0
        while last is not None:
            params = {
                "partition": part.partition,
                "after_id": last,
                "with_logs": with_logs,
                "limit": BATCH,
            }
            (row,) = yield from self._work.portion(Execute("retention/prune_traces", params))
            last = row["last_id"]
            self._work.on_progress(row["removed"])
