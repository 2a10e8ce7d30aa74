"""Removing expired rows of users' tables: `app.cleanup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rota.admin.commands import AsyncCommands, Commands, SyncCommands, command
from rota.admin.schedules import edits
from rota.errors import InputError, TemplateNotFound, WrongState
from rota.model.cleanup import (
    DEFAULT_CRON,
    JOB,
    CleanupCount,
    CleanupInfo,
    CleanupTable,
    RecipeInfo,
)
from rota.model.cleanup_condition import parse_condition
from rota.model.cleanup_recipes import RECIPES, TABLES, RecipeOffer, offers
from rota.model.instants import LONGEST_SECONDS
from rota.model.schedule_info import Triggered
from rota.store import cleanup
from rota.store.audit import because
from rota.store.plans import Plan
from rota.store.schedules import schedules

Found = list[CleanupInfo]
Counts = list[CleanupCount]
Recipes = list[RecipeInfo]
Tables = list[CleanupTable]


class CleanupCommands(Commands):
    """A cleanup is a schedule of the job `rota.cleanup`: pause it, change its time and see its
    runs as those of any other."""

    @command
    def list(self) -> Plan[Found]:
        """All cleanups, by name."""
        return _list()

    @command
    def get(self, name: str) -> Plan[CleanupInfo]:
        """ScheduleNotFound if there is none."""
        return _get(name)

    @command
    def add(
        self,
        table: str,
        *,
        column: str,
        older_than: float | timedelta,
        where: str | None = None,
        name: str | None = None,
        cron: str = DEFAULT_CRON,
        timezone: str = "UTC",
        description: str = "",
        reason: str | None = None,
    ) -> Plan[CleanupInfo]:
        """Remove rows of a table whose `column` is further back than `older_than`, at these times.
        `where` narrows them: `status <> 'pending' and retries > 3`. Its name is that of the table
        after `cleanup_`, unless given. InputError says what does not fit, WrongState that the
        name is taken."""
        rule = {"column": column, "older_than": _seconds(older_than)}
        if where is not None and where.strip():
            rule["where"] = parse_condition(where)
        plan = self._add(table, rule, name, cron, timezone, description)
        return because(reason, plan)

    @command
    def add_recipe(
        self,
        recipe: str,
        *,
        prefix: str | None = None,
        name: str | None = None,
        reason: str | None = None,
    ) -> Plan[CleanupInfo]:
        """A cleanup for tables that are usual, as `recipes` lists them; `prefix` says which, if
        several are called alike."""
        return because(reason, self._add_recipe(recipe, prefix, name))

    @command
    def remove(self, name: str, *, reason: str | None = None) -> Plan[None]:
        """No more rows are removed; history and audit stay. WrongState for Rota's own one."""
        return because(reason, self._remove(name))

    @command
    def run(self, name: str, *, reason: str | None = None) -> Plan[Triggered]:
        """One run now, which a worker carries out."""
        return because(reason, self._run(name))

    @command
    def plan(self, name: str | None = None) -> Plan[Counts]:
        """How many rows each rule would remove now, of one cleanup or of all. Changes nothing."""
        return _plan(name)

    @command
    def recipes(self) -> Plan[Recipes]:
        """Cleanups for tables that this database has."""
        return _recipes()

    @command
    def tables(self) -> Plan[Tables]:
        """Tables with a column that holds a time."""
        return cleanup.list_tables()

    def _add(
        self,
        table: str,
        rule: Mapping[str, Any],
        name: str | None,
        cron: str,
        timezone: str,
        description: str,
    ) -> Plan[CleanupInfo]:
        full = yield from cleanup.resolve_table(table)
        name = name or f"cleanup_{full.rpartition('.')[2].strip(chr(34))}"
        rules = [{"table": full, **rule}]
        return (yield from self._create(name, rules, cron, timezone, description))

    def _add_recipe(self, recipe: str, prefix: str | None, name: str | None) -> Plan[CleanupInfo]:
        offer = yield from _offer(recipe, prefix)
        found = offer.recipe
        return (
            yield from self._create(
                name or found.name, offer.rules, found.cron, "UTC", found.description
            )
        )

    def _create(
        self,
        name: str,
        rules: Sequence[Mapping[str, Any]],
        cron: str,
        timezone: str,
        description: str,
    ) -> Plan[CleanupInfo]:
        payload = {"rules": list(rules)}
        made = yield from edits.create(
            name,
            JOB,
            "",
            {"cron": cron, "timezone": timezone, "description": description, "payload": payload},
            actor=self.actor,
        )
        return cleanup.info_of(made)

    def _remove(self, name: str) -> Plan[None]:
        found = yield from cleanup.find_cleanup(name)
        if found.is_system:
            raise WrongState(f'cleanup "{name}" belongs to Rota', hint="disable its schedule")
        yield from schedules.delete_schedule(name, "", cancel_waiting=True, actor=self.actor)

    def _run(self, name: str) -> Plan[Triggered]:
        yield from cleanup.find_cleanup(name)
        return (
            yield from schedules.trigger_schedule(
                name, "", payload=None, metadata=None, actor=self.actor
            )
        )


class Cleanup(CleanupCommands, AsyncCommands):
    """`app.cleanup`"""

    @property
    def sync(self) -> SyncCleanup:
        return SyncCleanup(self.database, self.actor)


class SyncCleanup(CleanupCommands, SyncCommands):
    """`app.cleanup.sync`"""


def _list() -> Plan[Found]:
    found = yield from cleanup.list_cleanups()
    return [cleanup.info_of(one) for one in found]


def _get(name: str) -> Plan[CleanupInfo]:
    return cleanup.info_of((yield from cleanup.find_cleanup(name)))


def _plan(name: str | None) -> Plan[Counts]:
    wanted = (
        (yield from cleanup.list_cleanups())
        if name is None
        else [(yield from cleanup.find_cleanup(name))]
    )
    found: Counts = []
    for one in wanted:
        found += yield from cleanup.plan_cleanup(one)
    return found


def _recipes() -> Plan[Recipes]:
    used = [one.name for one in (yield from cleanup.list_cleanups())]
    return [one.info(used) for one in offers((yield from cleanup.known_tables(TABLES)))]


def _offer(recipe: str, prefix: str | None) -> Plan[RecipeOffer]:
    if recipe not in {one.name for one in RECIPES}:
        known = ", ".join(one.name for one in RECIPES)
        raise TemplateNotFound(f'no recipe is named "{recipe}"', hint=f"there are {known}")
    found = [
        one
        for one in offers((yield from cleanup.known_tables(TABLES)))
        if one.recipe.name == recipe and prefix in (None, one.prefix)
    ]
    if not found:
        raise WrongState(
            f'recipe "{recipe}" needs tables that this database does not have',
            hint="`rota cleanup recipes` lists those that fit",
        )
    if len(found) > 1:
        prefixes = ", ".join(one.prefix for one in found)
        raise WrongState(
            f'recipe "{recipe}" fits several tables', hint=f"give one of the prefixes {prefixes}"
        )
    return found[0]


def _seconds(age: float | timedelta) -> float:
    found = age.total_seconds() if isinstance(age, timedelta) else age
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"older_than is a number of seconds or a timedelta, not {age!r}")
    if not 0 <= found <= LONGEST_SECONDS:
        raise InputError(f"older_than is from 0 to 100 years, not {age!r}")
    return int(found) if float(found).is_integer() else float(found)
