"""The result of a search by name or id."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `kind` is run, job, schedule, queue or worker. `name` identifies it: the id
    of a run or a worker, otherwise the name. `text` is the display text; `detail` is the job of a
    run or a schedule, the queue of a job, or the host of a worker."""

    kind: str
    name: str
    tenant: str
    text: str
    detail: str
    state: str
