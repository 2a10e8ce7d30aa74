"""Named filters of the list of runs."""

from __future__ import annotations

from rota.errors import ViewNotFound
from rota.model.run_view import RunView
from rota.postgres.plans import Execute, Plan


def list_views(name: str | None = None) -> Plan[list[RunView]]:
    rows = yield Execute("views/list", {"name": name})
    return [RunView(**row) for row in rows]


def find_view(name: str) -> Plan[RunView]:
    found = yield from list_views(name)
    if not found:
        raise ViewNotFound(f'there is no view "{name}"')
    return found[0]
