"""Cleanup of expired rows in users' tables: `app.cleanup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import TemplateNotFound, WrongState
from rota.hints import Hint, OperationCall
from rota.model.cleanup import (
    DEFAULT_CRON,
    JOB,
    AnyCleanup,
    CleanupCount,
    CleanupInfo,
    CleanupName,
    CleanupTable,
    Description,
    NameOfRecipe,
    NewName,
    OlderThan,
    Prefix,
    RecipeInfo,
    RecipeName,
    Table,
    TimeColumn,
    When,
    Where,
    Zone,
)
from rota.model.cleanup_condition import parse_condition
from rota.model.cleanup_recipes import RECIPES, TABLES, RecipeOffer, offers
from rota.model.durations import read_duration
from rota.model.schedule_info import Triggered
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.operations.schedules import edits
from rota.postgres import cleanup
from rota.postgres.audit import because
from rota.postgres.plans import Plan, call
from rota.postgres.schedules import schedules
from rota.postgres.schedules.lists import named

Found = list[CleanupInfo]
Counts = list[CleanupCount]
Recipes = list[RecipeInfo]
Tables = list[CleanupTable]


def _added(made: CleanupInfo, is_changed: bool, at: ShowTime) -> str:
    return f'cleanup "{made.name}" is added, {made.timing}'


def _removed(result: None, is_changed: bool, at: ShowTime) -> str:
    return "is removed"


def _started(done: Triggered, is_changed: bool, at: ShowTime) -> str:
    return f"is enqueued as run {done.run_id}"


def _before_run(it: CleanupInfo) -> str:
    rules = "; ".join(
        f"{rule.table} whose {rule.column} is older than {rule.older_than}"
        + (f" and {rule.where}" if rule.where else "")
        for rule in it.rules
    )
    return f"It deletes the rows in {rules}. Deleted rows cannot be restored."


def _before_remove(it: CleanupInfo) -> str:
    return "Its waiting run is cancelled."


class CleanupCommands(Commands):
    """A cleanup is a schedule of the job `rota.cleanup`: it can be paused, changed and inspected
    like any other schedule."""

    noun = Noun("cleanup", "cleanup", CleanupInfo)

    @command
    def list(self) -> Plan[Found]:
        """List cleanups by name: what each deletes, and when."""
        return _list()

    @command
    def get(self, name: CleanupName) -> Plan[CleanupInfo]:
        """Get one cleanup.

        Raises ScheduleNotFound if there is none."""
        return _get(name)

    @operation(says=_added, has_target=False, creates=True, status=201, title="New cleanup")
    def add(
        self,
        table: Table,
        *,
        column: TimeColumn,
        older_than_seconds: OlderThan,
        where: Where = None,
        name: NewName = None,
        cron: When = DEFAULT_CRON,
        timezone: Zone = "UTC",
        description: Description = "",
        reason: Reason = None,
    ) -> Plan[CleanupInfo]:
        """Delete expired rows of a table regularly. Creates a schedule of the job `rota.cleanup`.

        Rows expire when their `column` is more than `older_than_seconds` in the past. `where` adds
        conditions: `status <> 'pending' and retries > 3`. Raises InputError if the table, a column
        or a value is invalid, and WrongState if the name is taken."""
        age = read_duration(older_than_seconds) or 0.0
        rule: dict[str, Any] = {
            "column": column,
            "older_than": int(age) if age.is_integer() else age,
        }
        if where is not None and where.strip():
            rule["where"] = parse_condition(where)
        plan = self._add(table, rule, name, cron, timezone, description)
        return because(reason, plan)

    @operation(
        says=_added, has_target=False, status=201, title="Add recipe", code="add_cleanup_recipe"
    )
    def add_recipe(
        self,
        recipe: RecipeName,
        *,
        prefix: Prefix = None,
        name: NameOfRecipe = None,
        reason: Reason = None,
    ) -> Plan[CleanupInfo]:
        """Add one of the ready-made cleanups.

        The name defaults to the recipe's or, if that is taken, to the recipe's and the prefix."""
        return because(reason, self._add_recipe(recipe, prefix, name))

    @operation(says=_removed, asks=_before_remove, is_dangerous=True, is_reason_optional=True)
    def remove(self, name: CleanupName, *, reason: Reason = None) -> Plan[None]:
        """Remove a cleanup: nothing more is deleted. Its history and audit entries are kept.

        Raises WrongState if it is Rota's own."""
        return because(reason, self._remove(name))

    @operation(says=_started, asks=_before_run, status=201, is_reason_optional=True)
    def run(self, name: CleanupName, *, reason: Reason = None) -> Plan[Triggered]:
        """Run a cleanup now, on a worker."""
        return because(reason, self._run(name))

    @command
    def plan(self, name: AnyCleanup = None) -> Plan[Counts]:
        """Count the rows that each rule would delete now. Changes nothing."""
        return _plan(name)

    @command
    def recipes(self) -> Plan[Recipes]:
        """List ready-made cleanups for tables that this database has."""
        return _recipes()

    @command
    def tables(self) -> Plan[Tables]:
        """List tables with a column that holds a time, up to 1000."""
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
        if name is None:
            taken = yield from named(found.name, "")
            is_other = taken is not None and not offer.shares_tables(cleanup.info_of(taken).rules)
            name = offer.second_name if is_other else found.name
        return (yield from self._create(name, offer.rules, found.cron, "UTC", found.description))

    def _create(
        self,
        name: str,
        rules: Sequence[Mapping[str, Any]],
        cron: str,
        timezone: str,
        description: str,
    ) -> Plan[CleanupInfo]:
        payload = {"rules": list(rules)}
        taken = yield from named(name, "")
        if taken is not None and taken.job == JOB:
            raise WrongState(
                f'cleanup "{name}" already exists', hint="pass another name, or remove it first"
            )
        if taken is not None:
            raise WrongState(f'schedule "{name}" already exists', hint="pass another name")
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
            raise WrongState(
                f'cleanup "{name}" belongs to Rota', hint="disable its schedule instead"
            )
        given = {"name": name, "tenant": "", "cancel_waiting": True}
        yield from call("delete_schedule", **given, actor=self.actor)

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
    return [cleanup.info_of(schedule) for schedule in found]


def _get(name: str) -> Plan[CleanupInfo]:
    return cleanup.info_of((yield from cleanup.find_cleanup(name)))


def _plan(name: str | None) -> Plan[Counts]:
    wanted = (
        (yield from cleanup.list_cleanups())
        if name is None
        else [(yield from cleanup.find_cleanup(name))]
    )
    found: Counts = []
    for rule in wanted:
        found += yield from cleanup.plan_cleanup(rule)
    return found


def _recipes() -> Plan[Recipes]:
    used = [rule for info in (yield from _list()) for rule in info.rules]
    return [offer.info(used) for offer in offers((yield from cleanup.known_tables(TABLES)))]


def _offer(recipe: str, prefix: str | None) -> Plan[RecipeOffer]:
    if recipe not in {one.name for one in RECIPES}:
        names = ", ".join(one.name for one in RECIPES)
        raise TemplateNotFound(f'no recipe is named "{recipe}"', hint=f"choose from {names}")
    known = offers((yield from cleanup.known_tables(TABLES)))
    there = [offer for offer in known if offer.recipe.name == recipe]
    if not there:
        raise WrongState(
            f'recipe "{recipe}" needs tables that this database does not have',
            hint=Hint("{} lists those that fit its tables", OperationCall("cleanup", "recipes")),
        )
    found = there if prefix is None else _of_prefix(there, prefix)
    if len(found) == 1:
        return found[0]
    hint = f"pass one of the prefixes {', '.join(offer.prefix for offer in found or there)}"
    if found:
        raise WrongState(f'recipe "{recipe}" matches several tables', hint=hint)
    raise WrongState(f'recipe "{recipe}" has no tables with the prefix "{prefix}"', hint=hint)


def _of_prefix(there: Sequence[RecipeOffer], prefix: str) -> list[RecipeOffer]:
    """Return the offers with this prefix; without a schema, those of `public`, else of any."""
    whole = [offer for offer in there if offer.prefix in (prefix, f"public.{prefix}")]
    return whole or [offer for offer in there if offer.bare_prefix == prefix]
