"""Filters of the list of runs that are kept under a name, for everybody."""

from __future__ import annotations

from urllib.parse import parse_qsl

from rota.admin.commands import AsyncCommands, Commands, SyncCommands, command
from rota.errors import FilterError
from rota.model.run_view import RunView
from rota.store.plans import Ask, Plan

Found = list[RunView]


class ViewCommands(Commands):
    @command
    def list(self) -> Plan[Found]:
        """By name."""
        return self._list()

    @command
    def save(self, name: str, query: str, reason: str | None = None) -> Plan[None]:
        """`query` is what the address of the list says: `state=failed&since=24h`. One of that name
        is replaced."""
        name, query = name.strip(), query.strip().removeprefix("?")
        if not 1 <= len(name) <= 100:
            raise FilterError("the name of a view must have 1 to 100 characters")
        if not 1 <= len(query) <= 4000 or not parse_qsl(query):
            raise FilterError("a view needs a filter, such as state=failed&since=24h")
        return self._do("save", name=name, query=query, reason=reason)

    @command
    def delete(self, name: str, reason: str | None = None) -> Plan[None]:
        """ViewNotFound if there is none."""
        return self._do("delete", name=name, reason=reason)

    def _list(self) -> Plan[Found]:
        rows = yield Ask("views/list", {})
        return [RunView(**row) for row in rows]

    def _do(self, verb: str, **params: str | None) -> Plan[None]:
        yield Ask(f"views/{verb}", {**params, "actor": self.actor})


class RunViews(ViewCommands, AsyncCommands):
    """`app.views`"""

    @property
    def sync(self) -> SyncRunViews:
        return SyncRunViews(self.database, self.actor)


class SyncRunViews(ViewCommands, SyncCommands):
    """`app.views.sync`"""
