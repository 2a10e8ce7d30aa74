"""The pages of limits."""

from __future__ import annotations

from typing import Any

import rota
from tests.sql_engine import Engine
from tests.web.conftest import Browser


async def test_one_is_made_changed_and_removed(web: Browser, shop: rota.App, conn: Any) -> None:
    await web.get("/limits")
    assert "No limits yet" in web.text
    await web.get("/limits/new")
    fields = {"name": "few", "kind": "concurrency", "cap": "1", "jobs": "send", "on_full": "wait"}
    await web.post("/limits/new", 422, **fields)
    assert "Enter a reason" in web.text
    assert 'value="send"' in web.page, "what was typed stays"
    await web.post("/limits/new", 422, **fields | {"cap": "many"}, reason="they asked")
    assert "must be a whole number" in web.text
    await web.post("/limits/new", reason="they asked", **fields)
    assert "Limit few set for job send" in web.text
    assert "1 at once; applies to job send" in web.text

    runs = [await shop.runs.enqueue("send", {"user_id": 1}) for _ in range(2)]
    Engine(conn).one("SELECT admitted FROM rota.admit_runs()")
    await web.get("/limits/few")
    for run in runs:
        assert str(run.id) in web.text
    await web.get("/limits")
    assert "few job send 1 at once 1 of 1 full 1" in web.text

    await web.get("/limits/few/set")
    await web.post("/limits/few/set", 422, **fields | {"key": "{"}, reason="x")
    assert "is not a valid template" in web.text
    await web.post("/limits/few/set", **fields | {"cap": "3"}, reason="more room")
    assert "Limit few set for" in web.text
    await web.post("/limits/new", 422, **fields, reason="again")
    assert "Limit few already exists" in web.text
    await web.get("/limits/few/remove")
    await web.post("/limits/few/remove", 422, reason=" ")
    await web.post("/limits/few/remove", reason="enough")
    assert "Limit few removed" in web.text
    deeds = conn.execute(
        "SELECT action, actor, reason FROM rota.audit WHERE object_type = 'limit' ORDER BY id"
    ).fetchall()
    assert deeds == [
        ("limit.created", "web:admin", "they asked"),
        ("limit.updated", "web:admin", "more room"),
        ("limit.removed", "web:admin", "enough"),
    ]


async def test_a_sequence_that_stands_still_goes_on(web: Browser, conn: Any) -> None:
    engine = Engine(conn)
    engine.job("line")
    engine.one(
        """SELECT rota.set_limit('in line', '{"kind": "sequence", "next_after": "success"}')"""
    )
    run = engine.enqueue("line")
    worker = engine.worker("line")
    engine.one("SELECT admitted FROM rota.admit_runs()")
    engine.fail(worker, engine.claim_one(worker, jobs=["line"]))
    engine.one("SELECT admitted FROM rota.admit_runs()")
    await web.get("/limits/in%20line")
    assert "1 sequence is blocked" in web.text
    assert str(run) in web.text
    await web.get("/limits/in%20line/unblock")
    await web.post("/limits/in%20line/unblock", reason="by hand")
    assert "Limit in line has 1 sequence unblocked" in web.text
    await web.get("/limits/in%20line/unblock")
    await web.post("/limits/in%20line/unblock", 422, reason="by hand")
    assert "is not blocked" in web.text


async def test_names_are_whatever_people_wrote(web: Browser, conn: Any) -> None:
    engine = Engine(conn)
    engine.one("""SELECT rota.set_limit('<b>/x', '{"cap": 1, "key": "<i>{a}"}', tenant => '<t>')""")
    await web.get("/limits")
    assert "<b>" not in web.page
    await web.get("/limits/%3Cb%3E%2Fx?tenant=%3Ct%3E")
    assert "<b>" not in web.page
    assert "<b>/x" in web.text
    await web.get("/limits/nothing", 404)
