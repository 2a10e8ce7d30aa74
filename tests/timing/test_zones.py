from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rota.errors import TimingError
from rota.timing import Timing, zones


@pytest.fixture
def no_zone_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with neither the system's zone data nor the package."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    ZoneInfo.clear_cache()
    monkeypatch.setattr(zoneinfo, "available_timezones", lambda: set[str]())
    monkeypatch.setattr("importlib.resources.files", lambda _: Path("/nowhere"))
    monkeypatch.setattr("importlib.resources.open_binary", _not_found)
    monkeypatch.setattr(metadata, "version", missing)
    yield
    zoneinfo.reset_tzpath(to=before)
    ZoneInfo.clear_cache()


def _not_found(*_: object, **__: object) -> None:
    raise FileNotFoundError


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("europe/paris", "did you mean Europe/Paris?"),
        ("Paris", "did you mean Europe/Paris?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Pariss", "Europe/Paris"),
        ("Amercia/New_York", "America/New_York"),
        ("utc", "did you mean UTC?"),
        ("Z", "did you mean UTC?"),
        ("+02:00", "use an IANA name"),
        ("", "use an IANA name"),
        ("Europe", "use an IANA name"),
        ("../../etc/passwd", "use an IANA name"),
        ("/etc/localtime", "use an IANA name"),
    ],
)
def test_an_unknown_zone_is_an_error_with_the_nearest(name: str, suggested: str) -> None:
    with pytest.raises(TimingError, match="unknown time zone") as caught:
        Timing.of(interval_seconds=60, timezone=name)
    assert suggested in str(caught.value.hint)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "Factory", "posix/UTC", "right/UTC"])
def test_names_that_mean_another_zone_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(TimingError, match="unknown time zone"):
        zones.zone(name)
    assert name not in zones.names()


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TimingError, match="unknown time zone None"):
        zones.zone(None)  # type: ignore[arg-type]


def test_where_zone_data_comes_from() -> None:
    source = zones.data_source()
    assert source is not None
    assert "zoneinfo" in source or "tzdata" in source


@pytest.mark.usefixtures("no_zone_data")
def test_without_zone_data_the_error_says_so_and_utc_still_works() -> None:
    assert zones.data_source() is None
    with pytest.raises(TimingError, match="no time zone data on this machine") as caught:
        Timing.of(cron="0 9 * * *", timezone="Europe/Paris")
    assert "tzdata" in str(caught.value.hint)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert Timing.of(cron="0 9 * * *").after(start) == start + timedelta(hours=9)


def test_the_changes_of_a_year() -> None:
    found = zones.shifts(ZoneInfo("Australia/Lord_Howe"), 2024)
    half = timedelta(minutes=30)
    assert [(it.at, it.is_gap, it.after - it.before) for it in found] == [
        (datetime(2024, 4, 6, 15, tzinfo=UTC), False, -half),
        (datetime(2024, 10, 5, 15, 30, tzinfo=UTC), True, half),
    ]
    assert zones.shifts(UTC, 2024) == zones.shifts(ZoneInfo("Asia/Tokyo"), 2024) == ()


def test_a_change_at_the_turn_of_the_year_is_found_once() -> None:
    kathmandu = ZoneInfo("Asia/Kathmandu")  # 1986-01-01 00:00 local
    near = [it.at for year in (1985, 1986) for it in zones.shifts(kathmandu, year)]
    assert near == [datetime(1985, 12, 31, 18, 30, tzinfo=UTC)]
    monrovia = ZoneInfo("Africa/Monrovia")  # 1972-01-07, by 44 minutes and 30 seconds
    assert [it.after - it.before for it in zones.shifts(monrovia, 1972)] == [
        timedelta(minutes=44, seconds=30)
    ]


def test_changed_rules_change_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone read again after an update of the data is another object: nothing old is kept."""
    old, new = ZoneInfo("America/New_York"), ZoneInfo("America/Bogota")
    after = datetime(2024, 7, 1, tzinfo=UTC)
    seen = []
    for current in (old, new):
        monkeypatch.setattr(zones, "ZoneInfo", lambda _, it=current: it)
        for cron in ("0 9 * * *", "*/30 9 * * *"):
            following = Timing.of(cron=cron, timezone="America/New_York").after(after)
            seen.append(f"{following:%H:%M}")
    assert seen == ["13:00", "13:00", "14:00", "14:00"]
