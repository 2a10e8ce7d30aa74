"""What people change by plain SQL is in the audit, with their name."""

from __future__ import annotations

import pytest

from tests.sql_engine import Engine

QUEUE = (
    "INSERT INTO rota.queues (name, is_paused, paused_at, pause_reason)"
    " VALUES ('mail', true, now(), 'moving')"
)
EDITS = {
    "INSERT INTO rota.jobs (name) VALUES ('made')": ("job.created", "made"),
    "INSERT INTO rota.calendars (name, definition) VALUES ('c', '{}')": ("calendar.created", "c"),
    "UPDATE rota.calendars SET description = 'new' WHERE name = 'known'": (
        "calendar.updated", "known"),
    "DELETE FROM rota.calendars WHERE name = 'known'": ("calendar.deleted", "known"),
    "INSERT INTO rota.schedule_templates VALUES ('t', '0 3 * * *')": ("template.added", "t"),
    "UPDATE rota.schedule_templates SET cron = '1 * * * *' WHERE name = 'Hourly'": (
        "template.updated", "Hourly"),
    "DELETE FROM rota.schedule_templates WHERE name = 'Hourly'": ("template.removed", "Hourly"),
    QUEUE: ("queue.paused", "mail"),
    "UPDATE rota.queues SET pause_reason = 'broken' WHERE name = 'held'": ("queue.paused", "held"),
    "UPDATE rota.queues SET is_paused = false, paused_at = NULL, pause_reason = NULL": (
        "queue.resumed", "held"),
    "DELETE FROM rota.queues WHERE name = 'held'": ("queue.resumed", "held"),
}  # fmt: skip


@pytest.fixture
def engine(engine: Engine) -> Engine:
    engine.rows("INSERT INTO rota.calendars (name, definition) VALUES ('known', '{}')")
    engine.one("SELECT rota.pause_queue('held', 'moving')")
    engine.rows("TRUNCATE rota.audit")
    engine.one("SELECT set_config('rota.actor', 'ada', false)")
    return engine


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_in_the_audit(engine: Engine, edit: str) -> None:
    engine.rows(edit)
    (row,) = engine.rows("SELECT action, object_id, actor FROM rota.audit")
    action, name = EDITS[edit]
    assert row == {"action": action, "object_id": name, "actor": "ada"}


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE rota.calendars SET updated_at = now()",
        "UPDATE rota.schedule_templates SET cron = cron",
        "UPDATE rota.queues SET pause_reason = pause_reason",
    ],
)
def test_what_changes_nothing_is_not(engine: Engine, edit: str) -> None:
    engine.rows(edit)
    assert engine.rows("SELECT FROM rota.audit") == []


def test_before_and_after(engine: Engine) -> None:
    engine.rows("UPDATE rota.calendars SET description = 'new' WHERE name = 'known'")
    (row,) = engine.rows("SELECT before, after FROM rota.audit")
    assert row["before"] == {"description": "", "definition": {}}
    assert row["after"] == {"description": "new", "definition": {}}
