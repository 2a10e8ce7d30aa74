"""The navigation of the dashboard. A new section is one line here and one file in pages/."""

from __future__ import annotations

from dataclasses import replace

from rota.model.attention import Attention
from rota.model.finding import Report
from rota.web import needs
from rota.web.context import NavItem

# Key, title, path, icon; None is a divider between groups.
SECTIONS: tuple[tuple[str, str, str, str] | None, ...] = (
    ("overview", "Overview", "/", "overview"),
    ("runs", "Runs", "/runs", "runs"),
    ("errors", "Errors", "/errors", "errors"),
    ("schedules", "Schedules", "/schedules", "schedules"),
    ("calendar", "Calendar", "/calendar", "calendar"),
    ("events", "Events", "/events", "events"),
    ("logs", "Logs", "/logs", "logs"),
    None,
    ("jobs", "Jobs", "/jobs", "jobs"),
    ("queues", "Queues", "/queues", "queues"),
    ("limits", "Limits", "/limits", "limits"),
    ("tenants", "Tenants", "/tenants", "user"),
    ("workers", "Workers", "/workers", "workers"),
    None,
    ("cleanup", "Cleanup", "/cleanup", "trash"),
    ("audit", "Audit", "/audit", "audit"),
    ("health", "Health", "/doctor", "health"),
    ("settings", "Settings", "/settings", "settings"),
)


def items(
    found: Attention | None = None, report: Report | None = None
) -> tuple[NavItem | None, ...]:
    """Return the entries, each with what needs attention in its section."""
    made = (None if section is None else NavItem(*section) for section in SECTIONS)
    return tuple(
        None if one is None else replace(one, alarm=needs.alarm(one, found, report)) for one in made
    )
