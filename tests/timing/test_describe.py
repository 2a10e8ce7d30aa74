from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.timing import TEMPLATES, Timing, describe

AT = datetime(2026, 3, 8, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 9 * * 1-5", "every weekday at 09:00"),
        ("0 9 * * MON-FRI", "every weekday at 09:00"),
        ("0 0 * * *", "every day at 00:00"),
        ("@daily", "every day at 00:00"),
        ("0 8 * * 1", "every Monday at 08:00"),
        ("0 0 * * 0", "every Sunday at 00:00"),
        ("0 0 * * 7", "every Sunday at 00:00"),
        ("0 9,17 * * SAT,SUN", "every Saturday and Sunday at 09:00 and 17:00"),
        ("0 0 * * 5-7", "every Friday, Saturday and Sunday at 00:00"),
        ("0 0 1 * *", "on the 1st of every month at 00:00"),
        ("0 0 22 * *", "on the 22nd of every month at 00:00"),
        ("0 0 13 * *", "on the 13th of every month at 00:00"),
        ("0 18 L * *", "on the last day of every month at 18:00"),
        ("*/5 * * * *", "every 5 minutes"),
        ("@hourly", "every hour, on the hour"),
        ("* * * * *", "every minute"),
        # From here on cronsim's words.
        ("*/7 * * * *", "every seventh minute of every hour"),
        ("0 0 * * MON#2", "at 00:00 on the second Monday of the month"),
        ("0 0 * * 5L", "at 00:00 on the last Friday of the month"),
        ("59 23 31 12 *", "at 23:59 on December 31"),
        ("*/15 9-17 * * *", "every 15th minute from 09:00 through 17:59"),
    ],
)
def test_cron_in_plain_words(cron: str, words: str) -> None:
    assert describe(Timing.of(cron=cron, timezone="Europe/Paris")) == f"{words} (Europe/Paris)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval_seconds": 1}, "every second"),
        ({"interval_seconds": 90}, "every 90 seconds"),
        ({"interval_seconds": 1.5}, "every 1.5 seconds"),
        ({"interval_seconds": 60}, "every minute"),
        ({"cron": "@every 1h30m"}, "every 90 minutes"),
        ({"interval_seconds": 3600}, "every hour"),
        ({"interval_seconds": 86_400}, "every 24 hours"),
        ({"interval_seconds": 7 * 86_400}, "every 7 days"),
        ({"cron": "30 0 9 * * *", "with_seconds": True}, "every day at 09:00:30 (UTC)"),
        ({"run_at": AT, "timezone": "Europe/Paris"}, "once, on 2026-03-08 at 09:00 (Europe/Paris)"),
        (
            {"interval_seconds": 90, "start_at": AT, "end_at": AT.replace(day=9)},
            "every 90 seconds, from 2026-03-08 at 08:00 until 2026-03-09 at 08:00",
        ),
    ],
)
def test_other_timings_in_plain_words(options: dict[str, Any], words: str) -> None:
    assert describe(Timing.of(**options)) == words


def test_every_template_is_a_timing_with_a_name_of_its_own() -> None:
    names = [template.name for template in TEMPLATES]
    assert len(set(names)) == len(names)
    assert {"Hourly", "Daily midnight", "Weekdays 9 AM", "Weekly Monday 8 AM"} <= set(names)
    for template in TEMPLATES:
        assert describe(Timing.of(cron=template.cron))
        assert template.description
