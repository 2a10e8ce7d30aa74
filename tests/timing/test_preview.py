from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.errors import TimingError
from rota.timing import Timing, preview

NY = "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def notes(after: str, count: int, zone: str = NY, **options: Any) -> list[str]:
    rows = preview(Timing.of(timezone=zone, **options), utc(after), count)
    return [f"{it.local:%m-%d %H:%M} {it.note}".rstrip() for it in rows]


def test_a_row_has_the_instant_both_local_times_and_a_note() -> None:
    timing = Timing.of(cron="30 2 * * *", timezone=NY)
    rows = preview(timing, utc("2024-03-09 08:00"), 2, viewer_zone="Asia/Kolkata")
    assert [row.to_json() for row in rows] == [
        {
            "at": "2024-03-10T07:00:00Z",
            "local": "2024-03-10T03:00:00-04:00",
            "viewer_local": "2024-03-10T12:30:00+05:30",
            "note": "clocks go forward: 02:30 does not exist, runs at 03:00",
        },
        {
            "at": "2024-03-11T06:30:00Z",
            "local": "2024-03-11T02:30:00-04:00",
            "viewer_local": "2024-03-11T12:00:00+05:30",
            "note": "",
        },
    ]


def test_without_a_viewer_there_is_no_viewers_time() -> None:
    (row,) = preview(Timing.of(interval_seconds=60), utc("2024-03-09 08:00"), 1)
    assert row.to_json()["viewer_local"] is None


def test_a_skipped_time_is_told_by_the_row_after_it() -> None:
    assert notes("2024-03-09 08:00", 2, cron="30 2 * * *", gap="skip") == [
        "03-11 02:30 before it, on 2024-03-10, clocks go forward: 02:30 does not exist, skipped",
        "03-12 02:30",
    ]


def test_a_skipped_time_has_its_own_row_when_asked_for() -> None:
    timing = Timing.of(cron="0,30 2 * * *", timezone=NY, gap="skip")
    rows = preview(timing, utc("2024-03-09 08:00"), 2, include_skipped=True)
    assert [(row.is_skipped, row.note) for row in rows] == [
        (True, "clocks go forward: 02:00 and 02:30 do not exist, skipped"),
        (False, ""),
    ]


def test_the_repeated_hour() -> None:
    assert notes("2024-11-03 04:00", 2, cron="30 1 * * *", fold="both") == [
        "11-03 01:30 clocks go back: 01:30 comes twice, this is the first",
        "11-03 01:30 clocks go back: 01:30 comes twice, this is the second",
    ]
    assert notes("2024-11-03 04:00", 3, cron="0 * * * *") == [
        "11-03 01:00 clocks go back: 01:00 comes twice, this is the first",
        "11-03 01:00 clocks go back: 01:00 comes twice, this is the second",
        "11-03 02:00 clocks go back on this day: 02:00 becomes 01:00",
    ]


def test_every_time_on_such_a_day_is_marked() -> None:
    assert notes("2024-03-09 08:00", 3, cron="0 9 * * *") == [
        "03-09 09:00",
        "03-10 09:00 clocks go forward on this day: 02:00 becomes 03:00",
        "03-11 09:00",
    ]


def test_a_change_at_midnight_marks_the_days_on_both_sides() -> None:
    assert notes("2024-10-25 22:00", 3, zone="Asia/Beirut", cron="0 9 * * *") == [
        "10-26 09:00 clocks go back on this day: 00:00 becomes 23:00",
        "10-27 09:00 clocks go back on this day: 00:00 becomes 23:00",
        "10-28 09:00",
    ]


def test_by_count_by_end_or_by_whichever_comes_first() -> None:
    timing, after = Timing.of(cron="0 * * * *"), utc("2026-01-01 00:00")
    assert len(preview(timing, after, until=utc("2026-01-01 05:00"))) == 5
    assert len(preview(timing, after, 3, until=utc("2026-01-01 05:00"))) == 3
    assert len(preview(timing, after, 9, until=utc("2026-01-01 05:00"))) == 5
    assert preview(timing, after, 0) == []
    with pytest.raises(TimingError, match="needs a count or an end"):
        preview(timing, after)


def test_a_range_without_count_is_cut() -> None:
    timing = Timing.of(interval_seconds=1)
    rows = preview(timing, utc("2026-01-01 00:00"), until=utc("2026-02-01 00:00"))
    assert len(rows) == 10_000


def test_an_unknown_viewers_zone_is_an_error() -> None:
    with pytest.raises(TimingError, match="unknown time zone 'Mars'"):
        preview(Timing.of(interval_seconds=60), utc("2026-01-01 00:00"), 1, viewer_zone="Mars")
