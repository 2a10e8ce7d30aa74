"""Where schedules start that are due at one instant: no database, no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.schedule import Schedule
from rota.timing.bursts import AT_ONCE, BurstPlace
from rota.timing.decisions import Tick, decide
from rota.timing.judging import Due

T0 = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def shifts(crowd: int, seconds: float, until_next: float | None = None) -> list[float]:
    room = None if until_next is None else timedelta(seconds=until_next)
    return [BurstPlace(n, crowd, seconds).shift(room).total_seconds() for n in range(crowd)]


@pytest.mark.parametrize("crowd", [1, 2, AT_ONCE])
def test_a_few_are_not_moved(crowd: int) -> None:
    assert shifts(crowd, 60) == [0] * crowd


def test_the_first_ones_start_on_time_and_the_others_ten_a_second() -> None:
    found = shifts(30, 60)
    assert found[:AT_ONCE] == [0] * AT_ONCE
    assert found[AT_ONCE:] == [pytest.approx((n + 1) / 10) for n in range(20)]


def test_very_many_fill_the_whole_time_evenly() -> None:
    found = shifts(6010, 60)
    assert found[-1] == 60
    steps = [b - a for a, b in zip(found[AT_ONCE:], found[AT_ONCE + 1 :], strict=False)]
    assert max(steps) == pytest.approx(0.01, abs=1e-5)


def test_no_time_means_no_shift() -> None:
    assert shifts(1000, 0) == [0] * 1000


def test_a_short_interval_does_not_get_in_its_own_way() -> None:
    assert max(shifts(1000, 60, until_next=2)) == 1
    assert max(shifts(1000, 60, until_next=-5)) == 0


@given(
    st.integers(0, 20_000),
    st.integers(0, 10_000),
    st.floats(0, 3600),
    st.none() | st.floats(0, 1e6),
)
def test_nobody_is_moved_by_more_than_was_said(
    number: int, crowd: int, seconds: float, until_next: float | None
) -> None:
    room = None if until_next is None else timedelta(seconds=until_next)
    later = BurstPlace(number, crowd, seconds).shift(room).total_seconds()
    assert 0 <= later <= seconds + 1e-6
    assert until_next is None or later <= until_next / 2 + 1e-6
    assert later <= BurstPlace(number + 1, crowd, seconds).shift(room).total_seconds()


# In a tick.


def tick(clock: float = 60, *, place: BurstPlace, **fields: Any) -> Tick:
    base = {"id": 1, "tenant": "", "name": "s", "job": "j", "tick_version": 1, "anchor_at": T0}
    if "run_at" not in fields:
        base["interval_seconds"] = 60.0
    schedule = Schedule(**(base | {"cursor_at": T0} | fields))
    at = T0 + timedelta(seconds=clock)
    return decide(Due(schedule, at, place=place), lambda: 0.5)


def start(found: Tick) -> float:
    (occurrence,) = found.occurrences
    assert occurrence.start_at is not None
    return (occurrence.start_at - T0).total_seconds()


def test_the_start_moves_and_the_nominal_time_does_not() -> None:
    found = tick(place=BurstPlace(29, 30, 10))
    (occurrence,) = found.occurrences
    assert (occurrence.nominal_at, occurrence.decision) == (T0 + timedelta(seconds=60), "ran")
    assert start(found) == 62
    assert occurrence.details == {"burst": {"place": 30, "of": 30}}
    assert found.next_run_at == T0 + timedelta(seconds=120)


def test_one_of_the_first_says_nothing() -> None:
    (occurrence,) = tick(place=BurstPlace(3, 30, 10)).occurrences
    assert occurrence.details is None
    assert occurrence.start_at == occurrence.nominal_at


def test_what_is_caught_up_is_spread_from_now() -> None:
    found = tick(5000, place=BurstPlace(29, 30, 10), run_at=T0 + timedelta(seconds=60))
    assert found.occurrences[0].decision == "caught_up"
    assert start(found) == 5002


def test_a_late_tick_adds_nothing() -> None:
    """The places count from the instant, not from when somebody looked."""
    assert start(tick(90, place=BurstPlace(29, 30, 10))) == 62


def test_what_is_skipped_has_no_start() -> None:
    found = decide(
        Due(
            Schedule(
                id=1, tenant="", name="s", job="j", tick_version=1, anchor_at=T0, cursor_at=T0,
                interval_seconds=60.0,
            ),
            T0 + timedelta(seconds=60),
            unfinished=1,
            place=BurstPlace(29, 30, 10),
        ),
        lambda: 0.5,
    )  # fmt: skip
    assert [(occurrence.reason, occurrence.details) for occurrence in found.occurrences] == [
        ("overlap", None)
    ]


def test_counted_from_the_end_it_keeps_to_half_its_interval() -> None:
    found = tick(
        1, place=BurstPlace(999, 1000, 60), every_from="end", next_run_at=T0, interval_seconds=4.0
    )
    assert start(found) == 2
