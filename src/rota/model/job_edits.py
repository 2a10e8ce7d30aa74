"""What operators changed about a job, and what its code says instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.job import JobInfo


@dataclass(frozen=True, slots=True)
class Edit:
    """A field that somebody has changed: it no longer follows the code. Who and when are None where
    somebody wrote past the triggers."""

    field: str
    code: Any
    stored: Any
    by: str | None
    at: datetime | None

    @property
    def is_drift(self) -> bool:
        """Whether code and database say different things; else it is only held fast."""
        return bool(self.code != self.stored)


def edits_of(job: JobInfo) -> list[Edit]:
    """By name. Whatever plain SQL wrote into the marks must not keep anybody from reading."""
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
