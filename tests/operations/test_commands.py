"""One command, two faces, and whom the audit names."""

from __future__ import annotations

import inspect

import psycopg
import pytest

import rota
from rota.errors import QueueNotFound


async def test_a_command_is_awaited_or_called(app: rota.App) -> None:
    assert await app.queues.list() == app.queues.sync.list() == []


async def test_errors_are_ours_on_both_faces(app: rota.App) -> None:
    with pytest.raises(QueueNotFound):
        await app.queues.get("mail")
    with pytest.raises(QueueNotFound):
        app.queues.sync.get("mail")


async def test_by_names_the_actor_and_leaves_the_original_alone(
    app: rota.App, conn: psycopg.Connection[tuple[object, ...]]
) -> None:
    alice = app.queues.by("alice")
    await alice.pause("a")
    alice.sync.pause("b")
    await app.queues.pause("c")
    actors = conn.execute("SELECT object_id, actor FROM rota.audit ORDER BY id").fetchall()
    assert actors[:2] == [("a", "alice"), ("b", "alice")]
    assert actors[2][1] != "alice"


def test_a_command_keeps_its_name_and_words(app: rota.App) -> None:
    assert app.runs.sync.cancel.__name__ == "cancel"
    assert "requested" in (inspect.getdoc(app.runs.sync.cancel) or "")
