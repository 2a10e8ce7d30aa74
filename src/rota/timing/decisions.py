"""Decides about each nominal time of a schedule: the whole policy, as pure functions.

A tick reads a schedule with everything that a decision needs, calls `decide`, and writes the result
if the schedule has not changed since it was read. Consecutive equal decisions that start no run are
one span, so that a one-second schedule paused for a week is one row and not 604,800.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from rota.errors import TimingError
from rota.model.schedule import Segment, timing_arguments
from rota.timing.bursts import BurstPlace
from rota.timing.judging import Decision, Due, Judge, Occurrence
from rota.timing.newest import first_of_newest
from rota.timing.nominal import EARLIEST, Nominal
from rota.timing.spans import add_to_spans
from rota.timing.timing import Timing

# Limits of one tick, oldest first; the rest waits for the next tick, which follows at once. Times
# are limited as well as rows: stepping through cron takes a while, and blocks the loop.
MOST_DECISIONS = 1000
MOST_TIMES = 5000

_INSTANT = timedelta(microseconds=1)
# Maximum number of closed times in a row that are skipped to find an open one.
_MOST_CLOSED = 1000


class Tick(msgspec.Struct):
    """The changes to write about one schedule."""

    occurrences: list[Occurrence] = msgspec.field(default_factory=list)
    cursor_at: datetime | None = None
    next_run_at: datetime | None = None
    segments: tuple[Segment, ...] = ()
    is_resumed: bool = False
    is_moved: bool = False
    is_finished: bool = False
    cancels_running: bool = False
    waits_for_end: bool = False


def decide(due: Due, random: Callable[[], float]) -> Tick:
    """Decide about every nominal time since the cursor, up to now, in order."""
    return _Deciding(due, random).run()


class _Deciding:
    def __init__(self, due: Due, random: Callable[[], float]) -> None:
        self._schedule = due.schedule
        self._clock = due.clock
        self._unfinished = due.unfinished
        self._triggered = due.triggered
        self._place = due.place
        self._judge = Judge(due, random)
        self._tick = Tick()
        self._cursor = due.schedule.cursor_at
        self._seen = 0
        # The first time after the end of a walk; the next time, if there is no later walk.
        self._ahead: Nominal | None = None

    def run(self) -> Tick:
        self._decide_stretches()
        if self._tick.segments:
            self._tick.next_run_at = self._clock
        elif self._schedule.every_from == "end":
            self._decide_counted_from_end()
        else:
            self._decide_by_timing(Timing.kept(self._schedule))
        if self._place is not None:
            self._spread(self._place)
        self._tick.cursor_at = self._cursor
        self._tick.cancels_running = self._judge.cancels_running
        return self._tick

    def _decide_by_timing(self, timing: Timing) -> None:
        self._ahead = None  # it may belong to another timing, before an edit
        moved_to = self._moved_to
        if moved_to is not None and moved_to > self._clock:
            self._tick.next_run_at = moved_to
            return
        if moved_to is not None and not self._decide_moved(timing, moved_to):
            self._tick.next_run_at = self._clock
            return
        self._decide_regular(timing)
        self._plan(self._next(timing))

    @property
    def _moved_to(self) -> datetime | None:
        """The instant that an operator set, unless it lies in a stretch that is over."""
        return None if self._tick.is_moved else self._schedule.moved_to

    # Stretches of the past that are already decided: before an edit, disabled, paused.

    def _decide_stretches(self) -> None:
        """Decide stretches; the rest is left for the next tick."""
        stretches = [*self._schedule.segments, *self._pause()]
        while stretches and not self._is_full:
            self._decide_stretch(stretches[0])
            if self._cursor >= min(stretches[0].until, self._clock):
                stretches.pop(0)
        self._tick.segments = tuple(stretches)

    def _pause(self) -> list[Segment]:
        """Return the stretch of a pause that has ended by itself."""
        schedule, until = self._schedule, self._schedule.paused_until
        if until is None or until > self._clock:
            return []
        self._tick.is_resumed = True
        return [Segment(schedule.stored_timing, until, "skipped", "paused")]

    def _decide_stretch(self, stretch: Segment) -> None:
        until = min(stretch.until, self._clock)
        timing = _readable(stretch)
        moved_to = self._moved_to
        if moved_to is not None and self._cursor < moved_to <= until:
            # It was due while the schedule was paused or disabled.
            self._pass_stretch(timing, moved_to - _INSTANT, stretch)
            if self._is_full:
                return
            self._add(Occurrence(moved_to, stretch.decision, stretch.reason, is_moved=True))
            self._cursor = moved_to
            self._tick.is_moved = True
        self._pass_stretch(timing, until, stretch)

    def _pass_stretch(self, timing: Timing | None, until: datetime, stretch: Segment) -> None:
        if timing is None:
            self._cursor = max(self._cursor, until)
        else:
            self._add_span(timing, until, stretch.decision, stretch.reason)

    # A time that an operator moved.

    def _decide_moved(self, timing: Timing, moved_to: datetime) -> bool:
        """Decide a moved time; return False if the tick was full before."""
        self._add_span(timing, moved_to - _INSTANT, "superseded", "rescheduled")
        if self._is_full:
            return False
        self._tick.is_moved = True
        self._add(replace(self._judge.judge_late(moved_to), is_moved=True))
        self._cursor = max(self._cursor, moved_to)
        if timing.run_at is not None:
            # This was its only time.
            self._add_span(timing, timing.run_at, "superseded", "rescheduled")
        return True

    # Intervals that count from the end of the last run.

    def _decide_counted_from_end(self) -> None:
        schedule, clock = self._schedule, self._clock
        step = timedelta(seconds=schedule.interval_seconds or 1)
        at = self._moved_to or (None if self._tick.is_moved else schedule.next_run_at)
        if at is None and self._unfinished > self._triggered:
            self._tick.waits_for_end = True
            return
        at = at or max(schedule.anchor_at, self._cursor) + step
        if at <= clock:
            is_moved = self._moved_to is not None
            occurrence = replace(self._judge.judge_late(at), is_moved=is_moved)
            self._add(occurrence)
            self._cursor = max(self._cursor, at)
            self._tick.is_moved |= is_moved
            # The end of its run determines when the next one is due.
            self._tick.waits_for_end = occurrence.is_run
            at = clock + step
        self._plan(at)

    # The regular times.

    def _decide_regular(self, timing: Timing) -> None:
        """Decide regular times. Those older than the grace were missed: there was no tick when they
        were due."""
        until = self._clock - timedelta(seconds=self._schedule.grace_seconds)
        if self._cursor < until:  # rare: usually a worker ticked in time
            self._decide_missed(timing, until)
        if self._is_full:
            return
        if self._schedule.catch_up == "latest" and self._judge.room:
            self._decide_newest(timing, self._judge.room)
        else:
            self._decide_each(timing, self._clock, "ran")

    def _decide_newest(self, timing: Timing, count: int) -> None:
        """Run the latest of several times that are due at once, not the oldest; overlap would skip
        all but `count`."""
        due = list(self._walk(timing, self._clock))
        may_run = [time.at for time in due if not time.is_skipped and self._judge.is_open(time.at)]
        if self._cursor < self._clock:
            first = self._clock  # there are more, which the next tick decides at once
        else:
            first = may_run[-count] if len(may_run) > count else EARLIEST
        for nominal in due:
            if nominal.at < first and not nominal.is_skipped:
                self._add(Occurrence(nominal.at, "skipped", "coalesced"))
            else:
                self._decide_one(nominal, "ran")

    def _decide_missed(self, timing: Timing, until: datetime) -> None:
        schedule = self._schedule
        if schedule.catch_up == "none":
            self._add_span(timing, until, "missed", "policy none")
            return
        if schedule.catch_up_window_seconds is not None:
            window = self._clock - timedelta(seconds=schedule.catch_up_window_seconds)
            self._add_span(timing, min(window, until), "missed", "window")
        if self._is_full:
            return
        if schedule.catch_up == "latest":
            self._coalesce(timing, until)
        else:
            self._write_off(timing, until)
        if not self._is_full:
            self._decide_each(timing, until, "caught_up")

    def _coalesce(self, timing: Timing, until: datetime) -> None:
        """If times were missed, run only the latest of all due times, late or not."""
        if timing.latest_between(self._cursor, until) is None:
            return
        first = self._last_open(timing)
        if first is not None:
            self._add_span(timing, first - _INSTANT, "skipped", "coalesced")

    def _last_open(self, timing: Timing) -> datetime | None:
        """Return the latest due time that the calendar allows, or else the latest."""
        until = self._clock
        for _ in range(1 if self._judge.is_always_open else _MOST_CLOSED):
            found = timing.latest_between(self._cursor, until)
            if found is None:
                break
            if self._judge.is_open(found.at):
                return found.at
            until = found.at - _INSTANT
        latest = timing.latest_between(self._cursor, self._clock)
        return None if latest is None else latest.at

    def _write_off(self, timing: Timing, until: datetime) -> None:
        """Run the newest missed times, up to the cap; the earlier ones stay missed."""
        first = first_of_newest(timing, self._cursor, until, self._schedule.catch_up_limit)
        if first is not None:
            self._add_span(timing, first - _INSTANT, "missed", "cap")

    # Walking through times.

    @property
    def _is_full(self) -> bool:
        return len(self._tick.occurrences) >= MOST_DECISIONS or self._seen >= MOST_TIMES

    def _walk(self, timing: Timing, until: datetime) -> Iterator[Nominal]:
        """Yield time by time and advance the cursor, up to `until` unless the tick is full
        before."""
        for nominal in timing.times(self._cursor):
            if nominal.at > until:
                self._ahead = nominal
                break
            if self._is_full:
                return
            self._seen += 1
            yield nominal
            self._cursor = nominal.at
        self._cursor = max(self._cursor, until)

    def _decide_each(self, timing: Timing, until: datetime, decision: Decision) -> None:
        for nominal in self._walk(timing, until):
            self._decide_one(nominal, decision)

    def _decide_one(self, nominal: Nominal, decision: Decision) -> None:
        if nominal.is_skipped:
            self._add(Occurrence(nominal.at, "skipped", "dst_gap"))
        else:
            self._add(self._judge.judge(nominal.at, decision))

    def _add_span(self, timing: Timing, until: datetime, decision: Decision, reason: str) -> None:
        """Make one decision for all times up to `until`; for intervals by arithmetic, at a constant
        cost."""
        if timing.interval is None:
            for nominal in self._walk(timing, until):
                gap: tuple[Decision, str] = ("skipped", "dst_gap")
                self._add(
                    Occurrence(nominal.at, *(gap if nominal.is_skipped else (decision, reason)))
                )
            return
        last = timing.latest_between(self._cursor, until)
        if last is not None:
            count = timing.count_between(self._cursor, until)
            first = last.at - (count - 1) * timing.interval
            through = None if count == 1 else last.at
            self._add(Occurrence(first, decision, reason, through, count))
        self._cursor = max(self._cursor, until)

    def _add(self, occurrence: Occurrence) -> None:
        add_to_spans(self._tick.occurrences, occurrence)

    # Many schedules at one instant.

    def _spread(self, place: BurstPlace) -> None:
        """Delay the starts. Caught-up runs are late anyway, and are delayed from now."""
        rows = self._tick.occurrences
        for number, row in enumerate(rows):
            if not row.is_run or row.start_at is None:
                continue
            later = place.shift(self._until_next(row.nominal_at))
            if later:
                is_late = row.decision == "caught_up"
                base = max(row.start_at, self._clock) if is_late else row.start_at
                rows[number] = replace(row, start_at=base + later, details=place.to_json())

    def _until_next(self, at: datetime) -> timedelta | None:
        """Return how long a run may take before the next time; None if there is none."""
        if self._schedule.every_from == "end":
            return timedelta(seconds=self._schedule.interval_seconds or 0)
        next_at = self._tick.next_run_at
        return None if next_at is None else next_at - at

    # The next time.

    def _next(self, timing: Timing) -> datetime | None:
        ahead = self._ahead
        if ahead is not None and ahead.at > self._cursor and not ahead.is_skipped:
            return ahead.at
        return timing.after(self._cursor)

    def _plan(self, at: datetime | None) -> None:
        end_at = self._schedule.end_at
        is_past_end = end_at is not None and at is not None and at > end_at
        is_over = at is None or is_past_end or self._judge.is_used_up
        self._tick.is_finished = is_over and not self._is_full
        self._tick.next_run_at = None if self._tick.is_finished else at


def _readable(stretch: Segment) -> Timing | None:
    """Return the timing of a stretch; None if it had no times. Such a timing was never in force: it
    was written by SQL and corrected, or its times depended on the ends of runs."""
    if stretch.timing.get("every_from") == "end":
        return None
    try:
        return Timing.of(**timing_arguments(stretch.timing))
    except TimingError:
        return None
