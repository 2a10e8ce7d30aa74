"""Timing templates: `app.templates`."""

from __future__ import annotations

from rota.errors import TimingError
from rota.model.page import Page
from rota.model.schedule_fields import CronExpression
from rota.model.template import Description, TemplateInfo, TemplateName
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, Version, operation
from rota.operations.scope import Scope
from rota.postgres.audit import because
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars
from rota.timing.timing import Timing

Found = list[TemplateInfo]


def _set(it: TemplateInfo, is_changed: bool, at: ShowTime) -> str:
    return f"stands for {it.cron}"


def _removed(result: None, is_changed: bool, at: ShowTime) -> str:
    return "removed"


class TemplateCommands(Commands):
    noun = Noun("template", "templates", TemplateInfo, TimingError, home="/schedules/new")
    scope = Scope(shared=frozenset({"list", "page", "get"}))

    @command
    def list(self) -> Plan[Found]:
        """List timing templates by name."""
        return calendars.list_templates()

    @command
    def page(self, *, cursor: Cursor = None, limit: int = 50) -> Plan[Page[TemplateInfo]]:
        """One page of that list, with the cursor of the next."""
        return calendars.page_templates(cursor=cursor, limit=limit)

    @command
    def get(self, name: TemplateName) -> Plan[TemplateInfo]:
        """Get one timing template.

        Raises TemplateNotFound if there is none."""
        return calendars.find_template(name)

    @operation(says=_set, creates=True, by_hand=("web",))
    def set(
        self,
        name: TemplateName,
        cron: CronExpression,
        description: Description = "",
        *,
        version: Version = None,
        reason: Reason = None,
    ) -> Plan[TemplateInfo]:
        """Add a timing template, or replace the one with that name.

        `app.templates.set("Tea time", "0 17 * * *")`. Raises VersionConflict if it is not at
        `version`."""
        Timing.of(cron=cron)
        plan = calendars.set_template(name, cron, description, version=version, actor=self.actor)
        yield from because(reason, plan)
        return (yield from calendars.find_template(name))

    @operation(says=_removed, by_hand=("web",))
    def remove(
        self, name: TemplateName, *, version: Version = None, reason: Reason = None
    ) -> Plan[None]:
        """Remove a timing template. Schedules created from it keep their timing.

        Raises TemplateNotFound if there is none."""
        plan = calendars.remove_template(name, version=version, actor=self.actor)
        return because(reason, plan)


class Templates(TemplateCommands, AsyncCommands):
    """`app.templates`"""

    @property
    def sync(self) -> SyncTemplates:
        return SyncTemplates(self.database, self.actor)


class SyncTemplates(TemplateCommands, SyncCommands):
    """`app.templates.sync`"""
