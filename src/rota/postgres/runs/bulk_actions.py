"""Bulk actions: starting, controlling and reading them. bulk_work.py performs them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rota.errors import BulkActionNotFound
from rota.model.bulk import Action
from rota.model.bulk_action import BulkAction
from rota.model.page import Page
from rota.model.run_filter import RunFilter
from rota.postgres.pages import read_page
from rota.postgres.plans import Execute, Plan
from rota.postgres.runs.lists import absolute


def start(
    verb: Action,
    wanted: RunFilter,
    *,
    payload: str | None,
    delay: float | None,
    limit: int | None,
    rate: float | None,
    reason: str | None,
    actor: str | None,
) -> Plan[BulkAction]:
    wanted = yield from absolute(wanted)
    params = {
        "verb": verb,
        "filter": json.dumps(wanted.as_json()),
        "payload": payload,
        "delay": delay,
        "most": limit,
        "rate": rate,
        "reason": reason,
        "actor": actor,
    }
    (made,) = yield Execute("bulk/start", params)
    return (yield from find(made["id"]))


def find(action_id: int) -> Plan[BulkAction]:
    found = yield from page(action_id)
    if not found.items:
        raise BulkActionNotFound(f"there is no bulk action {action_id}")
    return found.items[0]


def page(
    action_id: int | None = None,
    *,
    states: Sequence[str] | None = None,
    is_open: bool | None = None,
    cursor: Sequence[Any] | None = None,
    limit: int = 50,
) -> Plan[Page[BulkAction]]:
    wanted = None if states is None else list(states)
    params = {"id": action_id, "states": wanted, "open": is_open}
    return read_page("bulk/list", params, BulkAction, order="newest", cursor=cursor, limit=limit)
