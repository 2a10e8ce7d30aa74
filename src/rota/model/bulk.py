"""Actions on many runs, and the result for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rota.model.fields import Field
from rota.model.states import END_STATES, OPEN_STATES, RETRIABLE_STATES

Action = Literal["cancel", "retry", "delete"]
BulkOutcome = Literal["cancelled", "requested", "retried", "deleted", "refused"]

FITTING: dict[Action, tuple[str, ...]] = {
    "cancel": OPEN_STATES,
    "retry": RETRIABLE_STATES,
    "delete": END_STATES,
}


@dataclass(frozen=True, slots=True)
class BulkItem:
    """The result for one run: `outcome` is cancelled, requested (its worker was asked to stop),
    retried, deleted, or refused for the `reason`."""

    id: Annotated[int, Field("The run.", 42)]
    outcome: Annotated[
        BulkOutcome, Field("Outcome, or expected outcome of a dry run.", "cancelled")
    ]
    reason: Annotated[str | None, Field("Why it was refused.")] = None

    @property
    def is_done(self) -> bool:
        return self.outcome != "refused"


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The results of an action on the given runs; after a dry run, the expected ones."""

    action: Annotated[Action, Field("Requested action.", "cancel")]
    is_dry_run: Annotated[bool, Field("Whether nothing was done.", False)]
    done: Annotated[int, Field("Number of runs processed.", 1)]
    refused: Annotated[int, Field("Number of runs refused.", 0)]
    items: Annotated[list[BulkItem], Field("Each run.")]


def would_be(action: Action, run_id: int, state: str | None) -> BulkItem:
    """Return what the action would do to a run in this state; None means that there is no such
    run."""
    if state is None:
        return BulkItem(run_id, "refused", f"there is no run {run_id}")
    if state not in FITTING[action]:
        is_late = action == "cancel"
        reason = f"has already ended ({state})" if is_late else f"is {state}"
        return BulkItem(run_id, "refused", f"run {run_id} {reason}")
    if action == "cancel":
        return BulkItem(run_id, "requested" if state == "running" else "cancelled")
    return BulkItem(run_id, "retried" if action == "retry" else "deleted")
