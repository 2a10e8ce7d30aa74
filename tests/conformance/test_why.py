"""Whoever asks why gets the same answer: SQL, Python, the command line, the API and the pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.cli.main import run
from rota.web import create_site
from tests.sql_engine import Engine
from tests.web.conftest import TOKEN, Browser, browser_of

SUBJECTS = [("run", "1"), ("run", "2"), ("schedule", "digest"), ("job", "send"), ("queue", "mail")]


@pytest.fixture
async def site(make_app: Any, conn: psycopg.Connection[Any]) -> tuple[rota.App, Browser]:
    """A run that is held in several ways, one that has failed, and a schedule that is paused."""
    app: rota.App = make_app(**{"server.token": TOKEN})
    engine = Engine(conn)
    engine.job("send", queue="mail")
    worker = engine.worker("send", "other")
    engine.enqueue("send", max_attempts=1)
    engine.fail(worker, engine.claim_one(worker, queues=["mail"], jobs=["send"]), "<b>no</b>")
    engine.enqueue("send", key="a <b>key</b>")
    engine._insert("schedules", {"name": "digest", "job": "send", "cron": "0 3 * * *"})
    engine.one("SELECT rota.pause_schedule('digest', 'summer', actor => 'grace')")
    engine.one("SELECT rota.pause_queue('mail', 'the provider is <down>', 'grace')")
    browser = browser_of(create_site(app))
    await browser.get("/sign-in")
    await browser.post("/sign-in", token=TOKEN, next="/queues")
    return app, browser


@pytest.mark.parametrize(("kind", "name"), SUBJECTS)
async def test_all_faces_say_the_same(
    site: tuple[rota.App, Browser],
    conn: psycopg.Connection[Any],
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    name: str,
) -> None:
    app, browser = site
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)

    in_sql = Engine(conn).rows("SELECT * FROM rota.why(%s, %s)", name, kind)
    in_python = (await app.why(name, kind=kind)).reasons
    answer = await browser.client.get(
        f"/api/v1/why?subject={name}&kind={kind}", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    by_api = answer.json()["reasons"]
    assert run(["why", name, "--kind", kind, "--json"]) == 0
    in_cli = json.loads(capsys.readouterr().out)["reasons"]
    assert run(["why", name, "--kind", kind]) == 0
    in_words = capsys.readouterr().out
    await browser.get(f"/{kind}s/{name}")

    assert [one.code for one in in_python] == [row["code"] for row in in_sql]
    for row, one, api, cli in zip(in_sql, in_python, by_api, in_cli, strict=True):
        columns = ("code", "next_step", "command", "by_whom", "facts", "is_past")
        for name_ in columns:
            assert row[name_] == getattr(one, name_) == api[name_] == cli[name_], name_
        # How long something has lasted is another one with each question.
        told = [_timeless(it) for it in (row["sentence"], one.sentence, api["sentence"])]
        assert told == [_timeless(cli["sentence"])] * 3
        assert told[0] in _timeless(in_words)
        assert one.next_step in in_words
        assert one.command is None or one.command in in_words
        assert told[0] in _timeless(browser.text)
    assert in_python[0].next_step in browser.text
    assert "<b>no</b>" not in browser.page
    assert "<b>key</b>" not in browser.page


def _timeless(text: str) -> str:
    return re.sub(r"[\d.]+ (ms|s)\b", "a while", text)


def test_every_reason_is_provoked_by_a_test(conn: psycopg.Connection[Any]) -> None:
    folder = Path(__file__).parents[1] / "operations" / "reports"
    tests = "".join(it.read_text(encoding="utf-8") for it in folder.glob("test_why_*.py"))
    codes = [code for (code,) in conn.execute("SELECT code FROM rota.reasons ORDER BY code")]
    assert [code for code in codes if f'"{code}"' not in tests] == []


def test_every_reason_is_made_by_a_function(conn: psycopg.Connection[Any]) -> None:
    """The words of a reason that nothing finds would stand there for nobody."""
    source = "SELECT string_agg(prosrc, '') FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
    (text,) = conn.execute(source).fetchone() or ("",)
    codes = [code for (code,) in conn.execute("SELECT code FROM rota.reasons")]
    decided = re.compile("skipped_|missed_|superseded_")
    assert [it for it in codes if f"'{it}'" not in text and not decided.match(it)] == []
