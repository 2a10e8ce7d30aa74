"""The calendar: the coming load, pile-ups, the day ahead; calendars made and changed here."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import rota
from rota.timing.load import Day, Load, PlannedSchedule, simulate
from rota.timing.timing import Timing
from rota.web import forecasts
from rota.web.calendar_form import CalendarDraft, closed_words, definition_of, draft_of
from rota.web.heat import heat_of, level_of
from tests.web.conftest import Browser

VIENNA = ZoneInfo("Europe/Vienna")


@pytest.fixture
async def busy(shop: rota.App) -> rota.App:
    for number in range(6):
        await shop.schedules.create(f"close-{number}", "clean", cron="0 0 * * *", tags=["night"])
    await shop.schedules.create("hourly", "send", cron="30 * * * *", payload={"user_id": 1})
    return shop


async def test_the_coming_days(web: Browser, busy: rota.App) -> None:
    await web.get("/calendar")
    assert f"{7 * 24 + 6 * 7} runs planned in the next 7 days, times in UTC" in web.text
    assert "6 at 00:00 , on 7 days" in web.text
    assert "close-0, close-1, close-2, close-3, close-4 and 1 more" in web.text
    assert "The next 24 hours" in web.text
    assert 'aria-label="hourly: 24 runs"' in web.page
    await web.get("/calendar?days=1&tag=night")
    assert "6 runs planned in the next 24 hours" in web.text
    assert "tag night" in web.text
    assert "hourly" not in web.text
    await web.get("/calendar?days=1&queue=mail")
    assert "24 runs planned in the next 24 hours" in web.text
    assert "queue mail" in web.text
    await web.get("/calendar?days=31&day=2")
    assert "24 hours from" in web.text


async def test_a_command_is_no_more_than_the_name_says(web: Browser, shop: rota.App) -> None:
    for name in ("a; touch /tmp/pwned #", *"bcdef"):
        await shop.schedules.create(name, "clean", cron="0 0 * * *")
    await web.get("/calendar")
    (commands,) = re.findall(r'data-copy="(rota schedules[^"]+)"', web.page)
    words = [shlex.split(line) for line in unescape(commands).splitlines()]
    names = ("a; touch /tmp/pwned #", *"bcdef")
    assert words == [["rota", "schedules", "update", name, "--jitter", "120s"] for name in names]


async def test_a_page_does_not_wait_for_many_schedules(
    web: Browser, busy: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "PATIENCE", 0.0)
    await web.get("/calendar?days=14")
    assert "Counting the runs of the next 14 days" in web.text
    assert web.response.headers["Refresh"] == "1"
    assert "The next 24 hours" in web.text

    monkeypatch.setattr(forecasts, "PATIENCE", 60.0)
    await web.get("/calendar?days=14")
    assert "runs planned in the next 14 days" in web.text
    assert "Refresh" not in web.response.headers


async def test_one_hour_of_it(web: Browser, busy: rota.App) -> None:
    now = await busy.clock.now()
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1)
    await web.get("/calendar")
    path = f"/calendar?hour={midnight.isoformat().replace('+', '%2B').replace(':', '%3A')}"
    assert f'href="{path}#hour"' in web.page
    await web.get(path)
    assert "00:00 to 00:59" in web.text
    assert "7 runs · Close" in web.text
    assert "most in one minute: 6" in web.page


@pytest.mark.parametrize("query", ["days=3", "days=x", "day=99", "hour=x", "hour=2026-01-01"])
async def test_what_makes_no_sense(web: Browser, query: str) -> None:
    await web.get(f"/calendar?{query}", 422)


async def test_nothing_planned(web: Browser) -> None:
    await web.get("/calendar")
    assert "0 runs planned" in web.text
    assert "No pile-ups." in web.text
    assert "No schedule has an upcoming time." in web.text


async def test_a_calendar_is_made_changed_and_deleted(web: Browser, shop: rota.App) -> None:
    await web.get("/calendars/new")
    given: dict[str, Any] = {
        "name": "austria", "timezone": "Europe/Vienna", "holidays": "2026-12-25\n2026-12-26",
        "weekends": ["SAT", "SUN"], "windows": "22:00-02:00 FRI", "description": "Holidays",
    }  # fmt: skip
    await web.post("/calendars/new", **given, reason="the law")
    assert "Calendar austria created" in web.text
    found = await shop.calendars.get("austria")
    assert found.definition["weekends"] == ["SAT", "SUN"]
    assert found.definition["windows"] == [{"start": "22:00", "end": "02:00", "weekdays": ["FRI"]}]
    await web.post("/calendars/new", 422, **given)
    assert "austria" in web.text
    await shop.schedules.create("b", "clean", every=60, calendar="austria")

    await web.get("/calendar")
    assert "2 holidays, Sat Sun, 1 window" in web.text
    assert "1 schedule" in web.text
    await web.get("/calendars/austria")
    assert "Used by 1 schedule" in web.text
    version = found.version
    await web.post("/calendars/austria", **given | {"holidays": "2026-12-24"}, version=version)
    assert "Calendar austria is saved" in web.text
    await web.post("/calendars/austria", 409, **given, version=version)
    assert "Not saved: web:admin changed this calendar" in web.text
    assert "2026-12-24" in web.text

    await web.get("/calendars/austria/delete")
    await web.post("/calendars/austria/delete", 422, reason="gone")
    await shop.schedules.update("b", calendar=None)
    await web.get("/calendars/austria/delete")
    assert "No schedule uses it" in web.text
    await web.post("/calendars/austria/delete", reason="gone")
    assert "Calendar austria deleted" in web.text
    await web.get("/calendars/austria", 404)


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", ""), ("timezone", "Nowhere"), ("holidays", "soon"), ("windows", "at night")],
)
async def test_a_calendar_that_cannot_be(web: Browser, field: str, value: str) -> None:
    await web.get("/calendars/new")
    await web.post("/calendars/new", 422, **({"name": "x"} | {field: value}))
    assert 'role="alert"' in web.page


async def test_hostile_names(web: Browser, shop: rota.App) -> None:
    name = '"><script>alert(1)</script>'
    await shop.calendars.create(name, {"holidays": ["2026-12-25"]}, name)
    await shop.schedules.create(name, "clean", cron="0 0 * * *", calendar=name)
    await web.get("/calendar")
    assert "<script>alert" not in web.page
    start = web.page.index('href="/calendars/%22') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert "<script>alert" not in web.page


async def test_a_definition_that_sql_has_written(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.calendars.create("odd", {})
    conn.execute(
        "UPDATE rota.calendars SET definition = %s WHERE name = 'odd'",
        ['{"holidays": 3, "weekends": "x"}'],
    )
    await web.get("/calendar")
    assert "odd UTC never no schedules" in web.text
    await web.get("/calendars/odd")


def test_calendars_as_texts() -> None:
    draft = CalendarDraft(
        "",
        "UTC",
        "2026-12-25",
        ("SUN",),
        "9:00-17:00\n2026-03-01T00:00+00:00 to 2026-03-02T00:00+00:00",
    )
    definition = definition_of(draft)
    assert definition["windows"][0] == {"start": "09:00", "end": "17:00"}
    assert draft_of("", definition).windows.splitlines()[1] == draft.windows.splitlines()[1]
    assert closed_words(definition) == "1 holiday, Sun, 2 windows"
    assert closed_words({"weekends": True}) == "Sat Sun"
    assert closed_words([1]) == "never"


def test_an_hour_that_comes_twice_and_one_that_does_not() -> None:
    line = PlannedSchedule("x", Timing.of(cron="*/30 * * * *", timezone="Europe/Vienna"))
    autumn = heat_of(
        simulate([line], datetime(2026, 10, 24, 22, tzinfo=UTC), 1, "Europe/Vienna"), VIENNA
    )
    sunday = next(row for row in autumn.rows if row.label == "Sun 25 Oct")
    assert [cell.hour for cell in sunday.cells if cell.is_twice] == [2]
    assert sunday.cells[2].count == 4
    assert sunday.note == "25 h"
    assert "clocks go back at 03:00, the time from 02:00 to 03:00 occurs twice" in autumn.notes[0]
    spring = heat_of(
        simulate([line], datetime(2026, 3, 28, 23, tzinfo=UTC), 1, "Europe/Vienna"), VIENNA
    )
    sunday = next(row for row in spring.rows if row.label == "Sun 29 Mar")
    assert (sunday.cells[2].at, sunday.cells[2].count, sunday.note) == (None, 0, "23 h")


def test_shades() -> None:
    assert [level_of(count, 30) for count in (0, 1, 30, 32, 45, 90, 150)] == [0, 1, 2, 2, 3, 4, 5]
    assert level_of(1, 1) == 2
    busy = Load(
        datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 6, tzinfo=UTC), "UTC", 0,
        [Day(date(2026, 1, 5), [30] * 22 + [1, 70])], [], [], [],
    )  # fmt: skip
    assert heat_of(busy, UTC).steps == [(1, 1), (2, 16), (3, 38), (4, 61)]
    load = Load(
        datetime(2026, 1, 5, 12, tzinfo=UTC), datetime(2026, 1, 6, 12, tzinfo=UTC), "UTC", 0,
        [Day(date(2026, 1, 5), [0] * 24), Day(date(2026, 1, 6), [0] * 24)], [], [], [],
    )  # fmt: skip
    first, second = heat_of(load, UTC).rows
    assert [cell.at is None for cell in first.cells].count(True) == 12
    assert second.cells[11].at is not None
    assert second.cells[12].at is None
