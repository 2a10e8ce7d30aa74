"""The changes of operators to a job, compared with its code. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.job import JobInfo


@dataclass(frozen=True, slots=True)
class Edit:
    """A field that an operator has changed: it no longer follows the code. `by` and `at` are None
    if SQL changed it without the triggers."""

    field: str
    code: Any
    stored: Any
    by: str | None
    at: datetime | None

    @property
    def is_drift(self) -> bool:
        """Whether code and database differ; otherwise the field is only pinned."""
        return bool(self.code != self.stored)


def edits_of(job: JobInfo) -> list[Edit]:
    """Return the edits by name. Invalid marks that plain SQL wrote are skipped, so that the job
    stays readable."""
    edited, code = _pairs(job.edited), _pairs(job.code)
    return [
        Edit(field, code.get(field), getattr(job, field, None), _text(mark), _instant(mark))
        for field, mark in sorted(edited.items())
        if isinstance(mark, Mapping)
    ]


def _pairs(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(mark: Mapping[str, Any]) -> str | None:
    by = mark.get("by")
    return None if by is None else str(by)


def _instant(mark: Mapping[str, Any]) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(mark.get("at")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
