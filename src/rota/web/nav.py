"""The way through the dashboard. A new section is one line here and one file in pages/."""

from __future__ import annotations

from rota.web.context import NavItem

# Key, title, path, icon; None is a line between groups.
SECTIONS: tuple[tuple[str, str, str, str] | None, ...] = (
    ("overview", "Overview", "/", "overview"),
    ("runs", "Runs", "/runs", "runs"),
    ("schedules", "Schedules", "/schedules", "schedules"),
    ("calendar", "Calendar", "/calendar", "calendar"),
    ("logs", "Logs", "/logs", "logs"),
    ("errors", "Errors", "/errors", "errors"),
    None,
    ("jobs", "Jobs", "/jobs", "jobs"),
    ("queues", "Queues", "/queues", "queues"),
    ("workers", "Workers", "/workers", "workers"),
    None,
    ("audit", "Audit", "/audit", "audit"),
    ("health", "Health", "/system", "health"),
    ("settings", "Settings", "/settings", "settings"),
)


def items() -> tuple[NavItem | None, ...]:
    return tuple(None if one is None else NavItem(*one) for one in SECTIONS)
