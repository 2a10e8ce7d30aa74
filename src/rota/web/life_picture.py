"""The life of a run as a picture: waiting is hatched, attempts are solid. Pure.

Widths are shares of the whole. A wait that is far longer than the attempts is cut, and marked as
cut; otherwise the attempts would be too narrow to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.attempt import AttemptInfo
from rota.model.run import RunInfo
from rota.web import time_text

MOST_ATTEMPTS = 12
_LEAST = 2.5
_GAP = 0.4
# The percentage of the width that a segment needs to show its words.
_ROOM = 17.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Positions and widths are percentages."""

    x: float
    width: float
    state: str
    is_wait: bool
    is_cut: bool
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class LifePicture:
    segments: list[Segment]
    label: str
    left_out: int


@dataclass(frozen=True, slots=True)
class _Stretch:
    seconds: float
    state: str
    is_wait: bool
    words: str


def picture_of(run: RunInfo, attempts: Sequence[AttemptInfo], now: datetime) -> LifePicture | None:
    """Return None if nothing has taken any time."""
    shown = list(attempts)[-MOST_ATTEMPTS:]
    stretches = _stretches(run, shown, now, is_whole=len(shown) == len(attempts))
    if not stretches or sum(stretch.seconds for stretch in stretches) <= 0:
        return None
    label = ", ".join(stretch.words for stretch in stretches)
    return LifePicture(_laid_out(stretches), label, len(attempts) - len(shown))


def _stretches(
    run: RunInfo, attempts: Sequence[AttemptInfo], now: datetime, *, is_whole: bool
) -> list[_Stretch]:
    found: list[_Stretch] = []
    at = run.created_at if is_whole or not attempts else attempts[0].started_at
    for attempt in attempts:
        waited = (attempt.started_at - at).total_seconds()
        if waited >= 0.01:
            found.append(_wait("waited" if not found else "then waited", waited, bool(found)))
        at = attempt.finished_at or now
        took = max(0.0, (at - attempt.started_at).total_seconds())
        so_far = " so far" if attempt.finished_at is None else ""
        words_ = f"attempt {attempt.attempt}, {time_text.duration(took)}{so_far}"
        found.append(_Stretch(took, attempt.state, False, words_))
    end = run.finished_at or now
    if run.state != "running" and (end - at).total_seconds() >= 0.01:
        so_far = "" if run.finished_at else " so far"
        waited = (end - at).total_seconds()
        wait = _wait("waited", waited, bool(attempts))
        found.append(_Stretch(wait.seconds, wait.state, True, f"{wait.words}{so_far}"))
    return found


def _wait(verb: str, seconds: float, is_later: bool) -> _Stretch:
    state = "scheduled" if is_later else "queued"
    return _Stretch(seconds, state, True, f"{verb} {time_text.duration(seconds)}")


def _laid_out(stretches: Sequence[_Stretch]) -> list[Segment]:
    work = sum(stretch.seconds for stretch in stretches if not stretch.is_wait)
    most = work if work > 0 else max(stretch.seconds for stretch in stretches)
    lengths = [min(one.seconds, most) if one.is_wait else one.seconds for one in stretches]
    room = 100 - len(stretches) * (_LEAST + _GAP)
    whole = sum(lengths) or 1.0
    segments, x = [], 0.0
    for stretch, length in zip(stretches, lengths, strict=True):
        width = _LEAST + room * length / whole
        label = stretch.words if width >= _ROOM else ""
        segments.append(
            Segment(
                round(x, 2),
                round(width, 2),
                stretch.state,
                stretch.is_wait,
                stretch.is_wait and stretch.seconds > most * 1.05,
                label,
                stretch.words,
            )
        )
        x += width + _GAP
    return segments
