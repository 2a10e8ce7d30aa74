"""Search for records by name or id."""

from __future__ import annotations

from typing import Annotated

from rota.errors import FilterError
from rota.model.asked import MostOfEach
from rota.model.fields import Check, Field
from rota.model.search_result import SearchResult
from rota.operations.commands import AsyncCommands, Commands, SyncCommands
from rota.operations.reading import reading
from rota.postgres.plans import Plan
from rota.postgres.reports import find

Hits = list[SearchResult]
MOST_TEXT = 200


def _wanted(name: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"the search text must have 1 to {MOST_TEXT} characters")
    return text.strip()


SearchText = Annotated[
    str,
    Field(
        "Run ID or key, or part of a name; case is ignored.", "mail", shortest=1, longest=MOST_TEXT
    ),
    Check(_wanted),
]


class FindCommands(Commands):
    @reading(FilterError)
    def named(self, text: SearchText, *, limit: MostOfEach = 8) -> Plan[Hits]:
        """Find runs by ID or key, then schedules, jobs, queues and workers whose name contains the
        text."""
        return find.find(text, limit)


class Find(FindCommands, AsyncCommands):
    """`app.find`"""

    @property
    def sync(self) -> SyncFind:
        return SyncFind(self.database, self.actor)


class SyncFind(FindCommands, SyncCommands):
    """`app.find.sync`"""
