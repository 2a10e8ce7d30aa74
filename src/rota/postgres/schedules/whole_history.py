"""The ledger of a schedule merged with its manual runs, in the order of time.

Each of the two lists is read from the place where the previous page ended; the page consists of the
first entries of both. Of entries at the same instant, manual runs are the later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.model.list_filters import TimeOrder
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import LISTED_BYTES, Page
from rota.model.schedule_edit import ManualRun
from rota.model.states import END_STATES
from rota.postgres.pages import RowKey, check_order, page_of, read_rows
from rota.postgres.plans import Plan
from rota.postgres.schedules.edits import KINDS, Asked, read_manual

_LEDGER, _MANUAL = 0, 1
_LAST_ID = 2**63 - 1


class LedgerWindow(NamedTuple):
    """A selection of entries: of the ledgers of a name, of one decision or all, in a period."""

    ids: Sequence[int]
    name: str
    tenant: str
    decision: str | None
    since: datetime | None
    before: datetime | None


class _Entry(NamedTuple):
    """An entry with its parsed time: the texts of one instant may differ."""

    at: datetime
    source: int
    id: int
    place: RowKey
    shown: OccurrenceInfo


def page_whole(
    wanted: LedgerWindow, *, order: str, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[OccurrenceInfo]]:
    """Return a page; its cursor consists of the instant, the list, and the place there."""
    order = check_order(order, TimeOrder)
    found = yield from _ledger(wanted, order, cursor, limit)
    found += yield from _manual(wanted, order, cursor, limit)
    found.sort(key=lambda entry: entry[:3], reverse=order == "newest")
    places = [((entry.place[0], entry.source, entry.id), entry.shown) for entry in found]
    return page_of(places, limit)


def _ledger(
    wanted: LedgerWindow, order: str, cursor: Sequence[Any] | None, limit: int
) -> Plan[list[_Entry]]:
    if wanted.decision in KINDS:
        return []
    statement = "schedules/history_oldest" if order == "oldest" else "schedules/history"
    params = {
        "ids": list(wanted.ids),
        "decision": wanted.decision,
        "since": wanted.since,
        "before": wanted.before,
        "value_bytes": LISTED_BYTES,
    }
    rows = yield from read_rows(
        statement, params, OccurrenceInfo, order=order, cursor=_after(cursor, _LEDGER), limit=limit
    )
    return [_Entry(info.nominal_at, _LEDGER, place[1], place, info) for place, info in rows]


def _manual(
    wanted: LedgerWindow, order: str, cursor: Sequence[Any] | None, limit: int
) -> Plan[list[_Entry]]:
    if wanted.decision is not None and wanted.decision not in KINDS:
        return []
    asked: Asked = {
        "name": wanted.name,
        "tenant": wanted.tenant,
        "since": wanted.since,
        "kinds": KINDS if wanted.decision is None else (wanted.decision,),
        "before": wanted.before,
    }
    rows = yield from read_manual(asked, order=order, cursor=_after(cursor, _MANUAL), limit=limit)
    return [
        _Entry(manual.at, _MANUAL, place[1], place, _shown(wanted.name, manual, run))
        for place, manual, run in rows
    ]


def _after(cursor: Sequence[Any] | None, source: int) -> tuple[Any, int] | None:
    """Return where a list goes on: at its own place, or, if the page ended in the other list,
    before or after all its entries of that instant."""
    if cursor is None:
        return None
    at, ended_in, number = cursor
    if ended_in == source:
        return at, number
    # In both orders, manual runs are the later ones of an instant.
    return (at, _LAST_ID) if source == _LEDGER else (at, 0)


def _shown(schedule: str, manual: ManualRun, run: dict[str, Any]) -> OccurrenceInfo:
    state = manual.state
    span = {"from_at": manual.from_at, "until_at": manual.until_at}
    details = {name: at.isoformat() for name, at in span.items() if at is not None}
    return OccurrenceInfo(
        schedule=schedule,
        nominal_at=manual.at,
        through_at=manual.at,
        count=manual.runs,
        decision="triggered" if manual.kind == "triggered" else "backfilled",
        reason=manual.reason,
        claimed_at=manual.at,
        decided_at=manual.at,
        decided_by=None,
        enqueued_at=run.get("enqueued_at"),
        run_id=manual.run_id,
        backfill_run_id=None,
        state=state,
        success=state == "succeeded" if state in END_STATES else None,
        duration_ms=run.get("duration_ms"),
        lateness_ms=None,
        error=run.get("last_error"),
        is_moved=False,
        details={"actor": manual.actor, **details},
        backfill_state=None,
    )
