"""What becomes of each nominal time of a schedule: the whole policy, pure.

A tick reads a schedule with everything that a decision needs, calls `decide`, and writes what it
says, if the schedule is still as it was read. Equal decisions in a row that start no run are one
span, so that a one-second schedule paused for a week is one row and not 604,800.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from rota.model.schedule import Schedule, Segment, timing_arguments
from rota.timing.calendar import Calendar
from rota.timing.timing import Timing
from rota.timing.zones import zone

Decision = Literal["ran", "caught_up", "skipped", "missed", "superseded"]

# Oldest first; what is over this waits for the next tick, which comes at once.
MOST_DECISIONS = 1000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One row of the ledger."""

    nominal_at: datetime
    decision: Decision
    reason: str | None = None
    through_at: datetime | None = None
    count: int = 1
    is_moved: bool = False
    start_at: datetime | None = None
    is_held: bool = False
    details: dict[str, Any] | None = None

    @property
    def is_run(self) -> bool:
        return self.decision in ("ran", "caught_up")


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule as the tick read it, and what else its policies ask."""

    schedule: Schedule
    clock: datetime
    unfinished: int = 0
    is_job_enabled: bool = True
    calendar: Calendar | None = None
    unmet: tuple[str, ...] = ()


@dataclass(slots=True)
class Tick:
    """What to write about one schedule."""

    occurrences: list[Occurrence] = field(default_factory=list)
    cursor_at: datetime | None = None
    next_run_at: datetime | None = None
    is_resumed: bool = False
    is_moved: bool = False
    is_finished: bool = False
    cancels_running: bool = False
    waits_for_end: bool = False


def decide(due: Due, random: Callable[[], float]) -> Tick:
    """Every nominal time since the cursor, up to now, in order."""
    return _Deciding(due, random).run()


class _Deciding:
    def __init__(self, due: Due, random: Callable[[], float]) -> None:
        self._due = due
        self._schedule = due.schedule
        self._random = random
        self._tick = Tick()
        self._cursor = due.schedule.cursor_at
        self._unfinished = due.unfinished
        self._runs = due.schedule.run_count

    def run(self) -> Tick:
        schedule, clock = self._schedule, self._due.clock
        for segment in schedule.segments:
            self._decide_segment(segment)
        if schedule.paused_until is not None and schedule.paused_until <= clock:
            until, timing = schedule.paused_until, Timing.of(**schedule.timing)
            if until > self._cursor:
                self._add_span(timing, self._cursor, until, "skipped", "paused")
                self._cursor = until
            self._tick.is_resumed = True
        if schedule.every_from == "end":
            self._decide_counted_from_end()
        elif schedule.moved_to is not None:
            self._decide_moved(schedule.moved_to)
        else:
            self._decide_regular(clock)
            self._plan_next(schedule.timing)
        self._tick.cursor_at = self._cursor
        return self._tick

    # Stretches of the past.

    def _decide_segment(self, segment: Segment) -> None:
        """All of a stretch has one decision: one span, however long."""
        until = min(segment.until, self._due.clock)
        if until > self._cursor:
            timing = Timing.of(**timing_arguments(segment.timing))
            self._add_span(timing, self._cursor, until, segment.decision, segment.reason)
            self._cursor = until

    def _add_span(
        self, timing: Timing, after: datetime, until: datetime, decision: Decision, reason: str
    ) -> None:
        first = timing.between(after, until, 1)
        last = timing.latest_between(after, until)
        if not first or last is None:
            return
        count = timing.count_between(after, until)
        span = Occurrence(first[0].at, decision, reason, last.at, count)
        self._add(replace(span, through_at=None) if count == 1 else span)

    # A time that an operator moved.

    def _decide_moved(self, moved_to: datetime) -> None:
        clock = self._due.clock
        timing = Timing.of(**self._schedule.timing)
        if moved_to > clock:
            self._tick.next_run_at = moved_to
            return
        before = moved_to - timedelta(microseconds=1)
        self._add_span(timing, self._cursor, before, "superseded", "rescheduled")
        self._add(replace(self._judge(moved_to, "ran"), is_moved=True))
        self._cursor = max(self._cursor, moved_to)
        self._tick.is_moved = True
        self._decide_regular(clock)
        self._plan_next(self._schedule.timing)

    # Intervals that count from the end of the last run.

    def _decide_counted_from_end(self) -> None:
        schedule, clock = self._schedule, self._due.clock
        step = timedelta(seconds=schedule.interval_seconds or 1)
        at = schedule.next_run_at or max(schedule.anchor_at, self._cursor) + step
        if at <= clock:
            occurrence = self._judge(at, "ran")
            self._add(occurrence)
            self._cursor = max(self._cursor, at)
            # The end of its run will say when the next one is due.
            self._tick.waits_for_end = occurrence.is_run
            at = clock + step
        self._tick.next_run_at = at
        self._finish_if_over(at)

    # The regular times.

    def _decide_regular(self, clock: datetime) -> None:
        schedule = self._schedule
        timing = Timing.of(**schedule.timing)
        on_time_from = clock - timedelta(seconds=schedule.grace_seconds)
        self._decide_missed(timing, min(on_time_from, clock), clock)
        for nominal in timing.between(self._cursor, clock, self._room + 1, include_skipped=True):
            if self._room == 0:
                return
            if nominal.is_skipped:
                self._add(Occurrence(nominal.at, "skipped", "dst_gap"))
            else:
                self._add(self._judge(nominal.at, "ran"))
            self._cursor = nominal.at
        self._cursor = max(self._cursor, clock)

    def _decide_missed(self, timing: Timing, until: datetime, clock: datetime) -> None:
        """Times older than the grace: nobody ticked when they were due."""
        if until <= self._cursor or not timing.between(self._cursor, until, 1):
            return
        schedule = self._schedule
        if schedule.catch_up == "none":
            self._add_span(timing, self._cursor, until, "missed", "policy none")
            self._cursor = until
            return
        window = clock - timedelta(seconds=schedule.catch_up_seconds)
        if window > self._cursor:
            stop = min(window, until)
            self._add_span(timing, self._cursor, stop, "missed", "window")
            self._cursor = stop
        if schedule.catch_up == "latest":
            self._coalesce(timing, until, clock)
        else:
            self._catch_up_all(timing, until)

    def _coalesce(self, timing: Timing, until: datetime, clock: datetime) -> None:
        """Only the latest of all that is due runs; where that one is on time, no missed one."""
        last = timing.latest_between(self._cursor, until)
        if last is None:
            return
        if timing.between(until, clock, 1):
            self._add_span(timing, self._cursor, until, "skipped", "coalesced")
        else:
            before = last.at - timedelta(microseconds=1)
            self._add_span(timing, self._cursor, before, "skipped", "coalesced")
            self._add(self._judge(last.at, "caught_up"))
        self._cursor = until

    def _catch_up_all(self, timing: Timing, until: datetime) -> None:
        """The newest ones up to the cap; those before them are written off."""
        excess = timing.count_between(self._cursor, until) - self._schedule.catch_up_limit
        if excess > 0:
            dropped = timing.between(self._cursor, until, excess)
            self._add_span(timing, self._cursor, dropped[-1].at, "missed", "cap")
            self._cursor = dropped[-1].at
        for nominal in timing.between(self._cursor, until, self._room):
            self._add(self._judge(nominal.at, "caught_up"))
            self._cursor = nominal.at

    # One time.

    def _judge(self, at: datetime, decision: Decision) -> Occurrence:
        """Whether this time starts a run, by every policy in turn."""
        schedule, due = self._schedule, self._due
        start_at = at
        if schedule.max_runs is not None and self._runs >= schedule.max_runs:
            return Occurrence(at, "skipped", "max_runs")
        if not due.is_job_enabled:
            return Occurrence(at, "skipped", "job_disabled")
        if due.calendar is not None and not due.calendar.is_allowed(at):
            if schedule.on_closed == "skip":
                return Occurrence(at, "skipped", "calendar")
            open_at = due.calendar.next_allowed_day(at, zone(schedule.timezone))
            if open_at is None:
                return Occurrence(at, "skipped", "calendar")
            start_at = open_at
        if due.unmet:
            return Occurrence(at, "skipped", "requirement", details={"unmet": list(due.unmet)})
        is_held = self._unfinished >= schedule.max_concurrent_runs and schedule.overlap != "allow"
        if is_held and not self._may_wait():
            return Occurrence(at, "skipped", "overlap")
        if schedule.is_shadow:
            return Occurrence(at, "skipped", "shadow")
        if is_held and schedule.overlap == "cancel_running":
            self._tick.cancels_running = True
        self._unfinished += 1
        self._runs += 1
        if schedule.jitter_seconds:
            start_at = max(start_at, due.clock if decision == "caught_up" else start_at)
            start_at += timedelta(seconds=schedule.jitter_seconds * self._random())
        return Occurrence(at, decision, start_at=start_at, is_held=is_held)

    def _may_wait(self) -> bool:
        match self._schedule.overlap:
            case "queue_all" | "cancel_running":
                return True
            case "queue_one":
                return self._unfinished <= self._schedule.max_concurrent_runs
            case _:
                return False

    # What is written.

    @property
    def _room(self) -> int:
        return MOST_DECISIONS - len(self._tick.occurrences)

    def _add(self, occurrence: Occurrence) -> None:
        rows = self._tick.occurrences
        if rows and _is_span(rows[-1], occurrence):
            last = rows[-1]
            rows[-1] = replace(
                last,
                through_at=occurrence.through_at or occurrence.nominal_at,
                count=last.count + occurrence.count,
            )
        else:
            rows.append(occurrence)

    def _plan_next(self, timing_data: dict[str, Any]) -> None:
        timing = Timing.of(**timing_data)
        after = timing.after(self._cursor)
        self._tick.next_run_at = after
        self._finish_if_over(after)

    def _finish_if_over(self, at: datetime | None) -> None:
        schedule = self._schedule
        used_up = schedule.max_runs is not None and self._runs >= schedule.max_runs
        past_end = schedule.end_at is not None and at is not None and at > schedule.end_at
        self._tick.is_finished = at is None or used_up or past_end
        if self._tick.is_finished:
            self._tick.next_run_at = None


def _is_span(last: Occurrence, this: Occurrence) -> bool:
    return (
        not last.is_run
        and not this.is_run
        and not last.is_moved
        and not this.is_moved
        and (last.decision, last.reason, last.details) == (this.decision, this.reason, this.details)
    )
