"""`decide` by table: no database, no clock, no chance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.model.schedule import Schedule, Segment
from rota.timing.calendar import Calendar
from rota.timing.decisions import MOST_DECISIONS, MOST_TIMES, Tick, decide
from rota.timing.judging import Due, Occurrence

T0 = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)  # a Monday
Words = list[tuple[str, str | None, int]]
WEEKDAYS = Calendar("office", weekends=True)


def at(seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> datetime:
    return T0 + timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)


def schedule(**fields: Any) -> Schedule:
    """Every minute from T0 on, nothing decided after T0, unless said otherwise."""
    if not {"cron", "run_at", "interval_seconds"} & fields.keys():
        fields["interval_seconds"] = 60.0
    base = {"id": 1, "tenant": "", "name": "s", "job": "j", "tick_version": 1, "anchor_at": T0}
    return Schedule(**(base | {"cursor_at": T0} | fields))


def tick(
    clock: datetime, *, random: float = 0.5, due: dict[str, Any] | None = None, **fields: Any
) -> Tick:
    found = decide(Due(schedule(**fields), clock, **(due or {})), lambda: random)
    check(found)
    return found


def check(found: Tick) -> None:
    """True of every tick: spans are in order, apart from each other, and count themselves."""
    last = None
    for row in found.occurrences:
        through = row.through_at or row.nominal_at
        assert (row.count == 1) == (through == row.nominal_at)
        assert last is None or row.nominal_at > last
        assert row.is_run == (row.start_at is not None)
        assert row.is_run or row.reason
        last = through
    assert found.cursor_at is not None
    assert last is None or last <= found.cursor_at


def words(found: Tick) -> Words:
    return [(row.decision, row.reason, row.count) for row in found.occurrences]


# On time.


def test_nothing_is_due_before_the_first_time() -> None:
    found = tick(at(59))
    assert found.occurrences == []
    assert found.next_run_at == at(60)
    assert not found.is_finished


def test_a_time_that_has_come_runs_at_its_time() -> None:
    found = tick(at(61))
    assert found.occurrences == [Occurrence(at(60), "ran", start_at=at(60))]
    assert (found.cursor_at, found.next_run_at) == (at(61), at(120))


def test_a_time_on_the_dot_runs() -> None:
    assert words(tick(at(60))) == [("ran", None, 1)]


def test_a_clock_behind_the_cursor_decides_nothing() -> None:
    found = tick(at(-3600), cursor_at=at(90))
    assert found.occurrences == []
    assert (found.cursor_at, found.next_run_at) == (at(90), at(120))


# Catch-up: five minutes and a bit without a tick. Grace 60: the last one is on time.

MISSED = [
    ({"catch_up": "none"}, [("missed", "policy none", 4), ("ran", None, 1)]),
    ({"catch_up": "latest"}, [("skipped", "coalesced", 4), ("ran", None, 1)]),
    ({"catch_up": "all", "overlap": "allow"}, [("caught_up", None, 1)] * 4 + [("ran", None, 1)]),
    (
        {"catch_up": "latest", "grace_seconds": 0.0},
        [("skipped", "coalesced", 4), ("caught_up", None, 1)],
    ),
    ({"catch_up": "none", "grace_seconds": 0.0}, [("missed", "policy none", 5)]),
    ({"catch_up": "none", "grace_seconds": 600.0, "overlap": "allow"}, [("ran", None, 1)] * 5),
    (
        {"catch_up": "all", "overlap": "allow", "catch_up_limit": 2},
        [("missed", "cap", 2), ("caught_up", None, 1), ("caught_up", None, 1), ("ran", None, 1)],
    ),
    (
        {"catch_up": "all", "overlap": "allow", "catch_up_window_seconds": 150.0},
        [("missed", "window", 2), ("caught_up", None, 1), ("caught_up", None, 1), ("ran", None, 1)],
    ),
    (
        {
            "catch_up": "all",
            "overlap": "allow",
            "catch_up_window_seconds": 220.0,
            "catch_up_limit": 1,
        },
        [("missed", "window", 1), ("missed", "cap", 2), ("caught_up", None, 1), ("ran", None, 1)],
    ),
    (
        {"catch_up": "latest", "catch_up_window_seconds": 150.0},
        [("missed", "window", 2), ("skipped", "coalesced", 2), ("ran", None, 1)],
    ),
    (
        {"catch_up": "latest", "catch_up_window_seconds": 0.0},
        [("missed", "window", 4), ("ran", None, 1)],
    ),
    ({"catch_up": "all"}, [("caught_up", None, 1)] * 4 + [("ran", None, 1)]),
    (
        {"catch_up": "all", "overlap": "queue_one"},
        [("caught_up", None, 1)] * 4 + [("ran", None, 1)],
    ),
]


@pytest.mark.parametrize("timing", [{"interval_seconds": 60.0}, {"cron": "* * * * *"}])
@pytest.mark.parametrize(("policy", "expected"), MISSED)
def test_catch_up(timing: dict[str, Any], policy: dict[str, Any], expected: Words) -> None:
    found = tick(at(310), **timing, **policy)
    assert words(found) == expected
    assert (found.cursor_at, found.next_run_at) == (at(310), at(360))


@pytest.mark.parametrize(
    ("policy", "rows", "late", "on_time"),
    [
        ({"catch_up": "none"}, [("missed", "policy none", 259_140)], 0, 60),
        ({"catch_up": "latest"}, [("skipped", "coalesced", 259_199)], 0, 1),
        ({"catch_up": "latest", "catch_up_window_seconds": 86_400.0},
         [("missed", "window", 172_800), ("skipped", "coalesced", 86_399)], 0, 1),
        ({"catch_up": "all"}, [("missed", "cap", 259_040)], 100, 60),
    ],
)  # fmt: skip
def test_three_days_without_a_tick_of_a_one_second_schedule(
    policy: dict[str, Any], rows: Words, late: int, on_time: int
) -> None:
    """259,200 times: a few rows, whatever the policy; the last minute is on time."""
    found = tick(at(days=3), interval_seconds=1.0, overlap="allow", **policy)
    assert words(found)[: len(rows)] == rows
    runs = [("caught_up", None, 1)] * late + [("ran", None, 1)] * on_time
    assert words(found)[len(rows) :] == runs
    assert sum(row.count for row in found.occurrences) == 259_200


def test_cron_by_the_second_is_decided_in_pieces() -> None:
    """Stepping through cron is slow: a tick does a part, and the next goes on at once."""
    fields: dict[str, Any] = {"cron": "* * * * * *", "has_seconds": True, "catch_up": "none"}
    found = tick(at(hours=3), **fields)
    assert words(found) == [("missed", "policy none", MOST_TIMES)]
    assert found.next_run_at == at(MOST_TIMES + 1)
    counts = []
    while found.next_run_at is not None and found.next_run_at <= at(hours=3):
        counts.append(sum(row.count for row in found.occurrences))
        found = tick(at(hours=3), cursor_at=found.cursor_at, **fields)
    counts.append(sum(row.count for row in found.occurrences))
    assert sum(counts) == 3 * 3600


# The cap of a tick.


def all_ticks(clock: datetime, **fields: Any) -> list[Occurrence]:
    rows: list[Occurrence] = []
    cursor = T0
    while True:
        found = tick(clock, **fields, cursor_at=cursor)
        assert len(found.occurrences) <= MOST_DECISIONS
        rows += found.occurrences
        assert found.cursor_at is not None
        cursor = found.cursor_at
        if found.next_run_at is None or found.next_run_at > clock:
            return rows


def test_a_long_backlog_takes_several_ticks_oldest_first() -> None:
    fields: dict[str, Any] = {
        "catch_up": "all", "catch_up_limit": 10_000, "catch_up_window_seconds": 1e6,
        "overlap": "allow",
    }  # fmt: skip
    first = tick(at(minutes=2500), **fields)
    assert len(first.occurrences) == MOST_DECISIONS
    assert (first.cursor_at, first.next_run_at) == (at(minutes=1000), at(minutes=1001))
    rows = all_ticks(at(minutes=2500), **fields)
    assert [row.nominal_at for row in rows] == [at(minutes=i) for i in range(1, 2501)]
    assert [row.decision for row in rows] == ["caught_up"] * 2499 + ["ran"]


def test_what_merges_into_one_row_is_no_excuse_to_lose_the_rest() -> None:
    """3,600 times within the grace, all but one skipped: two rows, and every time in them."""
    found = tick(at(3600), interval_seconds=1.0, grace_seconds=7200.0, catch_up="none")
    assert words(found) == [("ran", None, 1), ("skipped", "overlap", 3599)]


def test_missed_times_stay_missed_beyond_the_cap() -> None:
    """Skipped ones merge, so that more fit into a tick than it has rows: none turns on time."""
    rows = all_ticks(at(minutes=3000), catch_up="all", catch_up_limit=5000, is_shadow=True)
    assert {(row.decision, row.reason) for row in rows} == {("skipped", "shadow")}
    assert sum(row.count for row in rows) == 3000


# Nothing that matters is lost by catching up.


@pytest.mark.parametrize(
    ("cron", "days", "late"), [("0 9 * * 1", 9, 2), ("0 0 1 * *", 33, 3), ("0 0 1 1 *", 300, 86)]
)
def test_the_latest_is_made_up_for_however_long_ago_it_was(cron: str, days: int, late: int) -> None:
    (row,) = tick(at(days=days), cron=cron).occurrences
    assert (row.decision, (at(days=days) - row.nominal_at).days) == ("caught_up", late)


def test_of_several_short_intervals_the_latest_runs() -> None:
    """Whether some of them are older than the grace or not."""
    for seconds in (45, 300):
        found = tick(at(seconds), interval_seconds=5.0)
        assert words(found) == [("skipped", "coalesced", seconds // 5 - 1), ("ran", None, 1)]
        assert found.occurrences[-1].nominal_at == at(seconds)


def test_more_times_on_time_than_a_tick_steps_through_still_run_the_latest() -> None:
    rows = all_ticks(at(7200), interval_seconds=1.0, grace_seconds=9000.0)
    assert [(row.decision, row.count) for row in rows] == [
        ("skipped", MOST_TIMES), ("skipped", 7199 - MOST_TIMES), ("ran", 1),
    ]  # fmt: skip


def test_a_run_that_still_runs_leaves_no_room_for_the_latest() -> None:
    found = tick(at(45), interval_seconds=5.0, due={"unfinished": 1})
    assert words(found) == [("skipped", "overlap", 9)]


def test_the_latest_is_one_that_the_calendar_allows() -> None:
    """A Monday's tick: Saturday and Sunday were closed, Friday is made up for."""
    found = tick(
        at(days=6, hours=20), cron="0 9 * * *", cursor_at=at(days=3), calendar="office",
        due={"calendar": WEEKDAYS},
    )  # fmt: skip
    assert words(found) == [("caught_up", None, 1), ("skipped", "calendar", 2)]
    assert found.occurrences[0].nominal_at == at(days=4, hours=-3)


def test_all_that_is_made_up_for_waits_for_one_another() -> None:
    found = tick(at(310), catch_up="all")
    assert [row.is_held for row in found.occurrences] == [False, True, True, True, True]


def test_what_a_tick_before_made_up_for_is_not_in_the_way() -> None:
    found = tick(at(310), catch_up="all", due={"unfinished": 7, "made_up": 7})
    assert [(row.decision, row.is_held) for row in found.occurrences] == [
        *[("caught_up", True)] * 4, ("ran", True),
    ]  # fmt: skip


def test_a_run_on_time_that_still_runs_is_in_the_way_of_all() -> None:
    found = tick(at(310), catch_up="all", due={"unfinished": 1})
    assert words(found) == [("skipped", "overlap", 5)]


@pytest.mark.parametrize(("unfinished", "cancels"), [(0, False), (1, True)])
def test_what_is_made_up_for_does_not_cancel_one_another(unfinished: int, cancels: bool) -> None:
    due = {"unfinished": unfinished}
    found = tick(at(310), catch_up="all", overlap="cancel_running", due=due)
    assert [row.decision for row in found.occurrences] == ["caught_up"] * 4 + ["ran"]
    assert found.cancels_running == cancels


# Overlap.


@pytest.mark.parametrize(
    ("overlap", "unfinished", "expected"),
    [
        ("skip", 0, ("ran", None, False)),
        ("skip", 1, ("skipped", "overlap", False)),
        ("queue_one", 0, ("ran", None, False)),
        ("queue_one", 1, ("ran", None, True)),
        ("queue_one", 2, ("skipped", "overlap", False)),
        ("queue_all", 1, ("ran", None, True)),
        ("queue_all", 7, ("ran", None, True)),
        ("cancel_running", 0, ("ran", None, False)),
        ("cancel_running", 1, ("ran", None, True)),
        ("allow", 7, ("ran", None, False)),
    ],
)
def test_overlap(overlap: str, unfinished: int, expected: tuple[str, str | None, bool]) -> None:
    found = tick(at(60), overlap=overlap, due={"unfinished": unfinished})
    (row,) = found.occurrences
    assert (row.decision, row.reason, row.is_held) == expected
    assert found.cancels_running == (overlap == "cancel_running" and unfinished > 0)


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", [("skipped", False), ("ran", False), ("ran", False)]),
        ("queue_one", [("ran", False), ("ran", False), ("ran", True), ("skipped", False)]),
        ("queue_all", [("ran", False)] * 2 + [("ran", True)] * 3),
        ("allow", [("ran", False)] * 5),
    ],
)
def test_runs_of_the_same_tick_count_as_unfinished(
    overlap: str, expected: list[tuple[str, bool]]
) -> None:
    found = tick(at(300), overlap=overlap, max_concurrent_runs=2, grace_seconds=1000.0)
    assert [(row.decision, row.is_held) for row in found.occurrences] == expected


# Calendars.


def test_a_closed_day_is_skipped() -> None:
    found = tick(
        at(days=5, minutes=1), interval_seconds=86_400.0, cursor_at=at(days=4), calendar="office",
        due={"calendar": WEEKDAYS},
    )  # fmt: skip
    assert words(found) == [("skipped", "calendar", 1)]


def test_a_closed_day_moves_to_the_next_open_one() -> None:
    found = tick(
        at(days=5, seconds=1), cron="0 12 * * *", cursor_at=at(days=4), timezone="UTC",
        calendar="office", on_closed="next_day", due={"calendar": WEEKDAYS},
    )  # fmt: skip
    assert found.occurrences == [Occurrence(at(days=5), "ran", start_at=at(days=7))]


def test_a_calendar_without_an_open_day_skips() -> None:
    closed = Calendar("never", weekends=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"])
    found = tick(at(60), on_closed="next_day", calendar="never", due={"calendar": closed})
    assert words(found) == [("skipped", "calendar", 1)]


# The other reasons, and which comes first.


@pytest.mark.parametrize(
    ("fields", "due", "reason"),
    [
        ({}, {"job_refusal": "job_disabled"}, "job_disabled"),
        ({}, {"unmet": ("a", "b")}, "requirement"),
        ({"is_shadow": True}, {}, "shadow"),
        ({"is_shadow": True}, {"unfinished": 1}, "overlap"),
        ({"max_runs": 3, "run_count": 3}, {"job_refusal": "job_disabled"}, "max_runs"),
        ({}, {"job_refusal": "job_disabled", "unmet": ("a",)}, "job_disabled"),
    ],
)
def test_reasons(fields: dict[str, Any], due: dict[str, Any], reason: str) -> None:
    assert words(tick(at(60), due=due, **fields)) == [("skipped", reason, 1)]


def test_an_unmet_requirement_is_named() -> None:
    (row,) = tick(at(60), due={"unmet": ("a", "b")}).occurrences
    assert row.details == {"unmet": ["a", "b"]}


# The end of a schedule.


def test_max_runs_ends_it_and_the_rest_is_written_down() -> None:
    found = tick(at(300), max_runs=3, run_count=1, grace_seconds=1000.0, overlap="allow")
    assert words(found) == [("ran", None, 1), ("ran", None, 1), ("skipped", "max_runs", 3)]
    assert found.is_finished
    assert found.next_run_at is None


def test_skipped_times_do_not_use_runs_up() -> None:
    found = tick(at(60), max_runs=1, due={"unfinished": 1})
    assert not found.is_finished


@pytest.mark.parametrize(
    ("end", "runs", "is_finished"), [(59, 0, True), (60, 1, True), (119, 1, True), (120, 1, False)]
)
def test_end_at_is_the_last_instant(end: float, runs: int, is_finished: bool) -> None:
    found = tick(at(61), end_at=at(end), start_at=T0)
    assert len(found.occurrences) == runs
    assert found.is_finished is is_finished


def test_once() -> None:
    before = tick(at(59), run_at=at(60))
    assert (before.occurrences, before.next_run_at, before.is_finished) == ([], at(60), False)
    found = tick(at(61), run_at=at(60))
    assert words(found) == [("ran", None, 1)]
    assert found.is_finished
    again = tick(at(days=400), run_at=at(60), cursor_at=found.cursor_at)
    assert (again.occurrences, again.is_finished) == ([], True)


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", ("missed", "policy none", 1)), ("latest", ("caught_up", None, 1)),
     ("all", ("caught_up", None, 1))],
)  # fmt: skip
def test_once_an_hour_late(catch_up: str, expected: tuple[str, str | None, int]) -> None:
    found = tick(at(hours=1), run_at=at(60), catch_up=catch_up)
    assert words(found) == [expected]
    assert found.is_finished


# Jitter.


def test_jitter_moves_the_start_and_not_the_time() -> None:
    (row,) = tick(at(60), jitter_seconds=10.0, random=0.5).occurrences
    assert (row.nominal_at, row.start_at) == (at(60), at(65))


def test_jitter_of_what_is_caught_up_counts_from_now() -> None:
    found = tick(at(hours=1, seconds=30), cron="0 12 * * *", cursor_at=at(-1), jitter_seconds=10.0)
    (row,) = found.occurrences
    assert (row.decision, row.start_at) == ("caught_up", at(hours=1, seconds=35))


# An instant that an operator set.


def test_a_moved_time_waits() -> None:
    found = tick(at(200), moved_to=at(210))
    assert (found.occurrences, found.next_run_at, found.cursor_at) == ([], at(210), T0)


def test_a_moved_time_supersedes_those_before_it_and_the_timing_goes_on() -> None:
    found = tick(at(241), moved_to=at(190), overlap="allow")
    rows = [(row.decision, row.reason, row.count, row.is_moved) for row in found.occurrences]
    assert rows == [
        ("superseded", "rescheduled", 3, False), ("ran", None, 1, True), ("ran", None, 1, False),
    ]  # fmt: skip
    assert found.occurrences[1].nominal_at == at(190)
    assert found.is_moved
    assert found.next_run_at == at(300)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"catch_up": "none"}, ("missed", "policy none")),
        ({"catch_up": "latest"}, ("caught_up", None)),
        ({"catch_up": "latest", "catch_up_window_seconds": 600.0}, ("missed", "window")),
    ],
)
def test_a_moved_time_that_nobody_saw_is_missed_like_others(
    policy: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    (row,) = tick(at(hours=1), interval_seconds=1e6, moved_to=at(30), **policy).occurrences
    assert (row.decision, row.reason, row.is_moved) == (*expected, True)


def test_a_single_time_moved_forward_does_not_come_twice() -> None:
    found = tick(at(31), run_at=at(600), moved_to=at(30))
    assert words(found) == [("ran", None, 1), ("superseded", "rescheduled", 1)]
    assert found.is_finished


# Stretches with a decision of their own.


def stretch(until: datetime, decision: Any, reason: str, **timing: Any) -> Segment:
    stored = {"interval_seconds": 60.0, "anchor_at": T0.isoformat(), "timezone": "UTC"} | timing
    return Segment(stored, until, decision, reason)


def test_a_moved_time_that_came_in_a_stretch_shares_its_decision() -> None:
    """It is written down like the others, and does not run afterwards."""
    paused = stretch(at(200), "skipped", "paused")
    found = tick(at(241), moved_to=at(90), segments=(paused,))
    rows = [(row.decision, row.reason, row.count, row.is_moved) for row in found.occurrences]
    assert rows == [
        ("skipped", "paused", 1, False), ("skipped", "paused", 1, True),
        ("skipped", "paused", 2, False), ("ran", None, 1, False),
    ]  # fmt: skip
    assert found.is_moved


@pytest.mark.parametrize("every_from", ["start", "end"])
def test_a_moved_time_that_came_in_a_pause_that_is_over_does_not_run(every_from: str) -> None:
    found = tick(
        at(230), moved_to=at(90), next_run_at=at(90), paused_at=at(80), paused_until=at(200),
        interval_seconds=1000.0, every_from=every_from,
    )  # fmt: skip
    assert words(found) == [("skipped", "paused", 1)]
    assert (found.is_moved, found.is_resumed) == (True, True)


def test_a_moved_time_outlives_a_stretch_before_it() -> None:
    found = tick(at(241), moved_to=at(300), segments=(stretch(at(200), "skipped", "paused"),))
    assert words(found) == [("skipped", "paused", 3)]
    assert (found.is_moved, found.next_run_at) == (False, at(300))


def test_stretches_come_first_each_with_its_timing() -> None:
    found = tick(
        at(3601), interval_seconds=1800.0, overlap="allow",
        segments=(
            stretch(at(310), "superseded", "edited"),
            stretch(at(1000), "skipped", "disabled", interval_seconds=100.0),
            stretch(at(1900), "skipped", "paused", interval_seconds=None, cron="*/10 * * * *"),
        ),
    )  # fmt: skip
    assert words(found) == [
        ("superseded", "edited", 5), ("skipped", "disabled", 7), ("skipped", "paused", 2),
        ("ran", None, 1),
    ]  # fmt: skip
    assert found.segments == ()


def test_a_stretch_whose_timing_cannot_be_read_has_no_times() -> None:
    """A bad expression that was put right: it must not park the schedule for ever."""
    bad = stretch(at(310), "superseded", "edited", interval_seconds=None, cron="no cron at all")
    found = tick(at(361), segments=(bad,))
    assert words(found) == [("ran", None, 1)]


def test_a_stretch_that_ends_ahead_of_the_clock_is_cut_there() -> None:
    """The clock went back after the edit."""
    found = tick(at(130), segments=(stretch(at(3600), "superseded", "edited"),))
    assert words(found) == [("superseded", "edited", 2)]
    assert (found.cursor_at, found.next_run_at) == (at(130), at(180))


def test_a_long_stretch_of_cron_is_left_over_for_the_next_tick() -> None:
    minutely = stretch(at(days=7), "skipped", "disabled", interval_seconds=None, cron="* * * * *")
    clock = at(days=7, seconds=30)
    found = tick(clock, segments=(minutely,))
    assert words(found) == [("skipped", "disabled", MOST_TIMES)]
    assert (found.segments, found.next_run_at) == ((minutely,), clock)
    rest = tick(clock, segments=found.segments, cursor_at=found.cursor_at)
    assert words(rest)[0] == ("skipped", "disabled", MOST_TIMES)
    last = tick(clock, segments=rest.segments, cursor_at=rest.cursor_at)
    assert words(last)[0] == ("skipped", "disabled", 7 * 1440 - 2 * MOST_TIMES)
    assert last.segments == ()


# Pauses that end by themselves.


def test_a_pause_that_is_over_is_written_down_and_ends() -> None:
    found = tick(at(361), paused_at=at(10), paused_until=at(330))
    assert words(found) == [("skipped", "paused", 5), ("ran", None, 1)]
    assert found.is_resumed


def test_a_long_pause_becomes_a_stretch() -> None:
    found = tick(at(days=7), cron="* * * * *", paused_at=at(10), paused_until=at(days=6))
    assert found.is_resumed
    assert [(it.until, it.reason) for it in found.segments] == [(at(days=6), "paused")]


# Intervals from the end of the last run.


def from_end(**fields: Any) -> dict[str, Any]:
    return {"every_from": "end", "interval_seconds": 60.0} | fields


def test_counted_from_the_end_the_first_comes_one_interval_after_the_start() -> None:
    found = tick(at(30), **from_end())
    assert (found.occurrences, found.next_run_at) == ([], at(60))


def test_counted_from_the_end_a_run_is_waited_for() -> None:
    found = tick(at(61), **from_end(next_run_at=at(60)))
    assert words(found) == [("ran", None, 1)]
    assert found.waits_for_end


def test_counted_from_the_end_a_skipped_one_is_tried_again_after_an_interval() -> None:
    found = tick(at(61), due={"unfinished": 1}, **from_end(next_run_at=at(60)))
    assert words(found) == [("skipped", "overlap", 1)]
    assert (found.next_run_at, found.waits_for_end) == (at(121), False)


def test_counted_from_the_end_an_edit_meanwhile_waits_for_the_end_too() -> None:
    found = tick(at(500), due={"unfinished": 1}, **from_end(next_run_at=None))
    assert (found.occurrences, found.waits_for_end) == ([], True)


def test_counted_from_the_end_a_moved_time_has_its_row() -> None:
    found = tick(at(61), **from_end(next_run_at=at(50), moved_to=at(50)))
    (row,) = found.occurrences
    assert (row.nominal_at, row.is_moved, found.is_moved) == (at(50), True, True)


def test_counted_from_the_end_and_late() -> None:
    found = tick(at(hours=3), **from_end(next_run_at=at(60), catch_up="none"))
    assert words(found) == [("missed", "policy none", 1)]
    assert found.next_run_at == at(hours=3, minutes=1)


def test_counted_from_the_end_has_no_times_in_a_pause() -> None:
    found = tick(at(hours=1), **from_end(paused_at=at(10), paused_until=at(3590)))
    assert found.occurrences == []
    assert (found.cursor_at, found.next_run_at) == (at(3590), at(3650))


def test_counted_from_the_end_ends_with_its_runs() -> None:
    found = tick(at(61), **from_end(next_run_at=at(60), max_runs=1))
    assert found.is_finished


# Clocks that change, ends of months, leap days.

PARIS_SPRING = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
@pytest.mark.parametrize("hours", [1, 30])
def test_a_time_that_the_clocks_leave_out_has_its_row(catch_up: str, hours: int) -> None:
    """On time and after a downtime alike."""
    found = tick(
        PARIS_SPRING + timedelta(hours=hours), cron="30 2 * * *", timezone="Europe/Paris",
        gap="skip", cursor_at=PARIS_SPRING, catch_up=catch_up, catch_up_window_seconds=1e6,
    )  # fmt: skip
    assert words(found)[0] == ("skipped", "dst_gap", 1)
    assert len(found.occurrences) == (1 if hours == 1 else 2)


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        ("0 0 L * *", datetime(2026, 1, 31, 1, tzinfo=UTC), "2026-02-28"),
        ("0 0 31 * *", datetime(2026, 1, 31, 1, tzinfo=UTC), "2026-03-31"),
        ("0 0 29 2 *", datetime(2026, 1, 1, tzinfo=UTC), "2028-02-29"),
        ("0 0 30 * *", datetime(2026, 1, 30, 1, tzinfo=UTC), "2026-03-30"),
    ],
)
def test_ends_of_months_and_the_leap_day(cron: str, start: datetime, expected: str) -> None:
    found = tick(start, cron=cron, cursor_at=start)
    assert found.next_run_at is not None
    assert found.next_run_at.date().isoformat() == expected
    due = tick(found.next_run_at, cron=cron, cursor_at=start)
    assert words(due) == [("ran", None, 1)]


def test_the_zone_of_a_live_schedule_edited_in_between() -> None:
    """Nine in New York was edited to nine in Paris at 12:00 UTC: no time twice, none lost."""
    morning = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
    old = {"cron": "0 9 * * *", "timezone": "America/New_York"}
    edited = Segment(old, morning, "superseded", "edited")
    found = tick(
        morning + timedelta(hours=20), cron="0 9 * * *", timezone="Europe/Paris",
        cursor_at=morning - timedelta(hours=1), segments=(edited,), grace_seconds=1e5,
    )  # fmt: skip
    assert [row.nominal_at.isoformat() for row in found.occurrences] == [
        "2026-06-02T07:00:00+00:00"
    ]


def test_deciding_is_pure() -> None:
    given = schedule()
    due = Due(given, at(310))
    assert decide(due, lambda: 0.0) == decide(due, lambda: 0.0)
    assert due == Due(given, at(310))
