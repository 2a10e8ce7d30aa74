"""Rows of the ledger: consecutive equal decisions that start no run are one span."""

from __future__ import annotations

from msgspec.structs import replace

from rota.timing.judging import Occurrence


def add_to_spans(rows: list[Occurrence], occurrence: Occurrence) -> None:
    """Add an occurrence as its own row, or to the last span."""
    if rows and _is_span(rows[-1], occurrence):
        last = rows[-1]
        rows[-1] = replace(
            last,
            through_at=occurrence.through_at or occurrence.nominal_at,
            count=last.count + occurrence.count,
        )
    else:
        rows.append(occurrence)


def _is_span(last: Occurrence, this: Occurrence) -> bool:
    return (
        not last.is_run
        and not this.is_run
        and not last.is_moved
        and not this.is_moved
        and (last.decision, last.reason, last.details) == (this.decision, this.reason, this.details)
    )
