"""Named filters of the list of runs."""

from __future__ import annotations

from rota.model.run_view import RunView
from rota.postgres.plans import Ask, Plan


def list_views() -> Plan[list[RunView]]:
    rows = yield Ask("views/list", {})
    return [RunView(**row) for row in rows]


def save_view(name: str, query: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    params = {"name": name, "query": query, "reason": reason, "actor": actor}
    yield Ask("views/save", params)


def delete_view(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    yield Ask("views/delete", {"name": name, "reason": reason, "actor": actor})
