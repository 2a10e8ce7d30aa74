"""Saved views: named filters of the list of runs, visible to everybody."""

from __future__ import annotations

from urllib.parse import parse_qsl

from rota.errors import FilterError
from rota.model.run_view import RunView
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.runs import views

Found = list[RunView]


class ViewCommands(Commands):
    @command
    def list(self) -> Plan[Found]:
        """List all saved views by name."""
        return views.list_views()

    @command
    def save(self, name: str, query: str, reason: str | None = None) -> Plan[None]:
        """Save a filter of the list of runs, written as in its page URL: `state=failed&since=24h`.
        Replaces an existing view with that name."""
        name, query = name.strip(), query.strip().removeprefix("?")
        if not 1 <= len(name) <= 100:
            raise FilterError("the name of a view must have 1 to 100 characters")
        if not 1 <= len(query) <= 4000 or not parse_qsl(query):
            raise FilterError("a view needs a filter, such as state=failed&since=24h")
        return views.save_view(name, query, reason=reason, actor=self.actor)

    @command
    def delete(self, name: str, reason: str | None = None) -> Plan[None]:
        """Delete a saved view. Raises ViewNotFound if there is none."""
        return views.delete_view(name, reason=reason, actor=self.actor)


class RunViews(ViewCommands, AsyncCommands):
    """`app.views`"""

    @property
    def sync(self) -> SyncRunViews:
        return SyncRunViews(self.database, self.actor)


class SyncRunViews(ViewCommands, SyncCommands):
    """`app.views.sync`"""
