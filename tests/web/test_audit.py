"""The pages of the audit."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.web.conftest import Browser


@pytest.fixture
async def deeds(shop: rota.App) -> rota.App:
    """What three people did."""
    await shop.runs.enqueue("send", {"user_id": 1})
    await shop.queues.by("ada").pause("mail", "provider is down")
    await shop.queues.by("ada").resume("mail")
    await shop.jobs.by("grace").update("send", priority=1, reason="campaign")
    await shop.jobs.by("web:linus").disable("clean")
    return shop


async def test_the_list(web: Browser, deeds: rota.App) -> None:
    await web.get("/audit")

    assert "ada paused queue mail “provider is down”" in web.text
    assert "grace updated job send “campaign” · priority 5 → 1" in web.text
    assert 'href="/jobs/send"' in web.page
    assert 'href="/queues/mail"' in web.page
    for noun in ("tenant", "limit"):
        assert f'href="/audit?noun={noun}"' in web.page
    assert web.text.index("web:linus disabled") < web.text.index("ada resumed"), "the newest first"


@pytest.mark.parametrize(
    ("asked", "shown", "hidden"),
    [
        ("noun=queue", ["ada paused", "ada resumed"], ["grace", "linus"]),
        ("actor=web:linus", ["disabled job clean"], ["ada", "grace"]),
        ("action=queue.paused", ["ada paused"], ["ada resumed"]),
        ("name=send", ["grace updated"], ["ada paused"]),
        ("since=1h", ["grace updated", "ada paused"], []),
        ("until=2020-01-01", [], ["grace updated"]),
        ("q=actor:ada+noun:queue", ["ada paused"], ["grace updated"]),
        ("q=clean", ["web:linus disabled"], ["grace updated"]),
        ('q=actor:"web:linus"', ["web:linus disabled"], ["grace updated"]),
    ],
)
async def test_a_filter(
    web: Browser, deeds: rota.App, asked: str, shown: list[str], hidden: list[str]
) -> None:
    await web.get(f"/audit?{asked}")

    rows = web.text.partition("Change and reason")[2]
    assert all(text in rows for text in shown)
    assert not any(text in rows for text in hidden)
    assert "Remove the filter" in web.page, "what narrows is seen"


async def test_a_filter_that_is_none(web: Browser, deeds: rota.App) -> None:
    await web.get("/audit?q=colour:red", 422)
    assert "Unknown filter colour" in web.text
    await web.get("/audit?since=soon", 422)
    assert "Since must be a time, not 'soon'" in web.text
    assert 'value="since:soon"' in web.page
    await web.get("/audit?noun=nothing")
    assert "No entry matches this filter" in web.text
    assert "Remove “noun nothing”" in web.text


async def test_no_entries(web: Browser) -> None:
    await web.get("/audit")

    assert "Nothing yet" in web.text


async def test_a_long_list_goes_on_by_key(web: Browser, shop: rota.App, conn: Any) -> None:
    conn.execute(
        "SELECT rota.write_audit('ada', 'queue.paused', 'queue', 'q' || n, NULL, NULL, 'r' || n)"
        " FROM generate_series(1, 120) n"
    )
    await web.get("/audit?actor=ada")
    seen = []
    while True:
        seen += [int(part.split('"')[0]) for part in web.page.split('data-id="')[1:]]
        if 'rel="next"' not in web.page:
            break
        start = web.page.index('rel="next" href="') + 17
        await web.get(web.page[start : web.page.index('"', start)].replace("&amp;", "&"))
        assert "Remove the filter actor ada" in web.page
    assert len(seen) == 120
    assert seen == sorted(set(seen), reverse=True)


async def test_one_entry(web: Browser, deeds: rota.App) -> None:
    (entry,) = await deeds.audit.list(actor="grace")
    await web.get(f"/audit/{entry.id}")

    assert "Job send updated" in web.text
    assert "priority 5 1" in web.text
    assert "Reason campaign" in web.text
    assert 'href="/audit?noun=job&amp;name=send"' in web.page
    await web.get("/audit/99999", 404)


async def test_numbers_stay_as_they_are(web: Browser, conn: Any) -> None:
    conn.execute(
        "SELECT rota.write_audit('ada', 'run.retried', 'run', '7', %s, %s, NULL)",
        ['{"n": 9007199254740993}', '{"n": 12345678901234567890, "d": 0.1000000000000000055}'],
    )
    await web.get("/audit")
    assert "n 9007199254740993 → 12345678901234567890" in web.text


async def test_hostile_text_is_text(web: Browser, conn: Any) -> None:
    evil = '<script>alert("x")</script>'
    conn.execute(
        "SELECT rota.write_audit(%(e)s, %(e)s, %(e)s, %(e)s, to_jsonb(%(e)s::text),"
        " jsonb_build_object(%(e)s::text, %(e)s::text), %(e)s, %(e)s)",
        {"e": evil},
    )
    number = conn.execute("SELECT max(id) FROM rota.audit").fetchone()[0]
    for path in ("/audit", f"/audit/{number}", "/audit?actor=%3Cscript%3Ealert"):
        await web.get(path)
        assert "<script>alert" not in web.page


async def test_a_deed_on_many_is_one_row_that_unfolds(web: Browser, shop: rota.App) -> None:
    runs = [(await shop.runs.enqueue("send", {"user_id": n})).id for n in range(5)]
    await shop.queues.by("ada").pause("mail", "provider is down")
    await shop.runs.by("grace").cancel_many(runs, reason="sent by hand")
    await web.get("/audit")
    assert web.text.count("grace cancelled") == 1
    assert "grace cancelled 5 runs “sent by hand” · Show all 5" in web.text
    for run in runs:
        assert f'href="/runs/{run}"' in web.page
    assert "ada paused queue mail" in web.text


async def test_a_deed_that_goes_on_behind_the_page_says_so(
    web: Browser, shop: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.pages.audit._LOOKED_AT", 5)
    runs = [(await shop.runs.enqueue("send", {"user_id": n})).id for n in range(7)]
    await shop.runs.by("grace").cancel_many(runs, reason="sent by hand")
    await web.get("/audit?actor=grace")
    assert "grace cancelled 5+ runs “sent by hand” · Show these 5" in web.text
    monkeypatch.setattr("rota.web.pages.audit._LOOKED_AT", 7)
    await web.get("/audit?actor=grace")
    assert "grace cancelled 7 runs “sent by hand” · Show all 7" in web.text


async def test_changes_are_told_in_words_without_what_goes_without_saying(
    web: Browser, shop: rota.App
) -> None:
    await shop.schedules.by("ada").create(
        "weekly", "send", cron="0 9 * * 1", jitter=90, payload={"user_id": 7}
    )
    await shop.schedules.by("ada").update("weekly", timeout=600, reason="slow")
    await web.get("/audit?noun=schedule")
    assert "ada created schedule weekly cron 0 9 * * 1, jitter 1 min 30 s, job send" in web.text
    assert "ada updated schedule weekly “slow” · timeout the job's → 10 min" in web.text
    assert "catch" not in web.text.partition("Change and reason")[2], "as usual"


async def test_zero_is_told(web: Browser, shop: rota.App) -> None:
    await shop.limits.set("closed", kind="concurrency", cap=0)
    await shop.queues.set("mail", max_waiting=0)
    await shop.schedules.create(
        "weekly", "send", cron="0 9 * * 1", priority=0, payload={"user_id": 7}
    )
    await shop.schedules.update("weekly", priority=5, catch_up_window=60)
    await shop.schedules.update("weekly", priority=0, catch_up_window=0)
    await web.get("/audit")
    for said in ("cap 0", "max waiting none → 0", "priority 0", "priority 5 → 0", "1 min → 0 ms"):
        assert said in web.text
