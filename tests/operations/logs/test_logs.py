"""Searching, reading and following the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.model.log_text import LogText
from tests.loglines import build_indexes, make_partitions, write

Connection = psycopg.Connection[Any]
DAY = 86_400.0
MARKUP = "could not pack <Order id=42 broken>: <class 'decimal.InvalidOperation'>"


async def found(app: rota.App, text: str = "", **filters: Any) -> list[str]:
    return [
        line.message for line in (await app.logs.search(text, patience_seconds=60, **filters)).lines
    ]


@pytest.fixture(params=["scanned", "indexed"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def story(conn: Connection, kind: str) -> None:
    """Some lines of the day before yesterday, with and without the index of their words."""
    make_partitions(conn, 3)
    fields: Any = {"user": 7, "path": "/api/items", "deep": {"er": "Yes"}, "note": "a\nlast word"}
    write(conn, "Order 17 could not be shipped", 2 * DAY + 900, seq=1, level="error", fields=fields)
    write(conn, "order 18 was shipped", 2 * DAY + 800, run=2, fields={"user": "8"}, job="ship")
    write(conn, "shipped late: order 19", 2 * DAY + 700, run=3, tenant="blue", level="warning")
    asked = {"url": "http://shop.example/orders?page=9", "text": "<i>thin</i>\tice"}
    write(conn, MARKUP, 2 * DAY + 950, run=5, fields=asked)
    write(conn, "tick_tock foo-bar", 2 * DAY + 600, run=4, attempt=2, level="debug")
    if kind == "indexed":
        assert build_indexes(conn) >= 1
        spans = "SELECT bool_or(is_indexed) FROM rota.searchable_spans(NULL, NULL)"
        assert conn.execute(spans).fetchone() == (True,)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["tick_tock foo-bar", "shipped late: order 19", "order 18 was shipped",
              "Order 17 could not be shipped", MARKUP]),
        ("shipped", ["shipped late: order 19", "order 18 was shipped",
                     "Order 17 could not be shipped"]),
        ("SHIPPED order -late", ["order 18 was shipped", "Order 17 could not be shipped"]),
        ('"order 18"', ["order 18 was shipped"]),
        ('"18 order"', []),
        ('-"be shipped" shipped', ["shipped late: order 19", "order 18 was shipped"]),
        ("ship*", ["shipped late: order 19", "order 18 was shipped",
                   "Order 17 could not be shipped"]),
        ("ship", []),
        ("user:7", ["Order 17 could not be shipped"]),
        ("user:8", ["order 18 was shipped"]),
        ("deep.er:Yes", ["Order 17 could not be shipped"]),
        ('note:"a\nlast word"', ["Order 17 could not be shipped"]),
        ("shipped -user:7 -user:8", ["shipped late: order 19"]),
        ("tock", ["tick_tock foo-bar"]),
        ("foo-bar", ["tick_tock foo-bar"]),
        ("word", ["Order 17 could not be shipped"]),
        ("/api/items", ["Order 17 could not be shipped"]),
        ("nosuchword", []),
        ("broken order", [MARKUP]),
        ("InvalidOperation class", [MARKUP]),
        ("decimal.InvalidOperation", [MARKUP]),
        ('"Order id=42"', [MARKUP]),
        ("orders", [MARKUP]),
        ("shop.example/orders", [MARKUP]),
        ("thin ice", [MARKUP]),
        ("42 -broken", []),
        ("-shipped", ["tick_tock foo-bar", MARKUP]),
        ("-ship -pack", ["tick_tock foo-bar", "shipped late: order 19", "order 18 was shipped",
                         "Order 17 could not be shipped"]),
        ('-"order 18" -tock -pack', ["shipped late: order 19", "Order 17 could not be shipped"]),
        ('-"18 order" -last -pack', ["tick_tock foo-bar", "shipped late: order 19",
                                     "order 18 was shipped"]),
        ("-LATE -17 -pack", ["tick_tock foo-bar", "order 18 was shipped"]),
    ],
)  # fmt: skip
async def test_text(app: rota.App, story: None, text: str, messages: list[str]) -> None:
    page = await app.logs.search(text, patience_seconds=60)
    assert [line.message for line in page.lines] == messages
    assert page.cursor is None


async def test_filters(app: rota.App, story: None) -> None:
    assert await found(app, job="ship") == ["order 18 was shipped"]
    assert await found(app, "shipped", job="ship") == ["order 18 was shipped"]
    assert await found(app, "late", job="ship") == []
    assert await found(app, level="error") == ["Order 17 could not be shipped"]
    assert len(await found(app, level="warning")) == 2
    assert await found(app, level="info", levels=["debug", "warning"]) == ["shipped late: order 19"]
    assert await found(app, levels=["debug"]) == ["tick_tock foo-bar"]
    assert await found(app, tenant="blue") == ["shipped late: order 19"]
    assert len(await found(app, tenant="")) == 4
    assert await found(app, run_id=4, attempt=2) == ["tick_tock foo-bar"]
    assert await found(app, run_id=4, attempt=1) == []
    assert await found(app, attempt=2) == ["tick_tock foo-bar"]
    assert await found(app, "tock", run_id=4) == ["tick_tock foo-bar"]
    assert await found(app, since=timedelta(days=1)) == []
    ago = timedelta(days=2, seconds=750)
    assert len(await found(app, since=ago)) == 2
    assert len(await found(app, until=ago)) == 3
    now = await app.clock.now()
    assert len(await found(app, since=now - ago)) == 2


async def test_what_is_left_out(app: rota.App, story: None) -> None:
    assert "tick_tock foo-bar" not in await found(app, exclude="level:debug")
    assert len(await found(app, exclude="level:debug, info")) == 2
    assert len(await found(app, exclude=["run:4", "job:ship", "tenant:blue"])) == 2
    with pytest.raises(rota.SearchError) as caught:
        await found(app, exclude="minimum:info")
    assert caught.value.field == "exclude"


@pytest.mark.parametrize(
    "filters", [{}, {"job": "work"}, {"level": "error"}, {"run_id": 1}, {"tenant": "t"}]
)
@pytest.mark.parametrize("text", ["", "line"])
async def test_pages_go_on_where_the_last_one_ended(
    app: rota.App, conn: Connection, filters: dict[str, Any], text: str
) -> None:
    conn.execute("SELECT rota.set_clock('2030-06-01 12:00+00')")
    make_partitions(conn, 4)
    noon = datetime(2030, 6, 1, 12, tzinfo=UTC)
    for n in range(19):
        # Three at the same instant, over some days.
        age = 40_000.0 * (n // 3)
        write(conn, f"line {n}", age, seq=20 - n, level="error", tenant="t", at=noon)
    got: list[tuple[datetime, int]] = []
    cursor = None
    while True:
        page = await app.logs.search(text, limit=4, cursor=cursor, **filters)
        got += [(line.at, line.seq) for line in page.lines]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(got) == len(set(got)) == 19
    assert got == sorted(got, reverse=True)


async def test_the_budget_ends_a_search_and_the_cursor_goes_on(
    app: rota.App, conn: Connection
) -> None:
    make_partitions(conn, 5)
    write(conn, "needle", 4 * DAY)
    pages = [await app.logs.search("needle", patience_seconds=0)]
    assert pages[0].lines == []
    now = await app.clock.now()
    assert pages[0].searched_back_to is not None
    assert pages[0].searched_back_to > now - timedelta(days=4)
    while pages[-1].cursor is not None:
        pages.append(await app.logs.search("needle", patience_seconds=0, cursor=pages[-1].cursor))
    assert [line.message for page in pages for line in page.lines] == ["needle"]
    backs = [page.searched_back_to for page in pages]
    assert backs == sorted(backs, key=str, reverse=True)


async def test_more_lines_at_one_instant_than_a_step_looks_at(
    app: rota.App, conn: Connection
) -> None:
    at = await app.clock.now() - timedelta(minutes=5)
    conn.execute(
        "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
        " SELECT %s, 1, 1, 1, i, 'info', 'work', 'same' FROM generate_series(1, 1500) i", [at]
    )  # fmt: skip
    write(conn, "before", 600, run=2)
    seen: list[int] = []
    cursor = None
    while True:
        page = await app.logs.search("same", limit=400, cursor=cursor, patience_seconds=0)
        seen += [line.seq for line in page.lines]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == list(range(1500, 0, -1))
    assert await found(app, "before") == ["before"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("!?", {}, "needs a letter"),
        ("", {"cursor": "x"}, "not a search cursor"),
        ("", {"cursor": "1.2.3"}, "not a search cursor"),
        ("", {"level": "loud"}, "is not a choice"),
        ("", {"levels": ["loud"]}, "is not a choice"),
        ("", {"limit": 0}, "limit"),
        ("", {"limit": 1001}, "limit"),
        ("", {"since": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
async def test_what_cannot_be_searched(
    app: rota.App, text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(rota.SearchError, match=message):
        await app.logs.search(text, **options)


def test_sync(app: rota.App, conn: Connection) -> None:
    write(conn, "here")
    assert [line.message for line in app.logs.sync.search("here").lines] == ["here"]


def test_text_that_looks_like_sql_or_like_a_pattern(app: rota.App, conn: Connection) -> None:
    write(conn, "100% of o'neil\\n_x")
    for text in ("100%", "o'neil", "'; DROP", "a:b:c", '"', "x:", ":x", "%", "\0x"):
        try:
            app.logs.sync.search(text)
        except rota.SearchError:
            continue
    assert len(app.logs.sync.search("100% o'neil").lines) == 1


def test_parsing() -> None:
    got = LogText.parse('a "b c" -d -"e f" g:h i:"j k" -l:m n*')
    assert got.wanted == ("a", "b c", "n*")
    assert got.unwanted == ("d", "e f")
    assert got.fields == (("g", "h"), ("i", "j k"))
    assert got.other_fields == (("l", "m"),)


# One run.


async def test_lines_of_a_run_in_their_order(app: rota.App) -> None:
    @app.job()
    async def work(ctx: rota.Context) -> None:
        for n in range(5):
            ctx.log.info(f"line {n}", n=n)
        if ctx.attempt == 1:
            raise rota.Retry(0)

    async with app.worker():
        run = await work.enqueue()
        await run.wait(10)
    page = await app.logs.show(run.id)
    assert [(line.attempt, line.seq) for line in page.lines] == [
        (attempt, seq) for attempt, last in ((1, 6), (2, 5)) for seq in range(1, last + 1)
    ]
    assert page.lines[5].message == "Retry: the handler asked for a retry"
    assert page.lines[0].job == "work"
    first = await app.logs.show(run.id, limit=6)
    rest = await app.logs.show(run.id, limit=6, cursor=first.cursor)
    assert first.lines + rest.lines == page.lines
    assert rest.cursor is None
    assert len((await app.logs.show(run.id, attempt=2)).lines) == 5
    assert [line.seq for line in (await app.logs.search(run_id=run.id, limit=3)).lines] == [5, 4, 3]


async def test_a_run_that_is_not_there(app: rota.App) -> None:
    with pytest.raises(rota.RunNotFound):
        await app.logs.show(7)
    with pytest.raises(rota.SearchError, match="limit"):
        await app.logs.show(7, limit=0)
    assert (await app.logs.search(run_id=7)).lines == []


# Following.


async def test_tail_shows_each_line_once_even_those_that_come_late(
    app: rota.App, conn: Connection
) -> None:
    write(conn, "before", 5)
    write(conn, "other", 4, job="other")
    tail = app.logs.tail(job="work", lines=1, poll=0.01)
    assert (await anext(tail)).message == "before"
    write(conn, "second", 1, run=2)
    assert (await anext(tail)).message == "second"
    write(conn, "first, but stored later", 3, run=3)
    assert (await anext(tail)).message == "first, but stored later"
    write(conn, "other again", 0, run=4, job="other")
    write(conn, "last", 0, run=5)
    assert (await anext(tail)).message == "last"
    await tail.aclose()  # type: ignore[attr-defined]


async def test_tail_by_text_and_level(app: rota.App, conn: Connection) -> None:
    write(conn, "boom", 5, run=1, level="error")
    tail = app.logs.tail("boom", level="warning", lines=1, poll=0.01)
    assert (await anext(tail)).run_id == 1
    write(conn, "boom", run=2)
    write(conn, "bang", run=3, level="error")
    write(conn, "boom", run=4, level="error")
    assert (await anext(tail)).run_id == 4
    await tail.aclose()  # type: ignore[attr-defined]


def test_tail_sync(app: rota.App, conn: Connection) -> None:
    write(conn, "one", 2)
    tail = app.logs.sync.tail(lines=5, poll=0.01)
    assert next(tail).message == "one"
    write(conn, "two", 0, seq=2)
    assert next(tail).message == "two"


def test_a_cursor_is_exact() -> None:
    from rota.model.log import LogKey

    key = LogKey(datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=UTC), 8, 9, 10)
    assert LogKey.parse(str(key)) == key


@pytest.mark.parametrize("road", [{}, {"job": "work"}, {"level": "warning"}, {"run_id": 1}])
async def test_a_volume_counts_lines_by_step_and_level(
    app: rota.App, conn: Connection, road: Any
) -> None:
    make_partitions(conn, 2)
    for n in range(30):
        level = "error" if n % 3 == 0 else "warning"
        write(conn, f"line {n}", 60 * n + 30, seq=n + 1, level=level, worker=1 + n % 2)
    found = await app.logs.volume(since=timedelta(hours=1), **road)
    assert found.is_all
    assert (found.lines, found.counted) == (30, 30)
    assert found.levels == {"error": 10, "warning": 20}
    assert len(found.steps) == 60
    assert sum(one.lines for one in found.steps[30:]) == 30
    assert found.jobs == {"work": 30}
    assert found.workers == {1: 15, 2: 15}
    some = await app.logs.volume("7", since=timedelta(hours=1), **road)
    assert some.lines == 1


async def test_a_volume_of_very_many_lines_is_an_estimate_and_says_so(
    app: rota.App, conn: Connection
) -> None:
    make_partitions(conn, 1)
    conn.execute(
        """INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)
           SELECT rota.now() - n * interval '1 ms', 1, 1, 1, n, 'info', 'work', 'm'
           FROM generate_series(1, 20000) n"""
    )
    found = await app.logs.volume(since=timedelta(minutes=10))
    assert not found.is_all
    assert found.counted < 20_000
    assert found.lines == pytest.approx(20_000, rel=0.25)
    assert any(one.is_rough for one in found.steps)


async def test_a_volume_needs_a_stretch(app: rota.App) -> None:
    with pytest.raises(rota.SearchError, match="before"):
        await app.logs.volume(since=timedelta(hours=1), until=timedelta(hours=2))


async def test_lines_of_a_queue_are_those_of_its_runs(app: rota.App, conn: Connection) -> None:
    """Also of a job that runs in several."""
    conn.execute("INSERT INTO rota.jobs (name, queue) VALUES ('only', 'mail'), ('both', 'mail')")
    (here,) = conn.execute("SELECT rota.enqueue('both')").fetchone() or (0,)
    (there,) = conn.execute("SELECT rota.enqueue('both', queue => 'bulk')").fetchone() or (0,)
    write(conn, "a", 3, run=77, job="only")
    write(conn, "b", 2, run=here, job="both")
    write(conn, "c", 1, run=there, job="both")
    assert await found(app, queue="mail") == ["b", "a"]
    assert await found(app, queue="bulk") == ["c"]
    assert await found(app, queue="nowhere") == []
    assert (await app.logs.volume(queue="bulk")).lines == 1
    assert [one.message for one in await app.logs.recent(queue="bulk")] == ["c"]
    assert await found(app, worker=2) == []
