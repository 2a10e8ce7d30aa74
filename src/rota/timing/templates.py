"""Common timings to start from; the table of the database is seeded with them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Template(NamedTuple):
    """A timing without a zone: the description holds in the zone of any schedule."""

    name: str
    cron: str
    description: str


TEMPLATES: Final = (
    Template("Every 5 minutes", "*/5 * * * *", "Every five minutes"),
    Template("Every 15 minutes", "*/15 * * * *", "Every quarter of an hour"),
    Template("Hourly", "0 * * * *", "Every hour on the hour"),
    Template("Every 6 hours", "0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00"),
    Template("Daily midnight", "0 0 * * *", "Every day at midnight"),
    Template("Daily 3 AM", "0 3 * * *", "Every day at 3 AM, a quiet hour for upkeep"),
    Template("Daily 9 AM", "0 9 * * *", "Every day at 9 AM"),
    Template("Weekdays 9 AM", "0 9 * * 1-5", "Monday to Friday at 9 AM"),
    Template("Weekly Monday 8 AM", "0 8 * * 1", "Every Monday at 8 AM"),
    Template("Weekly Sunday midnight", "0 0 * * 0", "Every Sunday at midnight"),
    Template("Monthly first midnight", "0 0 1 * *", "The first of every month at midnight"),
    Template("Monthly last day 6 PM", "0 18 L * *", "The last day of every month at 6 PM"),
    Template("Quarterly", "0 0 1 1,4,7,10 *", "The first day of every quarter at midnight"),
    Template("Yearly", "0 0 1 1 *", "The first of January at midnight"),
)
