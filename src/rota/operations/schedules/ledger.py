"""Reads the ledger of a schedule: a part of it, or together with manual runs."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, get_args

from rota.errors import FilterError, TimingError
from rota.model.list_filters import LedgerPart
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import Page
from rota.model.states import Decision, ManualKind
from rota.operations.commands import Cursor
from rota.postgres.plans import Plan
from rota.postgres.schedules import schedules, whole_history

_ONLY = get_args(LedgerPart)
_KINDS = get_args(ManualKind)
_DECISIONS = (*get_args(Decision), *_KINDS)


class LedgerFilter(TypedDict):
    """A part of a ledger."""

    decision: str | None
    since: datetime | None
    before: datetime | None
    only: str | None
    manual: bool


def history(
    name: str, tenant: str, window: LedgerFilter, order: str, limit: int
) -> Plan[list[OccurrenceInfo]]:
    found = yield from history_page(name, tenant, window, order, None, limit)
    return [*found.items]


def history_page(
    name: str, tenant: str, window: LedgerFilter, order: str, cursor: Cursor, limit: int
) -> Plan[Page[OccurrenceInfo]]:
    _check(window, order)
    ids = yield from schedules.find_ledgers(name, tenant)
    decision, since, before = window["decision"], window["since"], window["before"]
    if window["only"] is not None:
        return (
            yield from schedules.page_exceptions(
                ids, only=window["only"], since=since, before=before, cursor=cursor, limit=limit
            )
        )
    if window["manual"] or decision in _KINDS:
        wanted = whole_history.LedgerWindow(ids, name, tenant, decision, since, before)
        return (
            yield from whole_history.page_whole(wanted, order=order, cursor=cursor, limit=limit)
        )
    return (
        yield from schedules.page_history(
            ids,
            decision=decision,
            since=since,
            before=before,
            order=order,
            cursor=cursor,
            limit=limit,
        )
    )


def _check(window: LedgerFilter, order: str) -> None:
    decision, only = window["decision"], window["only"]
    if decision is not None and decision not in _DECISIONS:
        raise TimingError(f"decision must be one of {', '.join(_DECISIONS)}, not {decision!r}")
    if only is None:
        return
    if only not in _ONLY:
        raise FilterError(f"only must be one of {', '.join(_ONLY)}, not {only!r}")
    if decision is not None or window["manual"] or order != "newest":
        raise FilterError("only cannot be combined with decision, manual or the order oldest")
