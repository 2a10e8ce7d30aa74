"""The last times of a schedule as a row of cells. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.formatting import plural
from rota.model.states import RETRIABLE_STATES

# The shapes of cells, each with its word.
WORDS = {
    "ok": "succeeded",
    "bad": "failed",
    "run": "under way",
    "late": "caught up",
    "skip": "skipped",
    "flat": "paused or disabled",
    "miss": "missed",
}


@dataclass(frozen=True, slots=True)
class Strip:
    """The most recent times of a schedule. `cells` are keys of WORDS, oldest first."""

    cells: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The strip in words, for screen readers."""
        if not self.cells:
            return "no times yet"
        counts = Counter(self.cells)
        parts = [f"{counts[key]} {word}" for key, word in WORDS.items() if counts[key]]
        return f"last {plural(len(self.cells), 'time')}: {', '.join(parts)}"


def strip_of(rows: Sequence[tuple[str, str | None, str | None]]) -> Strip:
    """Return the strip of decisions, each with its reason and the state of its run."""
    return Strip(tuple(cell_of(*row) for row in rows))


def cell_of(decision: str, reason: str | None, state: str | None) -> str:
    if decision in ("ran", "caught_up"):
        if state in RETRIABLE_STATES:
            return "bad"
        if state != "succeeded":
            return "run"
        return "late" if decision == "caught_up" else "ok"
    if decision == "missed":
        return "miss"
    return "flat" if reason in ("paused", "disabled", "job_disabled") else "skip"
