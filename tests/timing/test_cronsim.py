"""What cronsim itself does when the clocks change, and why we only let it step local times.

If one of these fails after an upgrade, cronsim has been mended or changed: ours must stay.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from rota.timing import Timing


def both(cron: str, zone: str, after: str, count: int = 1) -> tuple[list[str], list[str]]:
    """The next instants by cronsim with a zone, and ours."""
    start = datetime.fromisoformat(f"2024-{after}").replace(tzinfo=UTC)
    sim = CronSim(cron, start.astimezone(ZoneInfo(zone)))
    theirs = [next(sim).astimezone(UTC) for _ in range(count)]
    times = Timing.of(cron=cron, timezone=zone).times(start)
    ours = [next(times).at for _ in range(count)]
    return [f"{it:%m-%d %H:%M}" for it in theirs], [f"{it:%m-%d %H:%M}" for it in ours]


def test_we_agree_on_fixed_times_asked_for_from_outside_the_change() -> None:
    for cron in ("30 2 * * *", "0,30 2 * * *", "0 1-3 * * *", "30 1 * * *"):
        for after in ("03-09 12:00", "11-02 12:00"):
            theirs, ours = both(cron, "America/New_York", after, 4)
            assert theirs == ours


def test_we_agree_on_wildcards_where_an_hour_is_shifted_at_two() -> None:
    for cron in ("*/30 1-3 * * *", "0 * * * *", "0 */2 * * *", "*/15 2 * * *"):
        for after in ("03-09 12:00", "11-02 12:00"):
            theirs, ours = both(cron, "America/New_York", after, 20)
            assert theirs == ours


def test_asked_within_the_second_pass_cronsim_goes_back_in_time() -> None:
    theirs, ours = both("50 1 * * *", "America/New_York", "11-03 06:45")
    assert theirs == ["11-03 05:50"]
    assert ours == ["11-04 06:50"]


def test_after_a_shift_of_half_an_hour_cronsim_loses_half_of_an_hour() -> None:
    theirs, ours = both("*/15 3 * * *", "Australia/Lord_Howe", "10-05 12:00", 2)
    assert theirs == ["10-05 16:30", "10-05 16:45"]
    assert ours == ["10-05 16:00", "10-05 16:15"]
    theirs, ours = both("*/15 3 * * *", "Australia/Lord_Howe", "04-06 12:00", 2)
    assert theirs == ["04-06 17:00", "04-06 17:15"]
    assert ours == ["04-06 16:30", "04-06 16:45"]


def test_in_a_missing_midnight_cronsim_runs_a_wildcard_that_has_no_such_time() -> None:
    theirs, ours = both("*/30 0 * * 0", "America/Havana", "03-09 12:00")
    assert theirs == ["03-10 05:00"]
    assert ours == ["03-17 04:00"]


def test_with_seconds_cronsim_gives_fixed_times_no_care() -> None:
    start = datetime(2024, 3, 10, 5, tzinfo=UTC)
    sim = CronSim("0 30 2 * * *", start.astimezone(ZoneInfo("America/New_York")))
    assert next(sim).astimezone(UTC) == datetime(2024, 3, 11, 6, 30, tzinfo=UTC)
    ours = Timing.of(cron="0 30 2 * * *", with_seconds=True, timezone="America/New_York")
    assert ours.after(start) == datetime(2024, 3, 10, 7, tzinfo=UTC)
