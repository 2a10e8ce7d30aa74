"""The way through the dashboard. A new section is one line here and one file in pages/."""

from __future__ import annotations

from rota.web.context import NavItem

# Key, title, path, icon; None is a line between groups.
SECTIONS: tuple[tuple[str, str, str, str] | None, ...] = (
    ("runs", "Runs", "/runs", "runs"),
    ("schedules", "Schedules", "/schedules", "schedules"),
    None,
    ("queues", "Queues", "/queues", "queues"),
)


def items() -> tuple[NavItem | None, ...]:
    return tuple(None if one is None else NavItem(*one) for one in SECTIONS)
