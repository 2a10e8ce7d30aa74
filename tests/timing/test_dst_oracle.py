"""Any expression, on any transition, against a search that tries every minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.timing import Timing
from rota.timing.dst import Fold, Gap

MINUTE = timedelta(minutes=1)
CHANGES = [
    ("America/New_York", "2024-03-10T07:00Z"),
    ("America/New_York", "2024-11-03T06:00Z"),
    ("Europe/Paris", "2024-03-31T01:00Z"),
    ("Europe/Paris", "2024-10-27T01:00Z"),
    ("Australia/Lord_Howe", "2024-10-05T15:30Z"),
    ("Australia/Lord_Howe", "2024-04-06T15:00Z"),
    ("America/Havana", "2024-03-10T05:00Z"),
    ("America/Havana", "2024-11-03T05:00Z"),
    ("Asia/Beirut", "2024-03-30T22:00Z"),
    ("Asia/Beirut", "2024-10-26T21:00Z"),
    ("America/St_Johns", "2010-03-14T03:31Z"),
    ("America/St_Johns", "2010-11-07T02:31Z"),
    ("Africa/Casablanca", "2024-03-10T02:00Z"),
    ("Antarctica/Troll", "2024-03-31T01:00Z"),
    ("Antarctica/Troll", "2024-10-27T01:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
    ("Asia/Pyongyang", "2018-05-04T15:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30Z"),
]


@dataclass
class Spec:
    """An expression together with what it means, so that nothing has to be parsed here."""

    text: str
    minutes: set[int]
    hours: set[int]
    weekdays: set[int]
    is_real: bool

    def matches(self, wall: datetime) -> bool:
        day = (wall.weekday() + 1) % 7
        return wall.minute in self.minutes and wall.hour in self.hours and day in self.weekdays


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    minute, minutes = draw(parts(60, (5, 15, 20, 30)))
    hour, hours = draw(parts(24, (2, 3, 6)))
    weekday, weekdays = draw(st.just(("*", set(range(7)))) | lists(7))
    is_real = minute.startswith("*") or hour.startswith("*")
    return Spec(f"{minute} {hour} * * {weekday}", minutes, hours, weekdays, is_real)


def parts(size: int, steps: tuple[int, ...]) -> st.SearchStrategy[tuple[str, set[int]]]:
    step = st.sampled_from(steps)
    return st.one_of(
        st.just(("*", set(range(size)))),
        step.map(lambda it: (f"*/{it}", set(range(0, size, it)))),
        step.map(lambda it: (f"0-{size - 1}/{it}", set(range(0, size, it)))),
        lists(size),
        lists(min(size, 4)),
    )


def lists(size: int) -> st.SearchStrategy[tuple[str, set[int]]]:
    values = st.sets(st.integers(0, size - 1), min_size=1, max_size=4)
    return values.map(lambda it: (",".join(map(str, it)), it))


def searched(
    spec: Spec, zone: ZoneInfo, start: datetime, end: datetime, gap: Gap, fold: Fold
) -> set[datetime]:
    if spec.is_real:
        count = (end - start) // MINUTE
        instants = (start + step * MINUTE for step in range(count))
        return {it for it in instants if spec.matches(it.astimezone(zone))}
    found: set[datetime] = set()
    wall = start.replace(tzinfo=None) - timedelta(days=3)
    while wall < end.replace(tzinfo=None) + timedelta(days=3):
        if spec.matches(wall):
            found |= placed(wall, zone, gap, fold)
        wall += MINUTE
    return {it for it in found if start <= it < end}


def placed(wall: datetime, zone: ZoneInfo, gap: Gap, fold: Fold) -> set[datetime]:
    passes = passes_of(wall, zone)
    if passes:
        return set({"first": passes[:1], "second": passes[-1:], "both": passes}[fold])
    while not passes:
        wall += MINUTE
        passes = passes_of(wall, zone)
    return set(passes[:1]) if gap == "run_after" else set()


def passes_of(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants at which the clocks really show that time."""
    instants = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(it for it in instants if it.astimezone(zone).replace(tzinfo=None, fold=0) == wall)


@pytest.mark.parametrize(("name", "change"), CHANGES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_minute_tried_finds_the_same(name: str, change: str, data: st.DataObject) -> None:
    spec = data.draw(specs())
    gap: Gap = data.draw(st.sampled_from(["run_after", "skip"]))
    fold: Fold = data.draw(st.sampled_from(["first", "second", "both"]))
    middle = datetime.fromisoformat(change)
    start = middle + data.draw(st.integers(-30 * 60, 2 * 60)) * MINUTE
    end = start + timedelta(hours=36)
    timing = Timing.of(cron=spec.text, timezone=name, gap=gap, fold=fold)
    found = [it.at for it in timing.between(start - MINUTE, end - MINUTE, 10_000)]
    assert found == sorted(searched(spec, ZoneInfo(name), start, end, gap, fold))
