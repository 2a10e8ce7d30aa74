"""Cleanups for tables that many applications have, offered if the tables exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.cleanup import CleanupRule, RecipeInfo, rule_of

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class RecipeRule:
    """A rule about a table by its usual name; `where` is a condition as it is stored."""

    table: str
    column: str
    older_than: int = 0
    where: dict[str, Any] | None = None

    @property
    def columns(self) -> set[str]:
        return {self.column} | ({self.where["column"]} if self.where else set())

    def rule(self, table: str) -> dict[str, Any]:
        found = {"table": table, "column": self.column, "older_than": self.older_than}
        return found | ({"where": self.where} if self.where else {})


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    description: str
    cron: str
    parts: tuple[RecipeRule, ...]


RECIPES = (
    Recipe(
        "stale_session_cleanup",
        "Expired sessions, every hour",
        "0 * * * *",
        (RecipeRule("sessions", "expires_at"),),
    ),
    Recipe(
        "webhook_delivery_prune",
        "Webhook deliveries older than 168 hours that are not pending, daily at 03:00",
        "0 3 * * *",
        (
            RecipeRule(
                "webhook_deliveries",
                "created_at",
                7 * _DAY,
                {"column": "status", "op": "<>", "value": "pending"},
            ),
        ),
    ),
    Recipe(
        "expired_oauth_cleanup",
        "OAuth tokens and codes, expired, revoked or used for a day, daily at 04:00",
        "0 4 * * *",
        (
            RecipeRule("oauth_tokens", "expires_at", _DAY),
            RecipeRule("oauth_tokens", "revoked_at", _DAY),
            RecipeRule("oauth_authorization_codes", "expires_at"),
            RecipeRule("oauth_authorization_codes", "used_at", _DAY),
        ),
    ),
    Recipe(
        "expired_auth_cleanup",
        "Expired magic links and password resets, daily at 05:00",
        "0 5 * * *",
        (RecipeRule("magic_links", "expires_at"), RecipeRule("password_resets", "expires_at")),
    ),
)
TABLES = sorted({part.table for recipe in RECIPES for part in recipe.parts})


@dataclass(frozen=True, slots=True)
class RecipeOffer:
    """A recipe for the tables of one prefix, with its rules as they would be stored."""

    recipe: Recipe
    prefix: str
    rules: tuple[dict[str, Any], ...]

    @property
    def bare_prefix(self) -> str:
        """The prefix without the schema."""
        return self.prefix.partition(".")[2]

    @property
    def second_name(self) -> str:
        """The name of the cleanup if another prefix already uses the recipe's name: with the
        prefix, which distinguishes them."""
        parts = re.findall(r"[^\W_]+", self.prefix.removeprefix("public.") or "public")
        return "_".join((self.recipe.name, *parts))

    def shares_tables(self, rules: Iterable[CleanupRule]) -> bool:
        return not {rule["table"] for rule in self.rules}.isdisjoint(rule.table for rule in rules)

    def info(self, used: Iterable[CleanupRule]) -> RecipeInfo:
        recipe, rules = self.recipe, [rule_of(rule) for rule in self.rules]
        there = {(rule.table, rule.column) for rule in used}
        return RecipeInfo(
            recipe.name,
            recipe.description,
            recipe.cron,
            self.prefix,
            rules,
            all((rule.table, rule.column) in there for rule in rules),
        )


def offers(tables: Iterable[Mapping[str, Any]]) -> list[RecipeOffer]:
    """Return for each recipe and prefix the rules whose tables and columns exist."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    known = list(tables)
    for recipe in RECIPES:
        for part in recipe.parts:
            for table in known:
                if _fits(part, table):
                    prefix = f"{table['schema']}.{table['name'].removesuffix(part.table)}"
                    rule = part.rule(table["full_name"])
                    found.setdefault((recipe.name, prefix), []).append(rule)
    by_name = {recipe.name: recipe for recipe in RECIPES}
    return [
        RecipeOffer(by_name[name], prefix, tuple(rules)) for (name, prefix), rules in found.items()
    ]


def _fits(part: RecipeRule, table: Mapping[str, Any]) -> bool:
    name = str(table["name"])
    is_named = name == part.table or name.endswith(f"_{part.table}")
    return is_named and part.column in table["times"] and part.columns <= set(table["columns"])
