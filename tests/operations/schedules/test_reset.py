"""Back to what the code says: fields of a schedule that an operator has changed, by every way."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import MakeApp

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    return release(make_app, cron="0 8 * * *")


def release(make_app: MakeApp, **timing: Any) -> rota.App:
    app = make_app()

    @app.job
    async def send(n: int = 1) -> None: ...

    app.schedule("digest", send, timezone="Europe/Berlin", tags=["a"], **timing)
    app.database.open_sync()
    return app


def changed(app: rota.App) -> None:
    """As a person does."""
    edit = app.schedules.by("ada").sync
    edit.update("digest", every=60)
    edit.update("digest", tags=["b"], priority=1)


def fields(app: rota.App) -> set[str]:
    return {one.field for one in app.schedules.sync.overrides("digest")}


def test_one_field(app: rota.App) -> None:
    changed(app)
    assert fields(app) == {"cron", "interval_seconds", "tags", "priority"}
    found = app.schedules.by("ada").sync.update("digest", reset=["tags"], reason="as it was")
    assert (found.tags, found.priority, found.interval_seconds) == (["a"], 1, 60)
    assert fields(app) == {"cron", "interval_seconds", "priority"}
    entry = app.schedules.sync.edits("digest").items[0]
    assert (entry.actor, entry.reason) == ("ada", "as it was")


@pytest.mark.parametrize("name", ["cron", "every", "interval_seconds"])
def test_the_timing_goes_back_as_a_whole(app: rota.App, name: str) -> None:
    changed(app)
    found = app.schedules.sync.update("digest", reset=[name])
    assert (found.cron, found.interval_seconds) == ("0 8 * * *", None)
    assert found.next_run_at is not None
    assert fields(app) == {"tags", "priority"}


def test_all_of_them_and_then_the_code_decides_again(app: rota.App, make_app: MakeApp) -> None:
    changed(app)
    found = app.schedules.sync.update("digest", reset=True)
    assert (found.cron, found.tags, found.priority) == ("0 8 * * *", ["a"], None)
    assert fields(app) == set()
    assert release(make_app, cron="0 9 * * *").schedules.sync.get("digest").cron == "0 9 * * *"


def test_together_with_a_change(app: rota.App) -> None:
    changed(app)
    found = app.schedules.sync.update("digest", reset=["tags"], description="x")
    assert (found.tags, found.description) == (["a"], "x")


def test_what_cannot_be_reset(app: rota.App) -> None:
    app.schedules.sync.create("mine", "send", every=60)
    with pytest.raises(rota.WrongState, match="is not declared in code"):
        app.schedules.sync.update("mine", reset=True)
    with pytest.raises(rota.TimingError) as caught:
        app.schedules.sync.update("digest", reset=["colour"])
    assert caught.value.field == "reset"
    with pytest.raises(rota.ScheduleNotFound):
        app.schedules.sync.overrides("nope")


def test_by_sql(app: rota.App, conn: Connection) -> None:
    changed(app)
    query = "SELECT field, stored, code, changed_by FROM rota.schedule_overrides('digest')"
    assert ("tags", ["b"], ["a"], "ada") in conn.execute(query).fetchall()
    done = conn.execute("SELECT rota.reset_schedule('digest', '{tags}', reason => 'why')")
    assert done.fetchone() == (["tags"],)
    done = conn.execute("SELECT rota.reset_schedule('digest')")
    assert done.fetchone() == (["cron", "interval_seconds", "priority"],)
    with pytest.raises(psycopg.Error, match="says nothing about colour") as caught:
        conn.execute("SELECT rota.reset_schedule('digest', '{colour}')")
    assert caught.value.sqlstate == "RO005"
