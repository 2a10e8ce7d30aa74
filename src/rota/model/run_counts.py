"""The number of runs that match a filter, bounded, so that counting never takes long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rota.model.fields import Field


@dataclass(frozen=True, slots=True)
class RunCount:
    """The number of runs of a job in a state."""

    job: Annotated[str, Field("Job.", "send_welcome")]
    state: Annotated[str, Field("State.", "failed")]
    runs: Annotated[int, Field("Number of runs.", 412)]


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How many runs match a filter. If not `is_exact`, the number is a lower bound, because
    counting is limited; `cursor` continues it."""

    runs: Annotated[int, Field("Number of matching runs.", 412)]
    is_exact: Annotated[
        bool, Field("Whether the count is exact; otherwise it is a lower bound.", True)
    ]
    groups: Annotated[list[RunCount], Field("By job and state.")]
    cursor: Annotated[int | None, Field("Cursor to continue counting.")] = None


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of matching runs in one state. If not `is_exact`, it is a lower bound."""

    state: str
    runs: int
    is_exact: bool

    def beside(self, runs: int, *, are_all: bool) -> StateCount:
        """The count beside a page with so many runs in this state: exact if these are all,
        otherwise at least what is on the page."""
        if are_all:
            return StateCount(self.state, runs, True)
        return self if self.runs >= runs else StateCount(self.state, runs, self.is_exact)
