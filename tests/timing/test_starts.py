"""Times by arithmetic are those that stepping finds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from rota.timing.starts import starts
from rota.timing.timing import EPOCH, Timing

CRONS = (
    "* * * * *", "*/5 * * * *", "7 * * * *", "30 2 * * *", "0 0 * * *", "15 1,2,3 * * *",
    "0 9 * * 1-5", "0 0 1 * *", "0 18 L * *", "0 8 1-7 * 1", "0 0 29 2 *", "5 4 * * 5#2",
    "*/7 1-3 * * *", "0 */6 * * *",
)  # fmt: skip
ZONES = ("UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
# Quiet weeks, and those in which clocks change.
WEEKS = tuple(
    datetime(2026, *day, 5, 17, 23, 7, tzinfo=UTC)
    for day in ((1, 8), (3, 5), (3, 26), (4, 2), (10, 1), (10, 22), (10, 30), (12, 29))
)


def stepped(timing: Timing, after: datetime, until: datetime, most: int) -> list[int]:
    found = timing.between(after, until, most)
    return [(start.at - EPOCH) // timedelta(seconds=1) for start in found]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_of_crons(cron: str, zone: str) -> None:
    timing = Timing.of(cron=cron, timezone=zone)
    for after in WEEKS:
        until = after + timedelta(days=5)
        assert starts(timing, after, until, 10_000).tolist() == stepped(
            timing, after, until, 10_000
        )


@pytest.mark.parametrize("gap", ["run_after", "skip"])
@pytest.mark.parametrize("fold", ["first", "second", "both"])
def test_of_policies_for_changing_clocks(gap: str, fold: str) -> None:
    timing = Timing.of(
        cron="30 2 * * *",
        timezone="Europe/Vienna",
        gap=gap,  # type: ignore[arg-type]
        fold=fold,  # type: ignore[arg-type]
    )
    for after in WEEKS:
        until = after + timedelta(days=9)
        assert starts(timing, after, until, 99).tolist() == stepped(timing, after, until, 99)


def test_of_intervals_bounds_and_single_times() -> None:
    chance = random.Random(7)
    anchor = datetime(2026, 1, 3, 4, 5, 6, 250_000, tzinfo=UTC)
    timings = [
        Timing.of(interval_seconds=chance.choice((60, 61.5, 90, 3600, 0.25 + 86_400)), anchor=at)
        for at in (anchor, anchor.replace(microsecond=0))
        for _ in range(10)
    ]
    bounds = {"start_at": WEEKS[2], "end_at": WEEKS[2] + timedelta(hours=30)}
    timings += [
        Timing.of(interval_seconds=600, **bounds),  # type: ignore[arg-type]
        Timing.of(cron="*/10 * * * *", timezone="Europe/Vienna", **bounds),  # type: ignore[arg-type]
        Timing.of(cron="*/20 * * * * *", with_seconds=True),
        Timing.of(run_at=WEEKS[2] + timedelta(hours=3)),
    ]
    for timing in timings:
        for after in WEEKS:
            until = after + timedelta(days=2)
            found = starts(timing, after, until, 500).tolist()
            assert found == stepped(timing, after, until, 500), timing
