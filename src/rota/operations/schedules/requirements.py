"""Checks that the requirements of schedules can be met."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from rota.errors import TimingError
from rota.postgres.jobs import present_names
from rota.postgres.plans import Plan
from rota.postgres.schedules import schedules

# By the name of a schedule: its job, and the names that it requires.
Graph = Mapping[str, tuple[str, list[str]]]


def check_requires(wanted: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Plan[None]:
    """Check schedules that are stored together, by tenant, name and columns: each requirement
    exists or is one of them, and none requires itself."""
    by_tenant: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for tenant, name, given in wanted:
        required = [requirement["name"] for requirement in given["requires"]]
        by_tenant.setdefault(tenant, {})[name] = (given["job"], required)
    by_tenant = {it: added for it, added in by_tenant.items() if any(r for _, r in added.values())}
    if not by_tenant:
        return
    names = yield from present_names()
    for tenant, added in by_tenant.items():
        rows = yield from schedules.read_requirements(tenant)
        graph = {row["name"]: (row["job"], row["requires"]) for row in rows} | added
        graph |= {name: _named(graph, names, *graph[name]) for name in added}
        for name in added:
            _check_one(name, graph[name][1], graph, names)


def _named(
    graph: Graph, names: Mapping[str, str], job: str, required: list[str]
) -> tuple[str, list[str]]:
    """Return the job and the required names, with the present names of jobs."""
    return names.get(job, job), [it if it in graph else names.get(it, it) for it in required]


def _check_one(name: str, required: list[str], graph: Graph, jobs: Container[str]) -> None:
    for other in required:
        if other not in graph and other not in jobs:
            raise TimingError(
                f'schedule "{name}" requires "{other}": no schedule or job has that name',
                field="requires",
            )
    way = _way_back(name, graph) if required else None
    if way:
        raise TimingError(
            f"the requirements of schedules form a cycle: {' → '.join(way)}", field="requires"
        )


def _way_back(start: str, graph: Graph) -> list[str] | None:
    """Return the path from a schedule through its requirements back to itself; a job stands for all
    of its schedules."""
    seen: set[str] = set()
    ways = [[start]]
    while ways:
        way = ways.pop()
        for following in _next(way[-1], graph):
            if following == start:
                return [*way, start]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None


def _next(name: str, graph: Graph) -> list[str]:
    found: list[str] = []
    for wanted in graph[name][1]:
        if wanted in graph:
            found.append(wanted)
        else:
            found += [other for other, (job, _) in graph.items() if job == wanted]
    return found
