from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import TimingError
from rota.timing import Calendar
from rota.timing.calendar import next_allowed_day, reason_against
from rota.timing.calendar_json import from_json, to_json
from rota.timing.windows import DailyWindow, DatedWindow

PARIS = "Europe/Paris"
CHRISTMAS = date(2026, 12, 25)  # a Friday


def paris(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(PARIS))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_holiday_is_a_whole_day_of_the_calendars_zone() -> None:
    calendar = Calendar("fr", PARIS, holidays=[CHRISTMAS])
    assert calendar.is_allowed(utc("2026-12-24 22:59:59"))
    assert calendar.reason_against(utc("2026-12-24 23:00")) == "fr: 2026-12-25 is a holiday"
    assert not calendar.is_allowed(utc("2026-12-25 22:59:59"))
    assert calendar.is_allowed(utc("2026-12-25 23:00"))


def test_weekends_are_saturday_and_sunday_or_what_you_say() -> None:
    usual = Calendar("w", weekends=True)
    assert [day for day in range(7) if usual.is_allowed(utc(f"2026-06-0{day + 1} 12:00"))] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert usual.reason_against(utc("2026-06-06 12:00")) == "w: 2026-06-06 is a Saturday"
    gulf = Calendar("gulf", weekends={"fri", "SAT"})
    assert not gulf.is_allowed(utc("2026-06-05 12:00"))
    assert gulf.is_allowed(utc("2026-06-07 12:00"))
    assert Calendar("none").is_allowed(utc("2026-06-06 12:00"))


def test_a_window_holds_from_its_start_up_to_its_end() -> None:
    calendar = Calendar("night", PARIS, windows=[DailyWindow(time(1, 30), time(4))])
    assert calendar.is_allowed(paris("2026-06-01 01:29:59"))
    assert not calendar.is_allowed(paris("2026-06-01 01:30"))
    assert not calendar.is_allowed(paris("2026-06-01 03:59:59"))
    assert calendar.is_allowed(paris("2026-06-01 04:00"))
    assert calendar.reason_against(paris("2026-06-01 02:00")) == (
        "night: within the window 01:30-04:00"
    )


def test_a_window_over_midnight_belongs_to_the_day_it_starts_on() -> None:
    window = DailyWindow(time(22), time(2), frozenset({"FRI"}))
    calendar = Calendar("deploy", PARIS, windows=[window])
    blocked = ["2026-06-05 22:00", "2026-06-05 23:59", "2026-06-06 00:00", "2026-06-06 01:59"]
    allowed = ["2026-06-05 01:00", "2026-06-05 21:59", "2026-06-06 02:00", "2026-06-06 22:00"]
    assert [it for it in blocked + allowed if not calendar.is_allowed(paris(it))] == blocked
    assert str(window) == "22:00-02:00 on FRI"


def test_equal_ends_are_a_whole_day() -> None:
    calendar = Calendar("c", windows=[DailyWindow(time(6), time(6), frozenset({"MON"}))])
    assert not calendar.is_allowed(utc("2026-06-01 06:00"))
    assert not calendar.is_allowed(utc("2026-06-02 05:59"))
    assert calendar.is_allowed(utc("2026-06-02 06:00"))


def test_a_dated_window_is_of_instants() -> None:
    window = DatedWindow(paris("2026-06-01 00:00"), paris("2026-06-02 00:00"))
    calendar = Calendar("freeze", windows=[window])
    assert calendar.is_allowed(utc("2026-05-31 21:59"))
    assert not calendar.is_allowed(utc("2026-05-31 22:00"))
    assert calendar.is_allowed(utc("2026-06-01 22:00"))
    assert "2026-05-31 22:00 to 2026-06-01 22:00 UTC" in str(
        calendar.reason_against(utc("2026-06-01 12:00"))
    )


def test_the_next_allowed_day_has_the_same_local_time() -> None:
    calendar = Calendar("fr", PARIS, holidays=[CHRISTMAS], weekends=True)
    assert calendar.next_allowed_day(paris("2026-12-25 09:00")) == paris("2026-12-28 09:00")
    # The clocks change in the night to Sunday, and nine stays nine.
    assert calendar.next_allowed_day(paris("2026-03-28 09:00")) == paris("2026-03-30 09:00")
    assert calendar.next_allowed_day(paris("2026-06-01 09:00")) == paris("2026-06-02 09:00")


def test_the_local_time_is_that_of_the_schedule() -> None:
    calendar = Calendar("fr", PARIS, weekends=True)
    new_york = ZoneInfo("America/New_York")
    moved = calendar.next_allowed_day(utc("2026-03-28 13:00"), new_york)  # Saturday 09:00 there
    assert moved == utc("2026-03-30 13:00")
    assert calendar.next_allowed_day(utc("2026-03-28 13:00")) == utc("2026-03-30 12:00")


def test_a_day_missing_from_the_clock_moves_to_right_after_the_gap() -> None:
    calendar = Calendar("c", PARIS, holidays=[date(2024, 3, 30)])
    moved = calendar.next_allowed_day(paris("2024-03-30 02:30"))
    assert moved == utc("2024-03-31 01:00")


def test_a_calendar_that_allows_nothing_has_no_next_day() -> None:
    never = Calendar("never", weekends={"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"})
    assert never.next_allowed_day(utc("2026-06-01 09:00")) is None
    noon = Calendar("noon", windows=[DailyWindow(time(12), time(13))])
    assert noon.next_allowed_day(utc("2026-06-01 12:30")) is None


def test_several_calendars_must_all_allow() -> None:
    weekend, holiday = Calendar("w", weekends=True), Calendar("h", holidays=[date(2026, 6, 8)])
    friday = utc("2026-06-05 09:00")
    assert next_allowed_day(friday, [weekend, holiday], UTC) == utc("2026-06-09 09:00")
    assert reason_against(friday, [weekend, holiday]) is None
    assert reason_against(friday + timedelta(days=3), [weekend, holiday]) == (
        "h: 2026-06-08 is a holiday"
    )


def test_the_stored_form_comes_back_the_same() -> None:
    calendar = Calendar(
        "all",
        PARIS,
        [CHRISTMAS, date(2026, 1, 1)],
        {"FRI", "SAT"},
        [
            DailyWindow(time(22), time(2, 0, 30), frozenset({"FRI", "MON"})),
            DatedWindow(utc("2026-03-01 00:00"), utc("2026-03-02 00:00")),
        ],
    )
    assert to_json(calendar) == {
        "name": "all",
        "timezone": PARIS,
        "holidays": ["2026-01-01", "2026-12-25"],
        "weekends": ["FRI", "SAT"],
        "windows": [
            {"start": "22:00", "end": "02:00:30", "weekdays": ["MON", "FRI"]},
            {"from": "2026-03-01T00:00:00+00:00", "to": "2026-03-02T00:00:00+00:00"},
        ],
    }
    assert from_json(json.loads(json.dumps(to_json(calendar)))) == calendar
    assert pickle.loads(pickle.dumps(calendar)) == calendar
    assert hash(calendar) == hash(pickle.loads(pickle.dumps(calendar)))


def test_what_the_stored_form_leaves_out_has_its_default() -> None:
    assert from_json({"name": "c"}) == Calendar("c")
    assert from_json({"name": "c", "weekends": True}) == Calendar("c", weekends=True)
    assert from_json({"name": "c", "windows": [{"start": "01:00", "end": "02:00"}]}) == Calendar(
        "c", windows=[DailyWindow(time(1), time(2))]
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a calendar must be an object with name"),
        ({}, "a calendar needs a name"),
        ({"name": " "}, "a calendar needs a name"),
        ({"name": 5}, "a calendar needs a name"),
        (
            {"name": "c", "holiday": []},
            "unknown key holiday; choose from name, timezone, holidays",
        ),
        ({"name": "c", "timezone": "Mars/Base"}, "unknown time zone 'Mars/Base'"),
        ({"name": "c", "timezone": 5}, "timezone must be a string"),
        ({"name": "c", "holidays": "2026-01-01"}, "holidays must be a list"),
        ({"name": "c", "holidays": ["2026-02-30"]}, "'2026-02-30' is not a date"),
        ({"name": "c", "holidays": [5]}, "calendar 'c': 5 is not a date"),
        ({"name": "c", "weekends": "SAT"}, "weekends must be true, false or a list"),
        ({"name": "c", "weekends": ["SATURDAY"]}, "unknown weekday SATURDAY; use MON"),
        ({"name": "c", "windows": ["22:00"]}, "a window must be an object with start, end"),
        ({"name": "c", "windows": [{"start": "22:00"}]}, "None is not a time of day"),
        ({"name": "c", "windows": [{"start": "25:00", "end": "1:00"}]}, "'25:00' is not a time"),
        (
            {"name": "c", "windows": [{"start": "22:00", "end": "02:00", "weekdays": []}]},
            "needs at least one weekday",
        ),
        (
            {"name": "c", "windows": [{"start": "22:00Z", "end": "02:00"}]},
            "omit the offset",
        ),
        (
            {"name": "c", "windows": [{"from": "2026-01-01T00:00:00", "to": "2026-01-02"}]},
            "has no time zone",
        ),
        (
            {"name": "c", "windows": [{"from": "2026-01-02T00:00Z", "to": "2026-01-01T00:00Z"}]},
            "a window ends before it starts",
        ),
        (
            {"name": "c", "windows": [{"from": "2026-01-02T00:00Z", "until": "2026"}]},
            "a window: unknown key until; choose from from, to",
        ),
    ],
)
def test_mistakes_in_the_stored_form_are_named(data: Any, message: str) -> None:
    with pytest.raises(TimingError, match=message):
        from_json(data)


def test_mistakes_in_python_are_named() -> None:
    with pytest.raises(TimingError, match="a holiday must be a date"):
        Calendar("c", holidays=[utc("2026-01-01 00:00")])
    with pytest.raises(TimingError, match="must be a DailyWindow or a DatedWindow"):
        Calendar("c", windows=[("22:00", "02:00")])  # type: ignore[list-item]
    with pytest.raises(TimingError, match=r"instant .* has no time zone"):
        Calendar("c").is_allowed(datetime(2026, 1, 1))  # noqa: DTZ001
