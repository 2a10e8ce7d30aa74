"""Assertions about what was enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.app import App
from rota.jobs.decorator import Job
from rota.model.run import RunInfo

_SHOWN = 10


def assert_enqueued(
    app: App, job: Job | str, *, count: int | None = None, **filters: Any
) -> list[RunInfo]:
    """The runs of a job that match, oldest first; fails when there are none, or not `count`.

        assert_enqueued(app, send_welcome, payload={"user_id": 7}, queue="mail")

    A filter is a field of `rota.RunInfo`. `payload` and `metadata` need to hold what is given,
    and may hold more. Runs that have ended count too, unless `state=` says otherwise.
    """
    name = job if isinstance(job, str) else job.name
    runs = app.runs.sync.list(job=name, order="oldest", limit=1_000_000)
    found = [run for run in runs if all(_matches(run, it, filters[it]) for it in filters)]
    wanted = "at least one run" if count is None else f"{count} runs"
    if not found if count is None else len(found) != count:
        shown = "".join(f"\n  {run}" for run in runs[:_SHOWN]) or " none at all"
        raise AssertionError(
            f"expected {wanted} of {name} with {filters}, found {len(found)}; its runs:{shown}"
        )
    return found


def _matches(run: RunInfo, name: str, wanted: Any) -> bool:
    if name not in RunInfo.__slots__:
        raise TypeError(f"a run has no field {name!r}; it has {', '.join(RunInfo.__slots__)}")
    value = getattr(run, name)
    if name in ("payload", "metadata") and isinstance(wanted, Mapping):
        return all(key in value and value[key] == wanted[key] for key in wanted)
    return bool(value == wanted)
