from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import TimingError
from rota.timing import Nominal, Timing

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ZONES = ["UTC", "America/New_York", "Europe/Paris", "Australia/Lord_Howe", "Asia/Beirut"]

crons = st.sampled_from(
    ["30 2 * * *", "0,30 0-3 * * *", "15 * * * *", "0 */3 * * *", "0 0 1 * *", "45 1 * * SUN"]
)
timings = st.builds(
    Timing.of,
    cron=crons,
    timezone=st.sampled_from(ZONES),
    gap=st.sampled_from(["run_after", "skip"]),
    fold=st.sampled_from(["first", "second", "both"]),
) | st.builds(Timing.of, interval_seconds=st.integers(600, 100_000))
# Around the changes of 2024 half of the time, anywhere else in the other half.
changes = st.sampled_from(
    [
        datetime(2024, month, day, tzinfo=UTC)
        for month, day in ((3, 10), (3, 31), (4, 6), (10, 5), (10, 26), (11, 3))
    ]
)
instants = st.builds(
    lambda day, shift: day + shift, changes, st.timedeltas(-2 * DAY, 2 * DAY)
) | st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    datetime(2060, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@settings(deadline=None)
@given(timings, instants, st.timedeltas(timedelta(0), timedelta(days=6)))
def test_times_strictly_increase_within_their_range(
    timing: Timing, after: datetime, span: timedelta
) -> None:
    times = [it.at for it in timing.between(after, after + span, 2000, include_skipped=True)]
    assert all(earlier < other for earlier, other in pairwise(times))
    assert all(after < at <= after + span for at in times)
    assert all(at.tzinfo is UTC for at in times)


@settings(deadline=None)
@given(timings, instants, st.timedeltas(timedelta(0), timedelta(days=6)))
def test_a_range_is_what_stepping_gives(timing: Timing, after: datetime, span: timedelta) -> None:
    stepped, at = [], timing.after(after)
    while at is not None and at <= after + span:
        stepped.append(at)
        at = timing.after(at)
    assert [it.at for it in timing.between(after, after + span, 2000)] == stepped


@settings(deadline=None)
@given(timings, instants, st.timedeltas(timedelta(0), 4 * DAY), st.floats(0, 1))
def test_two_halves_make_the_whole(
    timing: Timing, after: datetime, span: timedelta, share: float
) -> None:
    """However often the tick comes, it sees every time once, skipped ones included."""
    middle, end = after + span * share, after + span
    parts = [
        *timing.between(after, middle, 2000, include_skipped=True),
        *timing.between(middle, end, 2000, include_skipped=True),
    ]
    assert parts == timing.between(after, end, 2000, include_skipped=True)


@settings(deadline=None)
@given(timings, instants, st.timedeltas(timedelta(0), 40 * DAY))
def test_count_and_latest_agree_with_the_list(
    timing: Timing, after: datetime, span: timedelta
) -> None:
    listed = timing.between(after, after + span, 10_000)
    assert timing.count_between(after, after + span) == len(listed)
    assert timing.latest_between(after, after + span) == (listed[-1] if listed else None)


@given(timings)
def test_a_timing_is_a_value(timing: Timing) -> None:
    copy = pickle.loads(pickle.dumps(timing))
    assert copy == timing
    assert hash(copy) == hash(timing)
    assert copy.after(START) == timing.after(START)


@pytest.mark.parametrize(
    ("given_", "found"),
    [
        ({}, "found none"),
        ({"cron": "* * * * *", "interval_seconds": 60}, "found cron and interval_seconds"),
        ({"interval_seconds": 60, "run_at": START}, "found interval_seconds and run_at"),
    ],
)
def test_exactly_one_of_three(given_: dict[str, Any], found: str) -> None:
    with pytest.raises(
        TimingError, match=f"exactly one of cron, interval_seconds, run_at, {found}"
    ):
        Timing.of(**given_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": "later"}, "gap must be one of run_after, skip, not 'later'"),
        ({"fold": "third"}, "fold must be one of first, second, both, not 'third'"),
        ({"start_at": datetime(2026, 1, 1)}, "start_at .* has no time zone"),  # noqa: DTZ001
        ({"end_at": "tomorrow"}, "end_at must be a date and time, not 'tomorrow'"),
        ({"start_at": START, "end_at": START - DAY}, "end_at .* is before start_at"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TimingError, match=message):
        Timing.of(cron="* * * * *", **options)


def test_a_single_instant_outside_its_bounds_is_refused() -> None:
    with pytest.raises(TimingError, match=r"run_at .* is before start_at"):
        Timing.of(run_at=START, start_at=START + DAY)
    with pytest.raises(TimingError, match=r"run_at .* is after end_at"):
        Timing.of(run_at=START, end_at=START - DAY)


def test_both_bounds_are_included() -> None:
    timing = Timing.of(cron="0 0 * * *", start_at=START, end_at=START + 2 * DAY)
    assert timing.after(START - 9 * DAY) == START
    assert timing.between(START - 9 * DAY, START + 9 * DAY, 9) == [
        Nominal(START),
        Nominal(START + DAY),
        Nominal(START + 2 * DAY),
    ]
    assert timing.count_between(START - 9 * DAY, START + 9 * DAY) == 3
    assert timing.latest_between(START - 9 * DAY, START + 9 * DAY) == Nominal(START + 2 * DAY)
    assert timing.after(START + 2 * DAY) is None


def test_the_limit_keeps_the_oldest() -> None:
    timing = Timing.of(cron="0 * * * *")
    assert len(timing.between(START, START + DAY, 5)) == 5
    assert timing.between(START, START + DAY, 1) == [Nominal(START + timedelta(hours=1))]
    assert timing.between(START, START + DAY, 0) == timing.between(START, START - DAY, 5) == []


def test_a_count_of_cron_stops_at_its_cap() -> None:
    assert Timing.of(cron="* * * * *").count_between(START, START + 9 * DAY, cap=100) == 100


def test_the_latest_is_found_from_the_end_however_long_the_range() -> None:
    ages = datetime(1990, 1, 1, tzinfo=UTC)
    minutely, leap = Timing.of(cron="* * * * *"), Timing.of(cron="0 0 29 2 *")
    assert minutely.latest_between(ages, START) == Nominal(START)
    assert leap.latest_between(ages, START) == Nominal(datetime(2024, 2, 29, tzinfo=UTC))
    assert leap.latest_between(START - DAY, START) is None


def test_skipped_times_are_told_only_when_asked_for() -> None:
    timing = Timing.of(cron="30 2 * * *", timezone="America/New_York", gap="skip")
    after, until = datetime(2024, 3, 9, 8, tzinfo=UTC), datetime(2024, 3, 11, 8, tzinfo=UTC)
    next_day = Nominal(datetime(2024, 3, 11, 6, 30, tzinfo=UTC))
    assert timing.after(after) == next_day.at
    assert timing.between(after, until, 9) == [next_day]
    assert timing.count_between(after, until) == 1
    skipped = Nominal(datetime(2024, 3, 10, 7, tzinfo=UTC), "dst_gap_skipped")
    assert timing.between(after, until, 9, include_skipped=True) == [skipped, next_day]


def test_an_instant_without_a_zone_is_refused_everywhere() -> None:
    timing, naive = Timing.of(cron="* * * * *"), START.replace(tzinfo=None)
    with pytest.raises(TimingError, match=r"after .* has no time zone"):
        timing.after(naive)
    with pytest.raises(TimingError, match=r"until .* has no time zone"):
        timing.between(START, naive, 1)


def test_spaces_do_not_matter() -> None:
    assert Timing.of(cron="  0   9 * *\t1-5 ") == Timing.of(cron="0 9 * * 1-5")
    assert Timing.of(cron="@daily").fields == "0 0 * * *"
    assert Timing.of(interval_seconds=5).fields is None
