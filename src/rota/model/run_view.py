"""A saved view: a named filter of the list of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class RunView:
    """A saved view of the list of runs. `query` is the filter as in its page URL:
    `state=failed&since=24h`."""

    name: str
    query: str
    created_by: str
    created_at: datetime
