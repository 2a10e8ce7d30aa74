"""Job definitions from code: registering them, and reading the changes of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from rota.postgres.plans import Execute, Plan
from rota.postgres.queries import Query, column


class Declared(TypedDict):
    """The declarations of a process. `jobs` is JSON; `worker` and `names` are given by workers,
    which have all declarations of their code; `forced` are jobs whose edits are overwritten.
    `build` is a digest of all declarations, `shape` the same without parts that may differ from
    start to start, None if nothing is declared; `before` is the build that the process registered
    before it declared more."""

    jobs: str
    payload_bytes: int
    application: str
    build: str
    worker: int | None
    names: Sequence[str] | None
    forced: Sequence[str]
    shape: str | None
    before: str | None
    release: str | None


class Refreshed(NamedTuple):
    """Whether registering again would write something, and the changes of operators, by job."""

    must_sync: bool
    overrides: Mapping[str, Mapping[str, Any]]


def declare(declared: Declared) -> Query[list[str]]:
    """Register jobs; return the names of new and changed ones."""
    return Query("jobs/register", declared, column)


def declare_plan(declared: Declared) -> Plan[None]:
    """Register jobs as part of a plan."""
    yield Execute("jobs/register", dict(declared))


def limit_waiting(milliseconds: int) -> Plan[None]:
    """Let no later statement of the plan wait longer for a lock; LockNotAvailable ends it."""
    yield Execute("session/limit_locks", {"milliseconds": milliseconds})


def is_newer(job: str, signature: int, own: int) -> Query[bool]:
    """Return whether `signature` of a job is newer than `own`."""
    params = {"job": job, "other": signature, "own": own}
    return Query("jobs/newer_signature", params, lambda rows: bool(rows[0][0]))


def refresh(worker: int, jobs: Sequence[str]) -> Query[Refreshed]:
    return Query(
        "jobs/refresh",
        {"worker": worker, "jobs": list(jobs)},
        lambda rows: Refreshed(bool(rows[0][0]), rows[0][1]) if rows else Refreshed(False, {}),
    )
