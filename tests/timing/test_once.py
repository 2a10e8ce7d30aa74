from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import TimingError
from rota.timing import Timing
from rota.timing.once import instant_of

AT = datetime(2026, 5, 1, 9, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")
MISSING = datetime(2024, 3, 10, 2, 30)  # noqa: DTZ001  a local time
REPEATED = datetime(2024, 11, 3, 1, 30)  # noqa: DTZ001


def test_it_comes_once_and_never_again() -> None:
    timing = Timing.of(run_at=AT)
    assert timing.kind == "once"
    assert timing.after(AT - timedelta(days=900)) == AT
    assert timing.after(AT) is None
    assert timing.after(AT + timedelta(days=1)) is None
    assert timing.count_between(AT - timedelta(days=1), AT) == 1
    assert timing.latest_between(AT - timedelta(days=1), AT + timedelta(days=1)) is not None
    assert timing.between(AT, AT + timedelta(days=1), 5) == []


def test_any_offset_names_the_same_instant() -> None:
    assert Timing.of(run_at=AT.astimezone(NEW_YORK)) == Timing.of(run_at=AT)


def test_without_an_offset_it_is_refused() -> None:
    with pytest.raises(TimingError, match="run_at 2026-05-01 09:00:00 has no time zone") as caught:
        Timing.of(run_at=AT.replace(tzinfo=None))
    assert "give an offset" in str(caught.value.hint)


def test_the_last_instant_of_the_calendar() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert Timing.of(run_at=last).after(AT) == last
    assert Timing.of(run_at=last).after(last) is None


def test_a_local_time_that_a_person_wrote() -> None:
    wall = AT.replace(tzinfo=None)
    assert instant_of(wall, NEW_YORK) == datetime(2026, 5, 1, 13, tzinfo=UTC)
    assert instant_of(wall, UTC) == AT


def test_a_local_time_that_is_missing_or_repeated() -> None:
    assert instant_of(MISSING, NEW_YORK) == datetime(2024, 3, 10, 7, tzinfo=UTC)
    assert instant_of(REPEATED, NEW_YORK) == datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
    second = instant_of(REPEATED, NEW_YORK, fold="second")
    assert second == datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
    with pytest.raises(TimingError, match="2024-03-10 02:30 does not exist in America/New_York"):
        instant_of(MISSING, NEW_YORK, gap="skip")
