"""Job definitions of code: declared to the database, and read back with what operators changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from rota.store.plans import Ask, Plan
from rota.store.queries import Query, column


class Declared(TypedDict):
    """What a process declares. `jobs` is JSON; `worker` and `names` are given by workers, which
    know everything that their code declares; `forced` are jobs whose edits are overwritten.
    `build` is a digest of all that the process declares, `shape` the same without what may differ
    from start to start, None where it declares nothing; `before` is the build that it told before
    it declared more."""

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
    """Whether declaring again would write something, and what operators changed, by job."""

    must_sync: bool
    overrides: Mapping[str, Mapping[str, Any]]


def declare(declared: Declared) -> Query[list[str]]:
    """Answers the names of those that are new or have changed."""
    return Query("jobs/register", declared, column)


def declare_plan(declared: Declared) -> Plan[None]:
    """The same as part of a plan."""
    yield Ask("jobs/register", dict(declared))


def is_newer(job: str, signature: int, own: int) -> Query[bool]:
    """Whether a signature of a job came after this one."""
    params = {"job": job, "other": signature, "own": own}
    return Query("jobs/newer_signature", params, lambda rows: bool(rows[0][0]))


def refresh(worker: int, jobs: Sequence[str]) -> Query[Refreshed]:
    return Query(
        "jobs/refresh",
        {"worker": worker, "jobs": list(jobs)},
        lambda rows: Refreshed(bool(rows[0][0]), rows[0][1]) if rows else Refreshed(False, {}),
    )
