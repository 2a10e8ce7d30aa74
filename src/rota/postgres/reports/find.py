"""Finds records by name or id. Runs are only found by id or key, never by a search."""

from __future__ import annotations

from contextlib import suppress

from rota.errors import RunNotFound
from rota.model.run import RunInfo
from rota.model.run_filter import RunFilter
from rota.model.search_result import SearchResult
from rota.postgres.plans import Execute, Plan
from rota.postgres.runs.lists import list_page
from rota.postgres.runs.runs import find_run

_BIGGEST_ID = 2**63 - 1


def find(text: str, limit: int) -> Plan[list[SearchResult]]:
    runs = yield from _runs(text, limit)
    rows = yield Execute("find/names", {"text": text, "limit": limit})
    names = [SearchResult(**{name: row[name] for name in SearchResult.__slots__}) for row in rows]
    return [*map(_hit, runs), *names]


def _runs(text: str, limit: int) -> Plan[list[RunInfo]]:
    found: list[RunInfo] = []
    if text.isdecimal() and text.isascii() and len(text) < 20 and 0 < int(text) <= _BIGGEST_ID:
        with suppress(RunNotFound):
            found.append((yield from find_run(int(text))))
    page = yield from list_page(RunFilter.of({"key": text, "system": True}), limit=limit)
    return found + [run for run in page.runs if run.id != (found[0].id if found else None)]


def _hit(run: RunInfo) -> SearchResult:
    text = str(run.id) if run.key is None else f"{run.id}, key {run.key}"
    return SearchResult("run", str(run.id), run.tenant, text, run.job, run.state)
