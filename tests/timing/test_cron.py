from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.errors import TimingError
from rota.timing import Timing
from rota.timing.cron import MACROS, CronRule


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def coming(after: str, count: int, cron: str, **options: Any) -> list[str]:
    times = Timing.of(cron=cron, **options).times(utc(after))
    return [f"{next(times).at:%Y-%m-%d %H:%M}" for _ in range(count)]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 31 * *", ["2026-01-31 00:00", "2026-03-31 00:00", "2026-05-31 00:00"]),
        ("0 0 30 * *", ["2026-01-30 00:00", "2026-03-30 00:00", "2026-04-30 00:00"]),
        ("0 0 L * *", ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00"]),
        ("0 0 L 2 *", ["2026-02-28 00:00", "2027-02-28 00:00", "2028-02-29 00:00"]),
        ("0 0 LW * *", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"]),
        ("0 0 * * 5L", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"]),
        ("0 0 * * 7L", ["2026-01-25 00:00", "2026-02-22 00:00", "2026-03-29 00:00"]),
        ("0 0 * * MON#1", ["2026-01-05 00:00", "2026-02-02 00:00", "2026-03-02 00:00"]),
        ("0 0 * * 5#5", ["2026-01-30 00:00", "2026-05-29 00:00", "2026-07-31 00:00"]),
        ("59 23 31 12 *", ["2026-12-31 23:59", "2027-12-31 23:59"]),
        ("0 0 1 1 *", ["2027-01-01 00:00", "2028-01-01 00:00"]),
        ("30 6 * JAN-MAR/2 mon", ["2026-01-05 06:30", "2026-01-12 06:30", "2026-01-19 06:30"]),
        ("0 0 * * 0", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * 7", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * 5-7", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]),
        ("10,20 5 * * *", ["2026-01-01 05:10", "2026-01-01 05:20", "2026-01-02 05:10"]),
        ("50/5 5 * * *", ["2026-01-01 05:50", "2026-01-01 05:55", "2026-01-02 05:50"]),
    ],
)
def test_what_an_expression_means(cron: str, expected: list[str]) -> None:
    assert coming("2026-01-01 00:00", len(expected), cron) == expected


def test_day_of_month_or_day_of_week_when_both_are_restricted() -> None:
    assert coming("2026-01-01 00:00", 5, "0 0 1,15 * FRI") == [
        "2026-01-02 00:00",
        "2026-01-09 00:00",
        "2026-01-15 00:00",
        "2026-01-16 00:00",
        "2026-01-23 00:00",
    ]


def test_day_of_month_and_day_of_week_when_one_begins_with_a_star() -> None:
    """Debian's rule: a step from `*` does not count as a restriction of its own."""
    assert coming("2026-01-01 00:00", 3, "0 0 */2 * FRI") == [
        "2026-01-09 00:00",
        "2026-01-23 00:00",
        "2026-02-13 00:00",
    ]


@pytest.mark.parametrize("macro", sorted(MACROS))
def test_a_macro_is_its_expression_in_any_case(macro: str) -> None:
    expected = coming("2026-01-01 00:00", 3, MACROS[macro])
    assert coming("2026-01-01 00:00", 3, macro) == expected
    assert coming("2026-01-01 00:00", 3, f" {macro.upper()} ") == expected


def test_the_macros_that_are_promised() -> None:
    names = "@yearly @annually @monthly @weekly @daily @midnight @hourly"
    assert set(MACROS) == set(names.split())


def test_seconds_stand_first_and_only_when_asked_for() -> None:
    times = Timing.of(cron="*/20 5 9 * * *", with_seconds=True).times(utc("2026-01-01 00:00"))
    assert [f"{next(times).at:%H:%M:%S}" for _ in range(3)] == ["09:05:00", "09:05:20", "09:05:40"]
    with pytest.raises(TimingError, match="six fields, but seconds are not enabled") as caught:
        Timing.of(cron="*/20 5 9 * * *")
    assert "has_seconds" in str(caught.value.hint)


def test_five_fields_mean_the_same_when_seconds_are_allowed() -> None:
    assert coming("2026-01-01 00:00", 3, "5 9 * * *", with_seconds=True) == coming(
        "2026-01-01 00:00", 3, "5 9 * * *"
    )


@pytest.mark.parametrize(
    ("cron", "message", "hint"),
    [
        ("61 * * * *", r"cron '61 \* \* \* \*': '61' is not a minute; it takes 0-59", "ranges"),
        ("0 24 * * *", "'24' is not an hour; it takes 0-23", "ranges"),
        ("0 0 32 * *", "'32' is not a day-of-month", "ranges"),
        ("0 0 * 13 *", "'13' is not a month; it takes 1-12 or JAN-DEC", "ranges"),
        ("0 0 * * 8", "'8' is not a day-of-week", "ranges"),
        ("0 0 * * FRI-SUN", "'FRI-SUN' is not a day-of-week", "write FRI-SUN as 5-7"),
        ("0 22-2 * * *", "'22-2' is not an hour", "22-23,0-2"),
        ("0 0 * * FRIL", "'FRIL' is not a day-of-week", "5L is the last Friday"),
        ("*/0 * * * *", r"'\*/0' is not a minute", "steps"),
        ("1,,2 * * * *", "'1,,2' is not a minute", "lists"),
        ("x * * * *", "'x' is not a minute", "lists"),
        ("0 0 30 2 *", "never matches: none of its months has a day 30", None),
        ("0 0 */30 2 MON#5", "never matches: there is no such date", None),
        ("", "is empty and needs five fields", "minute hour"),
        ("5", "has 1 field and needs five fields", "minute hour"),
        ("* * * *", "has 4 fields", "minute hour"),
        ("* * * * * * *", "has 7 fields", "minute hour"),
        ("@reboot", "is not supported", "use init"),
        ("@fortnightly", "unknown macro", "@hourly"),
        ("* " * 600, "at most 1000 characters", None),
    ],
)
def test_a_wrong_expression_is_quoted_and_explained(
    cron: str, message: str, hint: str | None
) -> None:
    with pytest.raises(TimingError, match=message) as caught:
        Timing.of(cron=cron)
    assert (hint or "") in (caught.value.hint or "")


def test_seconds_are_named_by_their_own_place() -> None:
    with pytest.raises(TimingError, match="'61' is not a second"):
        Timing.of(cron="61 * * * * *", with_seconds=True)
    with pytest.raises(TimingError, match="'62' is not a minute"):
        Timing.of(cron="0 62 * * * *", with_seconds=True)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TimingError, match="must be a string"):
        Timing.of(cron=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cron", "is_fixed"),
    [
        ("30 2 * * *", True),
        ("0-59/15 2 * * *", True),
        ("0 1-5 * * *", True),
        ("*/15 2 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
        ("@daily", True),
        ("@hourly", False),
    ],
)
def test_an_expression_is_fixed_by_how_it_is_written(cron: str, is_fixed: bool) -> None:
    assert CronRule(cron, UTC).is_fixed is is_fixed


def test_offsets_that_are_odd_or_change_the_date() -> None:
    noon = "2026-07-01 00:00"
    assert coming(noon, 1, "0 9 * * *", timezone="Asia/Kathmandu") == ["2026-07-01 03:15"]
    assert coming(noon, 1, "0 9 * * *", timezone="Australia/Eucla") == ["2026-07-01 00:15"]
    assert coming(noon, 1, "0 9 * * *", timezone="Pacific/Kiritimati") == ["2026-07-01 19:00"]
    assert coming(noon, 1, "0 9 * * *", timezone="Pacific/Marquesas") == ["2026-07-01 18:30"]
    assert coming(noon, 1, "0 0 1 * *", timezone="Pacific/Kiritimati") == ["2026-07-31 10:00"]


def test_dates_far_ahead_keep_the_zones_last_known_rules() -> None:
    # 2099-03-08 is the second Sunday of March.
    assert coming("2099-03-08 00:00", 1, "30 2 * * *", timezone="America/New_York") == [
        "2099-03-08 07:00"
    ]
    assert coming("2399-12-31 23:00", 1, "0 0 29 2 *") == ["2400-02-29 00:00"]


@pytest.mark.parametrize("cron", ["0 0 * * *", "* * * * *"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_the_ends_of_the_calendar_are_no_error(cron: str, zone: str) -> None:
    timing = Timing.of(cron=cron, timezone=zone)
    assert timing.after(datetime.max.replace(tzinfo=UTC)) is None
    assert timing.after(utc("9799-12-31 23:59:59")) is None
    assert timing.after(datetime.min.replace(tzinfo=UTC)) is not None


def test_a_part_of_a_second_is_neither_lost_nor_doubled() -> None:
    timing = Timing.of(cron="0 9 * * *")
    nine = utc("2026-01-01 09:00")
    tick = timedelta(microseconds=1)
    assert timing.after(nine - tick) == nine
    assert timing.after(nine) == timing.after(nine + tick) == nine + timedelta(days=1)
