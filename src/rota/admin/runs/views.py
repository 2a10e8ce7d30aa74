"""Filters of the list of runs that are kept under a name, for everybody."""

from __future__ import annotations

from urllib.parse import parse_qsl

from rota.admin.commands import AsyncCommands, Commands, SyncCommands, command
from rota.errors import FilterError
from rota.model.run_view import RunView
from rota.store.plans import Plan
from rota.store.runs import views

Found = list[RunView]


class ViewCommands(Commands):
    @command
    def list(self) -> Plan[Found]:
        """By name."""
        return views.list_views()

    @command
    def save(self, name: str, query: str, reason: str | None = None) -> Plan[None]:
        """`query` is what the address of the list says: `state=failed&since=24h`. One of that name
        is replaced."""
        name, query = name.strip(), query.strip().removeprefix("?")
        if not 1 <= len(name) <= 100:
            raise FilterError("the name of a view must have 1 to 100 characters")
        if not 1 <= len(query) <= 4000 or not parse_qsl(query):
            raise FilterError("a view needs a filter, such as state=failed&since=24h")
        return views.save_view(name, query, reason=reason, actor=self.actor)

    @command
    def delete(self, name: str, reason: str | None = None) -> Plan[None]:
        """ViewNotFound if there is none."""
        return views.delete_view(name, reason=reason, actor=self.actor)


class RunViews(ViewCommands, AsyncCommands):
    """`app.views`"""

    @property
    def sync(self) -> SyncRunViews:
        return SyncRunViews(self.database, self.actor)


class SyncRunViews(ViewCommands, SyncCommands):
    """`app.views.sync`"""
