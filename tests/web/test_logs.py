"""The pages of the log: search, chart, tail, one line, download."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import psycopg
import pytest
from starlette.datastructures import QueryParams

import rota
from rota.web.filters.list_query import Part
from rota.web.filters.logs import LogQuery
from rota.web.log_lines import mark
from rota.web.pages import logs
from rota.web.pages.log_tail import event_of, with_gap
from tests.loglines import make_partitions, write
from tests.terminal import EVIL, check
from tests.web.conftest import Browser

Conn = psycopg.Connection[Any]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\nsecond line\u202e"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a search would end before it has seen everything."""
    monkeypatch.setattr(logs, "_BUDGET", 60.0)


@pytest.fixture
def lines(conn: Conn, shop: rota.App) -> None:
    make_partitions(conn, 8)
    write(conn, "mail sent", 30, run=1, job="send", fields={"to": "Ada", "n": 12345678901234567890})
    write(conn, "sold out", 20, run=2, job="clean", level="warning", worker=3, tenant="north")
    write(
        conn, HOSTILE, 10, run=3, job="boom", level="error", fields={"<b>": "<i>", "long": "x\ny"}
    )
    write(conn, "of last week", 3 * 86_400, run=4, job="send")


async def test_lines_are_found_newest_first_with_their_fields(web: Browser, lines: None) -> None:
    page = await web.get("/logs")
    assert page.index("sold out") < page.index("mail sent")
    assert "of last week" not in page
    assert "12345678901234567890" in page  # not rounded
    assert "All levels are shown" in web.text
    assert "3 lines" in web.text
    assert 'href="/runs/2"' in page


_MANY = """
INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)
SELECT rota.now() - n * interval '10 s', 1, 1, 1, n, 'info', 'send',
       CASE WHEN n %% %s = 0 THEN 'paid twice' ELSE 'paid' END
FROM generate_series(1, 8000) n
"""


@pytest.mark.parametrize(("one_of", "count"), [(1300, "6 lines"), (9000, "0 lines")])
async def test_the_count_of_a_search_that_found_all_is_exact(
    web: Browser, conn: Conn, one_of: int, count: str
) -> None:
    make_partitions(conn, 2)
    conn.execute(_MANY, [one_of])
    page = await web.get("/logs?q=paid+twice")
    assert re.search(r"<h2>\s*(.*?)\s*</h2>", page)[1] == count  # type: ignore[index]
    lines = int(count.split()[0])
    assert page.count("data-key=") == lines
    assert f"Lines over time: {lines} in all" in page


async def test_a_count_is_at_least_what_is_on_the_page(web: Browser, conn: Conn) -> None:
    make_partitions(conn, 2)
    conn.execute(_MANY, [70])
    page = await web.get("/logs?q=twice")
    assert page.count("data-key=") == 100
    assert int(re.search(r"At least (\d+) lines", page)[1]) >= 100  # type: ignore[index]
    assert int(re.search(r"about (\d+), from a sample", page)[1]) >= 100  # type: ignore[index]
    assert int(re.search(r"Lines over time: (\d+) in all", page)[1]) >= 100  # type: ignore[index]


async def test_hostile_text_is_text_and_keeps_its_lines(web: Browser, lines: None) -> None:
    page = await web.get("/logs")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;\nsecond line" in page
    assert "<b>&lt;b&gt;=</b>" in page


async def test_a_level_that_is_filtered_is_in_sight(web: Browser, lines: None) -> None:
    page = await web.get("/logs?level=warning&level=error")
    assert "mail sent" not in page
    assert "sold out" in page
    assert "Only error, warning. Other levels are hidden." in web.text
    assert 'aria-label="Remove the filter level warning"' in page
    page = await web.get("/logs/tail?level=error")
    assert "Only error. Other levels are hidden." in web.text
    assert 'href="/logs/tail?level=info&amp;level=error"' in page
    assert "sold out" not in page


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("q=sent", ["mail sent"]),
        ("q=to:Ada", ["mail"]),
        ("q=job:clean", ["sold out"]),
        ("q=run:2+sold", ["sold out"]),
        ("worker=3", ["sold out"]),
        ("tenant=north", ["sold out"]),
        ("queue=mail", ["mail sent"]),
        ("run=4", ["of last week"]),
        ("run_id=4", ["of last week"]),
        ("range=7d&q=week", ["week"]),
        ("since=15s&q=second", ["second"]),
    ],
)
async def test_narrowed_by(web: Browser, lines: None, asked: str, found: list[str]) -> None:
    page = await web.get(f"/logs?{asked}")
    rows = re.findall(r'<div class="l level', page)
    assert len(rows) == len(found)
    for text in found:
        assert text in web.text.replace("mark", "")


async def test_what_was_typed_is_in_the_address_part_by_part(web: Browser, lines: None) -> None:
    await web.get("/logs?q=job:clean+level:warning+sold+-retry")
    query = dict(web.response.url.params)
    assert query == {"q": "sold -retry", "job": "clean", "level": "warning"}
    assert "<mark>sold</mark>" in web.page


async def test_pages_by_key_older_and_newer(web: Browser, conn: Conn, shop: rota.App) -> None:
    make_partitions(conn, 1)
    for n in range(230):
        write(conn, f"line {n:03}", 1000 - n, run=1, seq=n + 1)
    seen = []
    await web.get("/logs")
    while True:
        seen += re.findall(r"line (\d\d\d)</?", web.page) or re.findall(r"line (\d\d\d)", web.text)
        older = re.search(r'rel="next" href="([^"]+)"', web.page)
        if not older:
            break
        await web.get(older[1].replace("&amp;", "&"))
    assert seen == [f"{n:03}" for n in reversed(range(230))]
    newer = re.search(r'rel="prev" href="([^"]+)"', web.page)
    assert newer is not None
    page = await web.get(newer[1].replace("&amp;", "&"))
    assert "line 129" in page
    assert "line 030" in page
    assert "Newest" in web.text


@pytest.mark.parametrize(
    "asked",
    ["run=x", "run=99999999999999999999", "range=soon", "since=yesterday", "q=%2B%2B%2B",
     "worker=-1", "attempt=99999999999", "since=2026-01-01T00:00:00", "cursor=nonsense"],
)  # fmt: skip
async def test_bad_questions_say_what_is_wrong(web: Browser, lines: None, asked: str) -> None:
    await web.get(f"/logs?{asked}", 422)
    assert 'role="alert"' in web.page


async def test_nothing_found_offers_a_way_out(web: Browser, lines: None) -> None:
    await web.get("/logs?job=send&q=unheard")
    assert "Nothing matches" in web.text
    assert "Remove “job send”" in web.text
    assert "Look further back" in web.text


async def test_an_empty_log_says_so(web: Browser, shop: rota.App) -> None:
    await web.get("/logs")
    assert "No lines" in web.text
    await web.get("/logs/tail")
    assert "New lines appear here as they are written" in web.text


async def test_one_line_whole_by_its_address(web: Browser, conn: Conn, shop: rota.App) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work') ON CONFLICT DO NOTHING")
    (number,) = conn.execute("SELECT rota.enqueue('work')").fetchone() or (0,)
    write(conn, "y" * 9000 + "end", run=number)
    page = await web.get("/logs")
    assert "end" not in re.sub(r"<[^>]+>", "", page[page.index("yyy") :][:9000])
    path = re.search(r'href="(/logs/line/[^"]+)">whole line', page)
    assert path is not None
    await web.get(path[1])
    assert "yend" in web.page
    await web.get(re.sub(r"\.1$", ".7", path[1]), 422)
    await web.get("/logs/line/nonsense", 422)
    await web.get("/logs/line/1.99.1.1", 404)


async def test_download_as_text_and_json(web: Browser, lines: None) -> None:
    text = await web.get("/logs/download?job=boom")
    assert "attachment" in web.response.headers["content-disposition"]
    assert web.response.headers["content-type"].startswith("text/plain")
    assert "second line" in text
    page = await web.get("/logs/download?as=json&level=info")
    found = [json.loads(line) for line in page.splitlines()]
    assert [one["message"] for one in found] == ["mail sent"]
    assert found[0]["fields"]["n"] == 12345678901234567890


async def test_no_line_of_a_download_is_forged(web: Browser, shop: rota.App, conn: Conn) -> None:
    """By a message, a field or the name of a job; and a terminal that shows it is not steered."""
    line = "2026-01-01T00:00:00+00:00 error    run=9 attempt=1 forged"
    evil = f"{EVIL}\r{line}\n{line}"
    write(conn, evil, job=evil, fields={evil: evil})
    text = await web.get("/logs/download")
    check(text)
    assert len(re.findall(r"^\S", text, re.MULTILINE)) == 1
    page = await web.get("/logs/download?as=json")
    check(page)
    assert json.loads(page)["message"] == evil


async def test_what_came_before_for_a_tail(
    web: Browser, lines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.postgres.logs.logs.BUDGET_SECONDS", 60)
    page = await web.get("/logs/tail")
    first = re.findall(r'data-key="([^"]+)"', page)
    assert len(first) == 4
    page = await web.get(f"/logs/earlier?cursor={first[1]}")
    assert re.findall(r'data-key="([^"]+)"', page) == first[:1]
    assert web.response.headers["x-rota-earlier"] == ""


async def test_a_stream_sends_lines_beats_and_what_was_missed(
    shop: rota.App, conn: Conn, lines: None
) -> None:
    """What a browser that lost its connection gets: all since the last line that it had."""
    looks = shop.logs.follow(job="boom", seconds=60, poll=0)
    shown = {"query": LogQuery(), "zone": UTC, "now": datetime.now(UTC), "root": "/ops"}
    heard = event_of(await anext(looks), **shown).decode()
    assert heard.startswith("event: lines\ndata: ")
    assert "\ndata: second line" in heard  # a message of two lines is one event
    assert re.search(r"\nid: \S+\n\n$", heard)
    assert 'href="/ops/runs/3"' in heard
    assert "<script>alert" not in heard
    assert event_of(await anext(looks), **shown) == b"event: beat\ndata: \n\n"
    write(conn, "while you were away", 1, run=3, seq=2, job="boom")
    heard = event_of(await anext(looks), **shown).decode()
    assert "while you were away" in heard
    assert "second line" not in heard
    await looks.aclose()


@pytest.mark.parametrize(("job", "has_gap"), [("send", True), ("clean", False)])
async def test_a_stream_says_what_it_leaves_out(
    shop: rota.App, conn: Conn, lines: None, job: str, has_gap: bool
) -> None:
    """To whoever was away for half an hour; not where nothing was written meanwhile."""
    write(conn, "missed", 1200, run=7, job="send")
    now = datetime.now(UTC)
    query, last = LogQuery((Part("job", job),)), now - timedelta(minutes=30)
    looks = shop.logs.follow(job=job, seconds=600, poll=0)
    heard = with_gap(looks, shop.logs, query, last, now)
    shown = {"query": query, "zone": UTC, "now": now, "root": "/ops"}
    first = event_of(await anext(heard), **shown).decode()
    if has_gap:
        assert first.startswith("event: gap\ndata: <p")
        assert all(line.startswith("data: ") for line in first.rstrip("\n").split("\n")[1:])
        path = re.search(r'href="/ops(/logs[^"]+)"', first)
        assert path is not None
        asked = LogQuery.read(QueryParams(unescape(path[1]).partition("?")[2]))
        found = await shop.logs.search(asked.text, **asked.stretch, **asked.filters)
        assert [one.message for one in found.lines] == ["missed"]
        first = event_of(await anext(heard), **shown).decode()
    assert first.startswith("event: lines\n")
    assert "missed" not in first
    await heard.aclose()


async def test_a_line_cannot_write_fields_of_the_stream(shop: rota.App, conn: Conn) -> None:
    """A carriage return ends a line of a stream too."""
    forged = "evil\r\revent: gap\rdata: FORGED\r\nretry: 86400000\n\nid: x\r"
    write(conn, forged, 1, run=9, job="boom")
    looks = shop.logs.follow(job="boom", seconds=60, poll=0)
    shown = {"query": LogQuery(), "zone": UTC, "now": datetime.now(UTC), "root": ""}
    heard = event_of(await anext(looks), **shown).decode()
    await looks.aclose()
    fields = [line.partition(":")[0] for line in re.split("\r\n|\r|\n", heard)]
    assert "FORGED" in heard
    assert "\r" not in heard
    assert fields == ["event", *["data"] * fields.count("data"), "id", "", ""]


async def test_a_stream_of_nonsense_is_refused(web: Browser, lines: None) -> None:
    await web.get("/logs/stream?run=x", 422)


def test_marks_escape() -> None:
    assert mark("a <b> & a", ["<b>"]) == "a <mark>&lt;b&gt;</mark> &amp; a"


def test_all_levels_chosen_is_no_filter() -> None:
    levels = ("debug", "info", "warning", "error")
    query = LogQuery(tuple(Part("level", level) for level in levels))
    assert query.toggled("critical") == "/logs"
