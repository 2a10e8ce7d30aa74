"""Reads error groups, and marks them as handled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.errors import ErrorGroupNotFound, FilterError, InputError
from rota.model.error_group import (
    ErrorDetails,
    ErrorFacet,
    ErrorFilters,
    ErrorGroup,
    ErrorOrder,
    ErrorPage,
    Share,
)
from rota.model.exclusion import read_exclusions
from rota.model.fields import settings_of
from rota.model.page import Page
from rota.postgres.clock import read_clock
from rota.postgres.pages import check_filters, check_order, excluded, like, read_page
from rota.postgres.plans import Execute, Plan, Rows, call

_BIN = 600
_STEPS = 30
_LOOKED_AT = 500
_MOST_SHARES = 3


def page_errors(
    filters: ErrorFilters,
    *,
    since: datetime | timedelta,
    is_active: bool,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
) -> Plan[ErrorPage]:
    yield from call("fold_errors")
    span = yield from _range(since)
    found = yield from _read_page(filters, span, is_active, order, cursor, limit)
    params = _parameters(filters) | {"is_active": is_active, "since": span["since"]}
    rows = yield Execute("errors/count_groups", params)
    standings = {row["standing"]: row["groups"] for row in rows}
    failures = sum(row["failures"] for row in rows)
    return ErrorPage(list(found.items), found.cursor, standings, span["since"], failures)


def list_errors(
    filters: ErrorFilters,
    *,
    since: datetime | timedelta,
    is_active: bool,
    order: str,
    limit: int,
) -> Plan[list[ErrorGroup]]:
    """Return the first error groups, without counting the others."""
    yield from call("fold_errors")
    span = yield from _range(since)
    found = yield from _read_page(filters, span, is_active, order, None, limit)
    return list(found.items)


def read_types(groups: Collection[str]) -> Plan[dict[str, str]]:
    """The type of the errors of each group; those that have not been added up yet are left out."""
    if not groups:
        return {}
    rows = yield Execute("errors/types", {"ids": list(groups)})
    return {row["id"]: row["error_type"] for row in rows}


def count_standings(filters: ErrorFilters) -> Plan[dict[str, int]]:
    """Count groups by standing, whenever they happened."""
    check_filters(filters, ErrorFilters, "errors")
    yield from call("fold_errors")
    now = yield from read_clock()
    rows = yield Execute(
        "errors/count_groups", _parameters(filters) | {"is_active": False, "since": now}
    )
    return {row["standing"]: row["groups"] for row in rows}


def _read_page(
    filters: ErrorFilters,
    span: dict[str, Any],
    is_active: bool,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
) -> Plan[Page[ErrorGroup]]:
    check_filters(filters, ErrorFilters, "errors")
    check_order(order, ErrorOrder)
    params = _parameters(filters) | span | {"is_active": is_active, "id": None}
    return read_page("errors/list", params, ErrorGroup, order=order, cursor=cursor, limit=limit)


def find_error(group: str, *, since: datetime | timedelta) -> Plan[ErrorDetails]:
    yield from call("fold_errors")
    span = yield from _range(since)
    params = _parameters({"system": True}) | {"is_active": False}
    found = yield from read_page(
        "errors/list", params | span | {"id": group}, ErrorGroup, order="last", cursor=None, limit=1
    )
    if not found.items:
        raise ErrorGroupNotFound(f"there is no error group {group}")
    error = found.items[0]
    asked = {"id": error.id, "run_id": error.last_run_id, "error_type": error.error_type}
    traces = yield Execute("errors/traceback", asked)
    sample = yield Execute("errors/sample", {"id": error.id, "limit": _LOOKED_AT})
    trace = traces[0]["traceback"] if traces else None
    return ErrorDetails(error, span["since"], trace, _traits(sample), len(sample))


def _parameters(filters: ErrorFilters) -> dict[str, Any]:
    declared = {one.name: one for one in settings_of(ErrorFilters)}
    try:
        found = {name: declared[name].read(value) for name, value in filters.items()}
    except InputError as error:
        raise error.retold(FilterError) from None
    texts = found.get("text")
    return {
        "standings": found.get("standings"),
        "job": found.get("job"),
        "texts": [like(text) for text in texts] if texts else None,
        "system": bool(found.get("system")),
        **excluded(read_exclusions(found.get("exclude"), ErrorFilters)),
    }


def _range(since: datetime | timedelta) -> Plan[dict[str, Any]]:
    """Return the period in the steps in which counts are stored: ten minutes or more, up to now."""
    now = yield from read_clock()
    try:
        start = now - since if isinstance(since, timedelta) else since
        seconds = max(_BIN, (now - start).total_seconds())
        step = _BIN * -(-seconds // (_BIN * _STEPS))
        if step > _BIN:
            step = 3600 * -(-step // 3600)
        first = start.timestamp() // step * step
        steps = int((now.timestamp() - first) // step) + 1
        begin = datetime.fromtimestamp(first, now.tzinfo)
    except (OverflowError, ValueError, OSError):
        raise FilterError(f"since {since} is too far in the past") from None
    return {"since": begin, "step": step, "steps": steps}


def _traits(rows: Rows) -> list[ErrorFacet]:
    """Return the values that most runs share; a field whose values all differ is omitted."""
    values: dict[str, Counter[str]] = {"job": Counter(), "worker": Counter()}
    for row in rows:
        values["job"][row["job"]] += 1
        if row["worker"] is not None:
            values["worker"][row["worker"]] += 1
        for name, value in (row["payload"] or {}).items():
            if isinstance(value, str | int | bool) and len(str(value)) <= 100:
                field = values.setdefault(f"payload.{name}", Counter())
                field[str(value).lower() if isinstance(value, bool) else str(value)] += 1
    return [
        ErrorFacet(name, [Share(value, runs) for value, runs in counter.most_common(_MOST_SHARES)])
        for name, counter in values.items()
        if _says_something(name, counter)
    ]


def _says_something(name: str, counter: Counter[str]) -> bool:
    if not counter:
        return False
    if not name.startswith("payload."):
        return True
    common = counter.most_common(1)[0][1]
    return common > 1 and common * 5 >= counter.total()
