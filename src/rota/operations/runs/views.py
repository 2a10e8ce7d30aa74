"""Saved views: named filters of the list of runs, visible to everybody."""

from __future__ import annotations

from urllib.parse import parse_qsl

from rota.errors import InputError
from rota.model.run_view import RunView, ViewName, ViewQuery
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.postgres.plans import Plan, call
from rota.postgres.runs import views

Found = list[RunView]


def _saved(view: RunView, is_changed: bool, at: ShowTime) -> str:
    return "saved"


def _deleted(result: None, is_changed: bool, at: ShowTime) -> str:
    return "deleted"


class ViewCommands(Commands):
    noun = Noun("view", "views", RunView, home="/runs")

    @command
    def list(self) -> Plan[Found]:
        """List all saved views by name."""
        return views.list_views()

    @command
    def get(self, name: ViewName) -> Plan[RunView]:
        """Return one view. Raises ViewNotFound if there is none."""
        return views.find_view(name)

    @operation(says=_saved, creates=True, is_reason_optional=True, by_hand=("web",))
    def save(self, name: ViewName, query: ViewQuery, reason: Reason = None) -> Plan[RunView]:
        """Save a filter under a name, replacing any view with that name.

        The filter is written as in the page URL of the list of runs: `state=failed&since=24h`."""
        name, query = name.strip(), query.strip().removeprefix("?")
        if not name:
            raise InputError("the name of a view must have 1 to 100 characters", field="name")
        if not parse_qsl(query):
            raise InputError("a view needs a filter, such as state=failed&since=24h", field="query")
        yield from call("save_run_view", name=name, query=query, reason=reason, actor=self.actor)
        return (yield from views.find_view(name))

    @operation(says=_deleted, is_reason_optional=True, by_hand=("web",))
    def delete(self, name: ViewName, reason: Reason = None) -> Plan[None]:
        """Delete a saved view. Its runs are not affected.

        Raises ViewNotFound if there is none."""
        yield from call("delete_run_view", name=name, reason=reason, actor=self.actor)


class RunViews(ViewCommands, AsyncCommands):
    """`app.views`"""

    @property
    def sync(self) -> SyncRunViews:
        return SyncRunViews(self.database, self.actor)


class SyncRunViews(ViewCommands, SyncCommands):
    """`app.views.sync`"""
