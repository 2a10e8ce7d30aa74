"""Performs bulk actions: one batch per transaction, from the newest run to the oldest.

The row of the action is locked until the batch, its counts and its position are written: no other
worker performs it meanwhile, and after a crash it continues where the last batch ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from rota.errors import FilterError
from rota.model.bulk import FITTING
from rota.model.run_filter import RunFilter
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.runs.lists import act_on_many, count_runs, list_ids

BATCH = 50
_SEARCH_SECONDS = 0.2
_COUNT_SECONDS = 0.03
_COUNT_MOST = 20_000
# How often, and after how long, a run that another transaction has locked is tried again.
_HELD_TRIES = 30
_HELD_SECONDS = 2.0
_LOCKED = "55P03"
# The run is gone or in another state: it was handled otherwise.
_SKIPPED = ("RO004", "RO005")


@dataclass(slots=True)
class BulkTurn:
    """The action of a turn, to report a failure."""

    id: int | None = None


@dataclass(slots=True)
class _Batch:
    """The result of one batch."""

    below: int | None
    tries: int
    held: list[int]
    rows: Rows = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(row["refusal"] is None for row in self.rows)

    @property
    def refused(self) -> Rows:
        """The runs that are refused for good; locked ones are tried again."""
        return [row for row in self.rows if row["refusal"] and row["run_id"] not in self.held]


def work(turn: BulkTurn, action_id: int | None = None) -> Plan[bool]:
    """Perform one batch of the action that is due, or of this one; return whether there was one."""
    rows = yield Execute("bulk/take", {"id": action_id})
    if not rows:
        return False
    row = rows[0]
    turn.id = row["id"]
    try:
        wanted = RunFilter.from_json(row["filter"]).or_states(FITTING[row["verb"]])
    except (FilterError, TypeError, ValueError) as error:
        yield from note_fault(row["id"], f"its filter is invalid: {error}")
        return True
    yield Execute("session/plan_by_values", {"is_local": True})
    counted, counted_below = yield from _count(row, wanted)
    batch = yield from _act(row, wanted)
    yield Execute("bulk/advance", _advance(row, batch, counted, counted_below))
    return True


def note_fault(action_id: int, error: str) -> Plan[None]:
    yield Execute("bulk/fault", {"id": action_id, "error": error})


def due() -> Plan[float | None]:
    """Return the seconds until a batch is due."""
    (row,) = yield Execute("bulk/due", {})
    seconds: float | None = row["seconds"]
    return seconds


def _count(row: dict[str, Any], wanted: RunFilter) -> Plan[tuple[int, int | None]]:
    """Count a little further; runs that the work has passed need not be counted."""
    counted, below = row["counted"], row["counted_below"]
    if below is None:
        return counted, None
    place = row["below_id"]
    if place is None or place < below:
        counted, below = row["done"] + row["skipped"] + row["failed"], place
    if below is None:
        return counted, None
    more = yield from count_runs(
        wanted, most=_COUNT_MOST, seconds=_COUNT_SECONDS, cursor=below, begun_at=row["created_at"]
    )
    return counted + more.runs, more.cursor


def _act(row: dict[str, Any], wanted: RunFilter) -> Plan[_Batch]:
    size = _size(row)
    if row["below_id"] is not None:
        ids, below = yield from list_ids(
            wanted,
            cursor=row["below_id"],
            limit=size,
            seconds=_SEARCH_SECONDS,
            begun_at=row["created_at"],
        )
        batch = _Batch(below, 0, list(row["held"]))
    else:
        ids, batch = row["held"], _Batch(None, row["held_tries"] + 1, [])
    if row["verb"] == "cancel" and ids and batch.tries < _HELD_TRIES:
        # Do not wait two seconds for each: another transaction may have locked very many.
        found = yield Execute("runs/locked", {"ids": ids})
        locked = {found_row["id"] for found_row in found}
        batch.held += [it for it in ids if it in locked]
        ids = [it for it in ids if it not in locked]
    if ids:
        batch.rows = yield from act_on_many(
            row["verb"],
            ids,
            payload=row["payload"],
            delay=row["delay_seconds"],
            reason=_reason(row),
            actor=row["actor"],
        )
    if batch.tries < _HELD_TRIES:
        batch.held += [acted["run_id"] for acted in batch.rows if acted["code"] == _LOCKED]
    return batch


def _size(row: dict[str, Any]) -> int:
    sizes = [BATCH]
    if row["rate"] is not None:
        sizes.append(ceil(row["rate"]))
    if row["most"] is not None:
        sizes.append(row["most"] - row["done"] - row["skipped"] - row["failed"] - len(row["held"]))
    return max(1, min(sizes))


def _reason(row: dict[str, Any]) -> str:
    own = f"bulk action {row['id']}"
    return own if row["reason"] is None else f"{row['reason']} ({own})"


def _advance(
    row: dict[str, Any], batch: _Batch, counted: int, counted_below: int | None
) -> dict[str, Any]:
    refused = batch.refused
    failed = [refusal for refusal in refused if refusal["code"] not in _SKIPPED]
    worked = row["done"] + row["skipped"] + row["failed"] + batch.done + len(refused)
    is_full = row["most"] is not None and worked + len(batch.held) >= row["most"]
    below = None if is_full else batch.below
    return {
        "id": row["id"],
        "below_id": below,
        "done": batch.done,
        "skipped": len(refused) - len(failed),
        "failed": len(failed),
        "held": batch.held,
        "held_tries": batch.tries,
        "problems": json.dumps(
            [{"id": refusal["run_id"], "reason": refusal["refusal"]} for refusal in failed[:20]]
        ),
        "counted": counted,
        "counted_below": counted_below,
        "is_over": below is None and not batch.held,
        "pause": _pause(row, len(batch.rows), below is None),
    }


def _pause(row: dict[str, Any], items: int, is_waiting: bool) -> float:
    seconds = 0.0 if row["rate"] is None else items / row["rate"]
    return float(max(seconds, _HELD_SECONDS) if is_waiting else seconds)
