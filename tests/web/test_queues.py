"""The pages of queues."""

from __future__ import annotations

import re
from typing import Any

import pytest

import rota
from rota.web.needs import rows
from tests.web.conftest import Browser


async def test_the_list(web: Browser, shop: rota.App) -> None:
    job = shop.registry.get("send")
    await shop.runs.enqueue(job.name, {"user_id": 1})
    await web.get("/queues")

    assert "mail no worker 1" in web.text
    assert "0 0 0 none Pause…" in web.text


async def test_trouble_comes_first_and_a_name_narrows(web: Browser, shop: rota.App) -> None:
    for name in ("alpha", "beta", "gamma"):
        await shop.runs.enqueue("send", {"user_id": 1}, queue=name, delay=3600)
    await shop.queues.set("beta", max_waiting=10)
    await shop.queues.by("ada").pause("gamma", "they refuse us")
    await web.get("/queues")
    names = re.findall(r'data-id="([a-z]+)"', web.page)
    assert names.index("gamma") == 0
    assert "Paused 1" in web.text
    assert "0 of 10" in web.text, "what waits, against the cap"
    await web.get("/queues?text=ALP")
    assert re.findall(r'data-id="([a-z]+)"', web.page) == ["alpha"]
    await web.get("/queues?state=paused")
    assert re.findall(r'data-id="([a-z]+)"', web.page) == ["gamma"]
    await web.get("/queues?state=asleep", 422)


async def test_what_is_cut_may_have_trouble(
    web: Browser, shop: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alpha", "beta", "gamma"):
        await shop.runs.enqueue("send", {"user_id": 1}, queue=name, delay=3600)
    for name in ("beta", "gamma"):
        await shop.queues.pause(name, "they refuse us")
    for most, words in (
        (1, " more queues: filter"),
        (2, " more queues: filter"),
        (3, " without trouble: filter"),
    ):
        monkeypatch.setattr("rota.web.pages.queues.PAGE_SIZE", most)
        await web.get("/queues")
        assert words in web.text


async def test_how_many_waited_is_drawn(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    conn.execute(
        "INSERT INTO rota.samples (queue, minute, queued, running, pickups, histogram)"
        " SELECT 'mail', date_trunc('minute', rota.now()) - make_interval(mins => n), 40 + n,"
        " 0, 0, 0"
        " FROM generate_series(-70, 70) n"  # the clock was set back
    )
    assert (await shop.overview.backlogs(["mail", "none"], minutes=3)) == {
        "mail": [42, 41, 40], "none": [0, 0, 0],
    }  # fmt: skip
    await web.get("/queues")
    assert "Waiting by minute: at most 99" in web.page


async def test_a_pause_with_an_end(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/queues/mail/pause")
    await web.post("/queues/mail/pause", 422, reason="provider is down", until="soon")
    assert "Until must be a time, not 'soon'" in web.text
    assert 'value="provider is down"' in web.page, "what was typed stays"
    await web.post("/queues/mail/pause", 422, reason="x", until="2020-01-01 08:00")
    assert "must be in the future" in web.text
    await web.post("/queues/mail/pause", reason="provider is down", until="90min")
    assert "“provider is down”" in web.text
    assert "until" in web.text
    assert "1 run waits" in web.text
    await web.get("/queues")
    assert "resumes in 1 h" in web.text

    await web.get("/queues/mail/pause")
    assert "It is already paused" in web.text
    await web.post("/queues/mail/pause", reason="for longer", until="2099-01-01 08:00+01:00")
    queue = (await shop.queues.get("mail")).queue
    assert queue.paused_until is not None
    assert queue.paused_until.isoformat() == "2099-01-01T07:00:00+00:00"


async def test_a_selection_leaves_alone_what_is_so_already(web: Browser, shop: rota.App) -> None:
    for name in ("alpha", "beta"):
        await shop.runs.enqueue("send", {"user_id": 1}, queue=name)
    await shop.queues.by("grace").pause("alpha", "a release", until="2099-01-01T08:00Z")
    await web.get("/selected/queues?verb=pause&pick=alpha&pick=beta")
    assert "Pause 1 queue?" in web.text
    assert "1 selected queue left alone" in web.text
    assert re.findall(r'name="pick" value="(\w+)"', web.page) == ["beta"]
    picks = {"verb": "pause", "pick": ["alpha", "beta"], "back": "/queues"}
    await web.post("/selected/queues", **picks, reason="an outage")
    assert "Pause: 1 queue; 1 not: alpha: was already paused until" in web.text
    alpha = (await shop.queues.get("alpha")).queue
    assert (alpha.paused_by, alpha.pause_reason) == ("grace", "a release")
    assert alpha.paused_until is not None
    await web.get("/selected/queues?verb=resume&pick=alpha")
    await shop.queues.resume("alpha")
    await web.post("/selected/queues", verb="resume", pick="alpha", back="/queues")
    assert "Resume: 0 queues; 1 not: alpha: was not paused" in web.text
    await web.get("/selected/queues?verb=resume&pick=alpha", 422)


async def test_names_are_text_and_nothing_else(web: Browser, conn: Any) -> None:
    name = '<script>alert("x")</script>/a b?#%'
    conn.execute("SELECT rota.pause_queue(%s, 'because <b>')", [name])
    await web.get("/queues")
    assert "<script>alert" not in web.page
    start = web.page.index('href="/queues/%3C') + 6
    await web.get(web.page[start : web.page.index('"', start)])

    assert name in web.text
    assert "because <b>" in web.text


async def test_a_part_alone(web: Browser) -> None:
    await web.get("/queues", 400, **{"X-Rota-Part": "nothing"})
    await web.get("/queues", **{"X-Rota-Part": "list"})

    assert web.page.lstrip().startswith('<div id="list"')
    assert "<html" not in web.page


async def test_a_cap_is_set_with_a_reason(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/queues/mail")
    assert "Set a cap…" in web.text
    await web.get("/queues/mail/set")
    assert "1 run waits now" in web.text
    await web.post("/queues/mail/set", 422, max_waiting="1", when_full="refuse", reason=" ")
    assert "Enter a reason" in web.text
    await web.post("/queues/mail/set", 422, max_waiting="<b>", when_full="refuse", reason="x")
    assert "must be a whole number, not '<b>'" in web.text
    await web.post("/queues/mail/set", 422, max_waiting="-1", when_full="refuse", reason="x")
    assert "must be from 0 to 1,000,000,000" in web.text
    await web.post("/queues/mail/set", max_waiting="1", when_full="refuse", reason="slow")
    assert "Queue mail has at most 1 waiting run" in web.text
    conn.execute("SELECT rota.tend_caps(), rota.tend_caps()")
    await web.get("/queues/mail")
    assert "at most 1, then new runs are refused: full since" in web.text
    assert "Queue mail is full: 1 run waits, and its cap is 1." in web.text
    await web.get("/queues")
    assert "full 1 of 1" in web.text
    (row,) = [one for one in rows(await shop.attention.get()) if one.need.kind == "full_queue"]
    assert (row.button, row.to, row.asks) == ("Change the cap…", "/queues/mail/set", True)
    await web.post("/queues/mail/set", max_waiting="", when_full="refuse", reason="fine")
    assert "Queue mail has no limit on waiting runs" in web.text
    (deed,) = conn.execute(
        "SELECT actor FROM rota.audit WHERE action = 'queue.updated' ORDER BY id LIMIT 1"
    ).fetchall()
    assert deed == ("web:admin",)
