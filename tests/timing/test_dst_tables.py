"""What every kind of expression does on the days the clocks change, by table.

The expected instants are written by hand, from the changes as `zdump -v` gives them (2024, in UTC):

    New York   03-10 07:00  02:00 → 03:00     11-03 06:00  02:00 → 01:00
    Paris      03-31 01:00  02:00 → 03:00     10-27 01:00  03:00 → 02:00
    Lord Howe  10-05 15:30  02:00 → 02:30     04-06 15:00  02:00 → 01:30    half an hour
    Havana     03-10 05:00  00:00 → 01:00     11-03 05:00  01:00 → 00:00    midnight is missing
    Beirut     03-30 22:00  00:00 → 01:00     10-26 21:00  00:00 → 23:00    the day before again
    Cairo      04-25 22:00  00:00 → 01:00     10-31 21:00  00:00 → 23:00
    Asunción   10-06 04:00  00:00 → 01:00     03-24 03:00  00:00 → 23:00
    Santiago   09-08 04:00  00:00 → 01:00     04-07 03:00  00:00 → 23:00

An instant stands alone or with what happened to it: gap (moved to right after it), skip, 1st, 2nd.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rota.timing import Timing
from rota.timing.dst import Fold, Gap

MINUTE = timedelta(minutes=1)
GAP_POLICIES: tuple[Gap, ...] = ("run_after", "skip")
FOLD_POLICIES: tuple[Fold, ...] = ("first", "second", "both")
NOTES = {
    "": "",
    "dst_gap": "gap",
    "dst_gap_skipped": "skip",
    "dst_fold_first": "1st",
    "dst_fold_second": "2nd",
}

NY, PARIS, HOWE = "America/New_York", "Europe/Paris", "Australia/Lord_Howe"
HAVANA, BEIRUT, CAIRO = "America/Havana", "Asia/Beirut", "Africa/Cairo"
ASUNCION, SANTIAGO = "America/Asuncion", "America/Santiago"

# zone, the local day in UTC (from, up to but not including), expression, run_after, skip
GAPS = [
    (NY, "03-10 05:00", "03-11 04:00", "30 1 * * *", "03-10 06:30", "03-10 06:30"),
    (NY, "03-10 05:00", "03-11 04:00", "0 2 * * *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "30 2 * * *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "59 2 * * *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "0 3 * * *", "03-10 07:00", "03-10 07:00"),
    (NY, "03-10 05:00", "03-11 04:00", "30 3 * * *", "03-10 07:30", "03-10 07:30"),
    # Several in one gap run once; one that meets a time right after the gap runs with it, once.
    (NY, "03-10 05:00", "03-11 04:00", "0,30 2 * * *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "15-45/15 2 * * *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "0 2,3 * * *", "03-10 07:00 gap", "03-10 07:00"),
    (
        NY,
        "03-10 05:00",
        "03-11 04:00",
        "0 1-4 * * *",
        "03-10 06:00, 03-10 07:00 gap, 03-10 08:00",
        "03-10 06:00, 03-10 07:00, 03-10 08:00",
    ),
    (
        NY,
        "03-10 05:00",
        "03-11 04:00",
        "30 1-3 * * *",
        "03-10 06:30, 03-10 07:00 gap, 03-10 07:30",
        "03-10 06:30, 03-10 07:00 skip, 03-10 07:30",
    ),
    # Only on that Sunday, or not on that Sunday.
    (NY, "03-10 05:00", "03-11 04:00", "30 2 * * SUN", "03-10 07:00 gap", "03-10 07:00 skip"),
    (NY, "03-10 05:00", "03-11 04:00", "30 2 * * 1-6", "", ""),
    (NY, "03-10 05:00", "03-11 04:00", "30 2 10 3 *", "03-10 07:00 gap", "03-10 07:00 skip"),
    (PARIS, "03-30 23:00", "03-31 22:00", "30 2 * * *", "03-31 01:00 gap", "03-31 01:00 skip"),
    (PARIS, "03-30 23:00", "03-31 22:00", "0 2,3 * * *", "03-31 01:00 gap", "03-31 01:00"),
    (
        PARIS,
        "03-30 23:00",
        "03-31 22:00",
        "45 1-3 * * *",
        "03-31 00:45, 03-31 01:00 gap, 03-31 01:45",
        "03-31 00:45, 03-31 01:00 skip, 03-31 01:45",
    ),
    (PARIS, "03-30 23:00", "03-31 22:00", "30 2 L * *", "03-31 01:00 gap", "03-31 01:00 skip"),
    (HOWE, "10-05 13:30", "10-06 13:00", "45 1 * * *", "10-05 15:15", "10-05 15:15"),
    (HOWE, "10-05 13:30", "10-06 13:00", "0 2 * * *", "10-05 15:30 gap", "10-05 15:30 skip"),
    (HOWE, "10-05 13:30", "10-06 13:00", "15 2 * * *", "10-05 15:30 gap", "10-05 15:30 skip"),
    (HOWE, "10-05 13:30", "10-06 13:00", "30 2 * * *", "10-05 15:30", "10-05 15:30"),
    (HOWE, "10-05 13:30", "10-06 13:00", "15,30 2 * * *", "10-05 15:30 gap", "10-05 15:30"),
    (
        HOWE,
        "10-05 13:30",
        "10-06 13:00",
        "0 1-3 * * *",
        "10-05 14:30, 10-05 15:30 gap, 10-05 16:00",
        "10-05 14:30, 10-05 15:30 skip, 10-05 16:00",
    ),
    (HAVANA, "03-10 05:00", "03-11 04:00", "0 0 * * *", "03-10 05:00 gap", "03-10 05:00 skip"),
    (HAVANA, "03-10 05:00", "03-11 04:00", "30 0 * * *", "03-10 05:00 gap", "03-10 05:00 skip"),
    (HAVANA, "03-10 05:00", "03-11 04:00", "0 0 * * 7", "03-10 05:00 gap", "03-10 05:00 skip"),
    (HAVANA, "03-10 05:00", "03-11 04:00", "0 0 * * 6", "", ""),
    (HAVANA, "03-10 05:00", "03-11 04:00", "@daily", "03-10 05:00 gap", "03-10 05:00 skip"),
    (
        HAVANA,
        "03-10 05:00",
        "03-11 04:00",
        "0 0-2 * * *",
        "03-10 05:00 gap, 03-10 06:00",
        "03-10 05:00, 03-10 06:00",
    ),
    (BEIRUT, "03-30 22:00", "03-31 21:00", "0 0 * * *", "03-30 22:00 gap", "03-30 22:00 skip"),
    (
        BEIRUT,
        "03-30 22:00",
        "03-31 21:00",
        "30 0-2 * * *",
        "03-30 22:00 gap, 03-30 22:30, 03-30 23:30",
        "03-30 22:00 skip, 03-30 22:30, 03-30 23:30",
    ),
    (CAIRO, "04-25 22:00", "04-26 21:00", "0 0 * * 5", "04-25 22:00 gap", "04-25 22:00 skip"),
    (CAIRO, "04-25 22:00", "04-26 21:00", "0 0 25 * *", "", ""),
    (ASUNCION, "10-06 04:00", "10-07 03:00", "15 0 * * *", "10-06 04:00 gap", "10-06 04:00 skip"),
    (SANTIAGO, "09-08 04:00", "09-09 03:00", "0 0 * * *", "09-08 04:00 gap", "09-08 04:00 skip"),
]

# zone, the local day in UTC (from, up to but not including), expression, first, second, both
FOLDS = [
    (NY, "11-03 04:00", "11-04 05:00", "59 0 * * *", *["11-03 04:59"] * 3),
    (
        NY,
        "11-03 04:00",
        "11-04 05:00",
        "0 1 * * *",
        "11-03 05:00 1st",
        "11-03 06:00 2nd",
        "11-03 05:00 1st, 11-03 06:00 2nd",
    ),
    (
        NY,
        "11-03 04:00",
        "11-04 05:00",
        "30 1 * * *",
        "11-03 05:30 1st",
        "11-03 06:30 2nd",
        "11-03 05:30 1st, 11-03 06:30 2nd",
    ),
    (NY, "11-03 04:00", "11-04 05:00", "0 2 * * *", *["11-03 07:00"] * 3),
    # Two times in one repeated hour: the whole first pass comes before the second.
    (
        NY,
        "11-03 04:00",
        "11-04 05:00",
        "10,50 1 * * *",
        "11-03 05:10 1st, 11-03 05:50 1st",
        "11-03 06:10 2nd, 11-03 06:50 2nd",
        "11-03 05:10 1st, 11-03 05:50 1st, 11-03 06:10 2nd, 11-03 06:50 2nd",
    ),
    (
        NY,
        "11-03 04:00",
        "11-04 05:00",
        "0 0-3 * * *",
        "11-03 04:00, 11-03 05:00 1st, 11-03 07:00, 11-03 08:00",
        "11-03 04:00, 11-03 06:00 2nd, 11-03 07:00, 11-03 08:00",
        "11-03 04:00, 11-03 05:00 1st, 11-03 06:00 2nd, 11-03 07:00, 11-03 08:00",
    ),
    (NY, "11-03 04:00", "11-04 05:00", "30 1 * * 1-6", "", "", ""),
    (
        PARIS,
        "10-26 22:00",
        "10-27 23:00",
        "30 2 * * *",
        "10-27 00:30 1st",
        "10-27 01:30 2nd",
        "10-27 00:30 1st, 10-27 01:30 2nd",
    ),
    (
        PARIS,
        "10-26 22:00",
        "10-27 23:00",
        "0 1-3 * * *",
        "10-26 23:00, 10-27 00:00 1st, 10-27 02:00",
        "10-26 23:00, 10-27 01:00 2nd, 10-27 02:00",
        "10-26 23:00, 10-27 00:00 1st, 10-27 01:00 2nd, 10-27 02:00",
    ),
    (HOWE, "04-06 13:00", "04-07 13:30", "15 1 * * *", *["04-06 14:15"] * 3),
    (
        HOWE,
        "04-06 13:00",
        "04-07 13:30",
        "30 1 * * *",
        "04-06 14:30 1st",
        "04-06 15:00 2nd",
        "04-06 14:30 1st, 04-06 15:00 2nd",
    ),
    (
        HOWE,
        "04-06 13:00",
        "04-07 13:30",
        "45 1 * * *",
        "04-06 14:45 1st",
        "04-06 15:15 2nd",
        "04-06 14:45 1st, 04-06 15:15 2nd",
    ),
    (HOWE, "04-06 13:00", "04-07 13:30", "0 2 * * *", *["04-06 15:30"] * 3),
    (
        HOWE,
        "04-06 13:00",
        "04-07 13:30",
        "0-45/15 1 * * *",
        "04-06 14:00, 04-06 14:15, 04-06 14:30 1st, 04-06 14:45 1st",
        "04-06 14:00, 04-06 14:15, 04-06 15:00 2nd, 04-06 15:15 2nd",
        "04-06 14:00, 04-06 14:15, 04-06 14:30 1st, 04-06 14:45 1st, "
        "04-06 15:00 2nd, 04-06 15:15 2nd",
    ),
    (
        HAVANA,
        "11-03 04:00",
        "11-04 05:00",
        "0 0 * * *",
        "11-03 04:00 1st",
        "11-03 05:00 2nd",
        "11-03 04:00 1st, 11-03 05:00 2nd",
    ),
    (
        HAVANA,
        "11-03 04:00",
        "11-04 05:00",
        "30 0-2 * * *",
        "11-03 04:30 1st, 11-03 06:30, 11-03 07:30",
        "11-03 05:30 2nd, 11-03 06:30, 11-03 07:30",
        "11-03 04:30 1st, 11-03 05:30 2nd, 11-03 06:30, 11-03 07:30",
    ),
    # The last hour of Saturday comes twice; midnight of Sunday comes once, after both.
    (
        BEIRUT,
        "10-25 21:00",
        "10-26 22:00",
        "30 23 * * *",
        "10-26 20:30 1st",
        "10-26 21:30 2nd",
        "10-26 20:30 1st, 10-26 21:30 2nd",
    ),
    (BEIRUT, "10-26 20:00", "10-27 22:00", "0 0 * * *", *["10-26 22:00"] * 3),
    (
        BEIRUT,
        "10-25 21:00",
        "10-26 22:00",
        "0 22-23 * * 6",
        "10-26 19:00, 10-26 20:00 1st",
        "10-26 19:00, 10-26 21:00 2nd",
        "10-26 19:00, 10-26 20:00 1st, 10-26 21:00 2nd",
    ),
    (
        CAIRO,
        "10-30 21:00",
        "10-31 22:00",
        "59 23 L * *",
        "10-31 20:59 1st",
        "10-31 21:59 2nd",
        "10-31 20:59 1st, 10-31 21:59 2nd",
    ),
    (
        ASUNCION,
        "03-23 03:00",
        "03-24 04:00",
        "15 23 * * *",
        "03-24 02:15 1st",
        "03-24 03:15 2nd",
        "03-24 02:15 1st, 03-24 03:15 2nd",
    ),
    (
        SANTIAGO,
        "04-06 03:00",
        "04-07 04:00",
        "0 23 * * *",
        "04-07 02:00 1st",
        "04-07 03:00 2nd",
        "04-07 02:00 1st, 04-07 03:00 2nd",
    ),
]

# zone, from, up to but not including, expression, expected under every policy
REAL = [
    (NY, "03-10 05:00", "03-10 09:00", "0 * * * *", "03-10 05:00, 06:00, 07:00, 08:00"),
    (NY, "03-10 05:00", "03-10 09:00", "30 * * * *", "03-10 05:30, 06:30, 07:30, 08:30"),
    (NY, "03-10 05:00", "03-11 04:00", "*/30 1-3 * * *", "03-10 06:00, 06:30, 07:00, 07:30"),
    (NY, "03-10 05:00", "03-11 04:00", "*/15 2 * * *", ""),
    (NY, "03-10 05:00", "03-10 10:01", "0 */2 * * *", "03-10 05:00, 08:00, 10:00"),
    (NY, "03-10 06:50", "03-10 07:15", "*/5 * * * *", "03-10 06:50, 06:55, 07:00, 07:05, 07:10"),
    (NY, "11-03 04:00", "11-03 09:00", "0 * * * *", "11-03 04:00, 05:00, 06:00, 07:00, 08:00"),
    (NY, "11-03 04:00", "11-04 05:00", "*/30 1 * * *", "11-03 05:00, 05:30, 06:00, 06:30"),
    (NY, "11-03 04:00", "11-03 10:00", "0 */2 * * *", "11-03 04:00, 07:00, 09:00"),
    (NY, "11-03 05:50", "11-03 06:15", "*/5 * * * *", "11-03 05:50, 05:55, 06:00, 06:05, 06:10"),
    (PARIS, "03-30 23:00", "03-31 02:00", "30 * * * *", "03-30 23:30, 03-31 00:30, 01:30"),
    (PARIS, "03-30 23:00", "03-31 22:00", "*/30 1-3 * * *", "03-31 00:00, 00:30, 01:00, 01:30"),
    (PARIS, "03-30 23:00", "03-31 22:00", "*/20 2 * * *", ""),
    (PARIS, "10-26 22:00", "10-27 23:00", "*/30 2 * * *", "10-27 00:00, 00:30, 01:00, 01:30"),
    (PARIS, "10-26 23:30", "10-27 02:30", "0 * * * *", "10-27 00:00, 01:00, 02:00"),
    (HOWE, "10-05 14:00", "10-05 17:01", "0 * * * *", "10-05 14:30, 16:00, 17:00"),
    (HOWE, "10-05 14:00", "10-05 17:01", "30 * * * *", "10-05 14:00, 15:00, 15:30, 16:30"),
    (
        HOWE,
        "10-05 13:30",
        "10-06 13:00",
        "*/15 2-3 * * *",
        "10-05 15:30, 15:45, 16:00, 16:15, 16:30, 16:45",
    ),
    (HOWE, "10-05 13:30", "10-06 13:00", "*/15 3 * * *", "10-05 16:00, 16:15, 16:30, 16:45"),
    (HOWE, "04-06 13:00", "04-06 17:00", "0 * * * *", "04-06 13:00, 14:00, 15:30, 16:30"),
    (HOWE, "04-06 13:00", "04-06 17:00", "45 * * * *", "04-06 13:45, 14:45, 15:15, 16:15"),
    (
        HOWE,
        "04-06 13:00",
        "04-07 13:30",
        "*/15 1-2 * * *",
        "04-06 14:00, 14:15, 14:30, 14:45, 15:00, 15:15, 15:30, 15:45, 16:00, 16:15",
    ),
    (HOWE, "04-06 13:00", "04-07 13:30", "*/15 3 * * *", "04-06 16:30, 16:45, 17:00, 17:15"),
    (HAVANA, "03-10 04:00", "03-10 06:01", "0 * * * *", "03-10 04:00, 05:00, 06:00"),
    (HAVANA, "03-10 05:00", "03-11 04:00", "*/30 0-1 * * *", "03-10 05:00, 05:30"),
    (HAVANA, "03-10 04:00", "03-11 04:00", "*/30 0 * * 0", ""),
    (HAVANA, "03-10 04:00", "03-10 06:30", "*/30 * * * 0", "03-10 05:00, 05:30, 06:00"),
    (HAVANA, "11-03 04:00", "11-04 05:00", "*/30 0 * * *", "11-03 04:00, 04:30, 05:00, 05:30"),
    (BEIRUT, "03-30 21:00", "03-31 00:00", "30 * * * *", "03-30 21:30, 22:30, 23:30"),
    (BEIRUT, "03-30 21:00", "03-31 21:00", "*/20 0 * * *", ""),
    (BEIRUT, "10-26 19:30", "10-26 22:30", "0 * * * *", "10-26 20:00, 21:00, 22:00"),
    (BEIRUT, "10-26 19:30", "10-27 21:00", "*/30 23 * * 6", "10-26 20:00, 20:30, 21:00, 21:30"),
    (CAIRO, "10-31 19:30", "11-01 21:00", "*/30 23 * * *", "10-31 20:00, 20:30, 21:00, 21:30"),
    (SANTIAGO, "09-08 03:00", "09-08 05:01", "0 * * * *", "09-08 03:00, 04:00, 05:00"),
]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"2024-{text}:00").replace(tzinfo=UTC)


def told(timing: Timing, start: str, end: str) -> str:
    """The times in [start, end), as the tables write them."""
    times = timing.between(utc(start) - MINUTE, utc(end) - MINUTE, 100, include_skipped=True)
    return ", ".join(f"{it.at:%m-%d %H:%M} {NOTES[it.note]}".rstrip() for it in times)


def spelled_out(times: str) -> str:
    """A time without a date is on the date before it."""
    day, result = "", []
    for time in filter(None, times.split(", ")):
        day = time[:6] if len(time) > 5 else day
        result.append(time if len(time) > 5 else day + time)
    return ", ".join(result)


@pytest.mark.parametrize("fold", FOLD_POLICIES)
@pytest.mark.parametrize(("zone", "start", "end", "cron", "run_after", "skip"), GAPS)
def test_a_fixed_time_in_the_gap(
    zone: str, start: str, end: str, cron: str, run_after: str, skip: str, fold: Fold
) -> None:
    for gap, expected in zip(GAP_POLICIES, (run_after, skip), strict=True):
        timing = Timing.of(cron=cron, timezone=zone, gap=gap, fold=fold)
        assert told(timing, start, end) == expected, gap


@pytest.mark.parametrize("gap", GAP_POLICIES)
@pytest.mark.parametrize(("zone", "start", "end", "cron", "first", "second", "both"), FOLDS)
def test_a_fixed_time_in_the_repeated_hour(
    zone: str, start: str, end: str, cron: str, first: str, second: str, both: str, gap: Gap
) -> None:
    for fold, expected in zip(FOLD_POLICIES, (first, second, both), strict=True):
        timing = Timing.of(cron=cron, timezone=zone, gap=gap, fold=fold)
        assert told(timing, start, end) == expected, fold


@pytest.mark.parametrize("fold", FOLD_POLICIES)
@pytest.mark.parametrize("gap", GAP_POLICIES)
@pytest.mark.parametrize(("zone", "start", "end", "cron", "expected"), REAL)
def test_a_wildcard_follows_real_time_under_every_policy(
    zone: str, start: str, end: str, cron: str, expected: str, gap: Gap, fold: Fold
) -> None:
    timing = Timing.of(cron=cron, timezone=zone, gap=gap, fold=fold)
    assert told(timing, start, end) == spelled_out(expected)


@pytest.mark.parametrize("minutes", range(0, 180, 5))
def test_it_does_not_matter_where_in_the_repeated_hour_we_ask(minutes: int) -> None:
    """A ticker may wake anywhere: what is past stays past, what is to come comes."""
    both = Timing.of(cron="10,50 1 * * *", timezone=NY, fold="both")
    expected = ["05:10", "05:50", "06:10", "06:50"]
    now = utc("11-03 04:30") + minutes * MINUTE
    coming = both.between(now, utc("11-03 08:00"), 9)
    assert [f"{it.at:%H:%M}" for it in coming] == [it for it in expected if it > f"{now:%H:%M}"]


def test_seconds_keep_the_policies_of_fixed_times() -> None:
    fixed = Timing.of(cron="15 30 2 * * *", with_seconds=True, timezone=NY)
    assert told(fixed, "03-10 05:00", "03-11 04:00") == "03-10 07:00 gap"
    real = Timing.of(cron="*/30 30 1 * * *", with_seconds=True, timezone=NY)
    assert told(real, "11-03 04:00", "11-04 05:00") == (
        "11-03 05:30, 11-03 05:30, 11-03 06:30, 11-03 06:30"
    )
