"""What a search by name or id has found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hit:
    """`kind`: run, job, schedule, queue or worker. `name` is what it is asked for by: the id of a
    run or a worker, else its name. `text` is how people know it; `detail` is the job of a run or a
    schedule, the queue of a job, the host of a worker."""

    kind: str
    name: str
    tenant: str
    text: str
    detail: str
    state: str
