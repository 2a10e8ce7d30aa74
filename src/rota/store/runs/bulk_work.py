"""How a bulk action is carried out: one batch a transaction, from the newest run to the oldest.

The row of the action is locked until the batch, its counts and the place are written: nobody else
works on it meanwhile, and a crash leaves it where the last batch ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from rota.errors import FilterError
from rota.model.bulk import FITTING
from rota.model.run_filter import RunFilter
from rota.store.plans import Ask, Plan, Rows
from rota.store.runs.lists import act_on_many, count_runs, list_ids

BATCH = 50
_SEARCH_SECONDS = 0.2
_COUNT_SECONDS = 0.03
_COUNT_MOST = 20_000
# How often, and after how long, a run that somebody's transaction holds is tried again.
_HELD_TRIES = 30
_HELD_SECONDS = 2.0
_LOCKED = "55P03"
# It was gone, or in another state: somebody else has dealt with it.
_SKIPPED = ("RO004", "RO005")


@dataclass(slots=True)
class BulkTurn:
    """What a turn was about, for whoever has to say why it failed."""

    id: int | None = None


@dataclass(slots=True)
class _Batch:
    """What one batch comes to."""

    below: int | None
    tries: int
    held: list[int]
    rows: Rows = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(one["refusal"] is None for one in self.rows)

    @property
    def refused(self) -> Rows:
        """For good: what is held is tried again."""
        return [one for one in self.rows if one["refusal"] and one["run_id"] not in self.held]


def work(turn: BulkTurn, action_id: int | None = None) -> Plan[bool]:
    """One batch of the action that is due, or of this one; returns whether there was one."""
    rows = yield Ask("bulk/take", {"id": action_id})
    if not rows:
        return False
    row = rows[0]
    turn.id = row["id"]
    try:
        wanted = RunFilter.from_json(row["filter"]).or_states(FITTING[row["verb"]])
    except (FilterError, TypeError, ValueError) as error:
        yield from note_fault(row["id"], f"its filter is invalid: {error}")
        return True
    yield Ask("session/plan_by_values", {"is_local": True})
    counted, counted_below = yield from _count(row, wanted)
    batch = yield from _act(row, wanted)
    yield Ask("bulk/advance", _advance(row, batch, counted, counted_below))
    return True


def note_fault(action_id: int, error: str) -> Plan[None]:
    yield Ask("bulk/fault", {"id": action_id, "error": error})


def due() -> Plan[float | None]:
    """Seconds until there is something to do."""
    (row,) = yield Ask("bulk/due", {})
    seconds: float | None = row["seconds"]
    return seconds


def _count(row: dict[str, Any], wanted: RunFilter) -> Plan[tuple[int, int | None]]:
    """Counts a little further; what the work has overtaken need not be counted."""
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
        # Without waiting two seconds for each: somebody may have locked very many.
        found = yield Ask("runs/locked", {"ids": ids})
        locked = {one["id"] for one in found}
        batch.held += [it for it in ids if it in locked]
        ids = [it for it in ids if it not in locked]
    if ids:
        batch.rows = yield from act_on_many(
            row["verb"], ids, payload=row["payload"], delay=row["delay_seconds"],
            reason=_reason(row), actor=row["actor"],
        )  # fmt: skip
    if batch.tries < _HELD_TRIES:
        batch.held += [one["run_id"] for one in batch.rows if one["code"] == _LOCKED]
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
    failed = [one for one in refused if one["code"] not in _SKIPPED]
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
            [{"id": one["run_id"], "reason": one["refusal"]} for one in failed[:20]]
        ),
        "counted": counted,
        "counted_below": counted_below,
        "is_over": below is None and not batch.held,
        "pause": _pause(row, len(batch.rows), below is None),
    }


def _pause(row: dict[str, Any], items: int, is_waiting: bool) -> float:
    seconds = 0.0 if row["rate"] is None else items / row["rate"]
    return float(max(seconds, _HELD_SECONDS) if is_waiting else seconds)
