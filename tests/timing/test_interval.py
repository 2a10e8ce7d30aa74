from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import TimingError
from rota.timing import Timing
from rota.timing.interval import every

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 1, 8, 0, 7, 250_000, tzinfo=UTC)
instants = st.datetimes(
    datetime(1990, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
steps = st.timedeltas(timedelta(seconds=1), timedelta(days=400))


@given(steps, instants, instants)
def test_the_next_time_is_a_whole_number_of_steps_from_the_anchor(
    step: timedelta, anchor: datetime, now: datetime
) -> None:
    following = Timing.of(interval_seconds=step, anchor=anchor).after(now)
    assert following is not None
    assert (following - anchor) % step == timedelta()
    assert now < following <= now + step


@given(steps, instants, instants, st.timedeltas(timedelta(), timedelta(days=500)))
def test_a_count_is_the_length_of_the_list(
    step: timedelta, anchor: datetime, after: datetime, span: timedelta
) -> None:
    timing = Timing.of(interval_seconds=step, anchor=anchor)
    until = after + min(span, 1000 * step)
    listed = timing.between(after, until, 2000)
    assert timing.count_between(after, until) == len(listed)
    assert timing.latest_between(after, until) == (listed[-1] if listed else None)


def test_no_drift_over_a_million_steps() -> None:
    timing = Timing.of(interval_seconds=0.1 * 15, anchor=START)
    late = START + 1_000_000 * timedelta(seconds=1.5)
    assert timing.after(late - timedelta(microseconds=1)) == late


def test_three_days_of_seconds_are_arithmetic() -> None:
    timing = Timing.of(interval_seconds=1, anchor=START)
    end = START + timedelta(days=3)
    assert timing.count_between(START, end) == 259_200
    assert timing.count_between(START, START + timedelta(days=36_500)) == 3_153_600_000
    assert [it.at for it in timing.between(START, end, 2)] == [
        START + timedelta(seconds=1),
        START + timedelta(seconds=2),
    ]


def test_a_missed_time_does_not_move_the_next() -> None:
    timing = Timing.of(interval_seconds=3600, anchor=START)
    assert timing.after(START + timedelta(hours=5, minutes=17)) == START + timedelta(hours=6)


def test_start_at_is_the_anchor_and_the_first_time() -> None:
    made = START - timedelta(minutes=7)
    timing = Timing.of(interval_seconds=600, start_at=START, anchor=made)
    assert timing.after(made) == START
    assert timing.after(START) == START + timedelta(seconds=600)
    assert timing.count_between(made, START) == 1


def test_without_start_it_counts_from_the_anchor_on_both_sides() -> None:
    timing = Timing.of(interval_seconds=600, anchor=START)
    assert timing.after(START) == START + timedelta(seconds=600)
    assert timing.after(START - timedelta(seconds=1)) == START
    assert timing.after(START - timedelta(seconds=601)) == START - timedelta(seconds=600)


def test_without_either_an_hour_falls_on_the_hour() -> None:
    following = Timing.of(interval_seconds=3600).after(START)
    assert following == datetime(2026, 1, 1, 9, tzinfo=UTC)


def test_counted_from_the_end_of_the_last_run() -> None:
    timing = Timing.of(interval_seconds=600, start_at=START)
    ended = START + timedelta(seconds=642)
    assert timing.anchored(ended).after(ended) == ended + timedelta(seconds=600)


def test_real_time_goes_on_across_a_change_of_the_clocks() -> None:
    timing = Timing.of(
        interval_seconds=3600,
        timezone="America/New_York",
        gap="skip",
        anchor=datetime(2024, 3, 10, 5, 30, tzinfo=UTC),
    )
    times = timing.between(
        datetime(2024, 3, 10, 5, tzinfo=UTC), datetime(2024, 3, 10, 9, tzinfo=UTC), 9
    )
    assert [f"{it.at:%H:%M}{it.note}" for it in times] == ["05:30", "06:30", "07:30", "08:30"]


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "1 second or more, not 0"),
        (0.999, "1 second or more, not 0.999"),
        (-60, "1 second or more, not -60"),
        (timedelta(0), "1 second or more"),
        (Decimal("0.5"), "1 second or more"),
        (float("nan"), "a duration, not nan"),
        (float("inf"), "a duration, not inf"),
        (Decimal("Infinity"), "a duration"),
        (True, "a duration, not True"),
        ("an hour", "a duration, not 'an hour'"),
        (10**400, "100 years or less"),
        (timedelta(days=40_000), "100 years or less"),
    ],
)
def test_what_is_no_interval_is_refused(seconds: Any, message: str) -> None:
    with pytest.raises(TimingError, match=message):
        Timing.of(interval_seconds=seconds)


@pytest.mark.parametrize("seconds", [90, 90.0, Decimal(90), timedelta(seconds=90)])
def test_seconds_come_in_many_types(seconds: Any) -> None:
    assert Timing.of(interval_seconds=seconds) == Timing.of(interval_seconds=90)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 90s", 90),
        ("@every 5m", 300),
        ("@every 1h30m", 5400),
        ("@EVERY 1.5H", 5400),
        ("  @every   1d 2h ", 93_600),
        ("@every 1w", 604_800),
    ],
)
def test_every_in_a_cron_expression_is_an_interval(text: str, seconds: int) -> None:
    timing = Timing.of(cron=text, anchor=START)
    assert timing.kind == "interval"
    assert timing == Timing.of(interval_seconds=seconds, anchor=START)


@pytest.mark.parametrize("text", ["@every", "@every soon", "@every -5s", "@everyday"])
def test_a_wrong_every_is_explained(text: str) -> None:
    with pytest.raises(TimingError, match="is not an interval") as caught:
        every(text)
    assert "@every 90s" in str(caught.value.hint)


def test_every_half_a_second_is_refused() -> None:
    with pytest.raises(TimingError, match=r"1 second or more, not 0\.5"):
        Timing.of(cron="@every 0.5s")


@pytest.mark.parametrize("seconds", [1, 86_400 * 36_525])
def test_the_ends_of_the_calendar_are_no_error(seconds: int) -> None:
    timing = Timing.of(interval_seconds=seconds)
    latest, earliest = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    assert timing.after(latest) is None
    assert timing.after(earliest) is not None
    assert timing.count_between(latest, latest) == 0
    assert timing.count_between(earliest, latest) > 0
    assert timing.latest_between(earliest, latest) is not None
    assert timing.latest_between(earliest, earliest) is None
