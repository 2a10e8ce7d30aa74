"""The result of a search by name or id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rota.model.fields import Field


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search result. `kind` is run, job, schedule, queue or worker. `name` identifies it: the id
    of a run or a worker, otherwise the name. `text` is the display text; `detail` is the job of a
    run or a schedule, the queue of a job, or the host of a worker."""

    kind: Annotated[str, Field("run, schedule, job, queue or worker.", "run")]
    name: Annotated[str, Field("Identifier: the ID of a run or worker, otherwise the name.", "42")]
    tenant: Annotated[str, Field("Tenant.", "")]
    text: Annotated[str, Field("Display text.", "42, key order-17")]
    detail: Annotated[
        str,
        Field(
            "The job of a run or a schedule, the queue of a job, the host of a worker.",
            "send_welcome",
        ),
    ]
    state: Annotated[str, Field("Current state.", "succeeded")]
