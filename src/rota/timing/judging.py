"""Decides whether a nominal time of a schedule starts a run: every policy, in turn."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from rota.model.schedule import Schedule
from rota.timing.bursts import BurstPlace
from rota.timing.calendar import Calendar
from rota.timing.zones import zone

Decision = Literal["ran", "caught_up", "skipped", "missed", "superseded"]


class Occurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the ledger, with the names that `write_ticks` reads."""

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


class Due(msgspec.Struct, frozen=True):
    """A schedule as the tick read it, and the other inputs of its policies."""

    schedule: Schedule
    clock: datetime
    unfinished: int = 0
    job_refusal: str | None = None  # why its job starts no runs
    calendar: Calendar | None = None
    unmet: tuple[str, ...] = ()
    made_up: int = 0  # unfinished runs that `catch_up = all` makes up for
    triggered: int = 0  # unfinished runs that were triggered besides its times
    place: BurstPlace | None = None  # its place among many that are due at the same instant
    is_queue_full: bool = False  # and accepts no more runs


class Judge:
    """Decides time by time, and counts the runs that its decisions start."""

    def __init__(self, due: Due, random: Callable[[], float]) -> None:
        self._due = due
        self._schedule = due.schedule
        self._random = random
        self._unfinished = due.unfinished
        # Runs that `all` makes up for wait for one another; only other runs are their overlap.
        self._others = due.unfinished - due.made_up
        self._is_making_up = False
        self._runs = due.schedule.run_count
        self.cancels_running = False

    @property
    def is_used_up(self) -> bool:
        """Return whether the schedule has started its maximum number of runs."""
        most = self._schedule.max_runs
        return most is not None and self._runs >= most

    def judge(self, at: datetime, decision: Decision) -> Occurrence:
        self._is_making_up |= decision == "caught_up" and self._schedule.catch_up == "all"
        open_at = self._open_at(at)
        if open_at is None or (reason := self._reason_against()):
            return self._skipped(at, "calendar" if open_at is None else str(reason))
        is_held = self._is_crowded
        self.cancels_running |= self._is_in_the_way and self._schedule.overlap == "cancel_running"
        self._unfinished += 1
        self._runs += 1
        start_at = self._with_jitter(open_at, decision)
        return Occurrence(at, decision, start_at=start_at, is_held=is_held)

    def judge_late(self, at: datetime) -> Occurrence:
        """Judge a single time: on time within the grace, otherwise according to the catch-up
        policy."""
        schedule, lateness = self._schedule, (self._due.clock - at).total_seconds()
        if lateness < schedule.grace_seconds:
            return self.judge(at, "ran")
        if schedule.catch_up == "none":
            return Occurrence(at, "missed", "policy none")
        if (
            schedule.catch_up_window_seconds is not None
            and lateness >= schedule.catch_up_window_seconds
        ):
            return Occurrence(at, "missed", "window")
        return self.judge(at, "caught_up")

    def _reason_against(self) -> str | None:
        due, schedule = self._due, self._schedule
        if self.is_used_up:
            return "max_runs"
        if due.job_refusal:
            return due.job_refusal
        if due.unmet:
            return "requirement"
        if self._is_crowded and not self._may_wait:
            return "overlap"
        if schedule.is_shadow:
            return "shadow"
        return "queue_full" if due.is_queue_full else None

    def _skipped(self, at: datetime, reason: str) -> Occurrence:
        details = {"unmet": list(self._due.unmet)} if reason == "requirement" else None
        return Occurrence(at, "skipped", reason, details=details)

    def _open_at(self, at: datetime) -> datetime | None:
        """Return when the calendar lets the run start; None: not at all."""
        calendar = self._due.calendar
        if calendar is None or calendar.is_allowed(at):
            return at
        if self._schedule.on_closed == "skip":
            return None
        return calendar.next_allowed_day(at, zone(self._schedule.timezone))

    def _with_jitter(self, start_at: datetime, decision: Decision) -> datetime:
        jitter = self._schedule.jitter_seconds
        if not jitter:
            return start_at
        # Caught-up runs are late anyway: spread them from now, not from a time long past.
        base = max(start_at, self._due.clock) if decision == "caught_up" else start_at
        return base + timedelta(seconds=jitter * self._random())

    @property
    def room(self) -> int:
        """Return how many runs may start before others are skipped for overlap; 0 if overlap does
        not skip, or every run would be skipped."""
        if self._schedule.overlap != "skip" or self._reason_against():
            return 0
        return self._schedule.max_concurrent_runs - self._unfinished

    @property
    def is_always_open(self) -> bool:
        return self._due.calendar is None or self._schedule.on_closed != "skip"

    def is_open(self, at: datetime) -> bool:
        return self._open_at(at) is not None

    @property
    def _is_crowded(self) -> bool:
        schedule = self._schedule
        return schedule.overlap != "allow" and self._unfinished >= schedule.max_concurrent_runs

    @property
    def _is_in_the_way(self) -> bool:
        """Return whether there are unfinished runs other than those that the run only waits for."""
        if not self._is_making_up:
            return self._is_crowded
        return self._others >= self._schedule.max_concurrent_runs

    @property
    def _may_wait(self) -> bool:
        if self._is_making_up and not self._is_in_the_way:
            return True
        match self._schedule.overlap:
            case "queue_all" | "cancel_running":
                return True
            case "queue_one":
                return self._unfinished <= self._schedule.max_concurrent_runs
            case _:
                return False
