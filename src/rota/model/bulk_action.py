"""The record of a bulk action."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from rota.model.bulk import Action
from rota.model.fields import BIGGEST_ID, Field

BulkState = Literal["running", "paused", "stopped", "finished"]
ActionId = Annotated[int, Field("Bulk action ID.", 7, least=1, most=BIGGEST_ID)]
Rate = Annotated[
    float | None,
    Field(
        "Maximum runs per second.",
        50,
        "At most",
        least=0.01,
        most=1_000_000,
        none_means="no limit",
        metavar="N",
    ),
]


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One row of `rota.bulk_actions`.

    `done`, `skipped` and `failed` are numbers of runs: a skipped run was deleted or had changed its
    state, a failed one could not be acted on; `problems` has the reasons for the first 20. `total`
    is the number of matching runs counted so far; `is_counted` means that all are counted. `error`
    says why it does not continue, `has_worker` whether a live worker can carry it out.
    """

    id: Annotated[int, Field("ID.", 7)]
    verb: Annotated[Action, Field("Action.", "retry")]
    filter: Annotated[
        dict[str, Any],
        Field(
            "Filter that selects the runs, with absolute times.",
            {"job": "send_welcome", "dead": True},
        ),
    ]
    payload: Annotated[dict[str, Any] | None, Field("Retry only: replacement payload.")]
    delay_seconds: Annotated[float | None, Field("Retry only: delay.")]
    limit: Annotated[int | None, Field("Maximum number of runs.")]
    rate: Annotated[float | None, Field("Maximum runs per second.", 50.0)]
    actor: Annotated[str, Field("Who started it.", "ada")]
    reason: Annotated[str | None, Field("Reason.", "the provider is back")]
    state: Annotated[BulkState, Field("State of the bulk action.", "running")]
    done: Annotated[int, Field("Number of runs processed.", 1200)]
    skipped: Annotated[
        int, Field("Number of runs skipped because they were deleted or had changed state.", 3)
    ]
    failed: Annotated[int, Field("Number of runs that failed.", 1)]
    total: Annotated[int, Field("Number of selected runs counted so far.", 21638)]
    is_counted: Annotated[bool, Field("Whether counting is complete.", True)]
    problems: Annotated[
        list[dict[str, Any]],
        Field(
            "The first 20 failed runs, with the reason.",
            [{"id": 43, "reason": "run 43 cannot be retried: its key is held by run 44"}],
        ),
    ]
    error: Annotated[str | None, Field("Why it is not continuing.")]
    created_at: Annotated[
        datetime, Field("When it was started. Runs enqueued later are not affected.")
    ]
    changed_at: Annotated[datetime, Field("When it last made progress or was changed.")]
    finished_at: Annotated[datetime | None, Field("End time.")]
    has_worker: Annotated[bool, Field("Whether a live worker is available to carry it out.", True)]

    @property
    def worked(self) -> int:
        """The number of runs processed so far."""
        return self.done + self.skipped + self.failed

    @property
    def is_open(self) -> bool:
        return self.state in ("running", "paused")
