"""The list of runs and the page of one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import QueryParams

import rota
from rota.errors import FilterError
from rota.model.run_filter import RunFilter
from rota.testing import run_due
from rota.web.expected import Expected, expected_of
from rota.web.filters.runs import RunQuery
from rota.web.frames import parts_of
from rota.web.life_picture import picture_of
from rota.web.run_text import told_of
from tests.web.conftest import Browser

TRACEBACK = """Traceback (most recent call last):
  File "/app/.venv/lib/python3.11/site-packages/rota/engine/attempts/runner.py", line 90, in run
    result = await definition.function(**arguments)
  File "/app/shop/mail.py", line 12, in send
    server.send(text)
  File "/app/.venv/lib/python3.11/site-packages/smtp/client.py", line 3, in send
    raise Refused(text)
smtp.Refused: 550 no such user
second line"""


async def test_the_list_and_its_filters(web: Browser, shop: rota.App) -> None:
    first = await shop.runs.enqueue("send", {"user_id": 1}, key="k1")
    second = await shop.runs.enqueue("clean", {"days": 1}, delay=3600)
    await web.get("/runs")
    assert f"queued {first.id} send mail" in web.text
    assert f"scheduled {second.id} clean default" in web.text
    assert "starts in 1 h" in web.text

    await web.get("/runs?state=scheduled&job=clean")
    assert f">{first.id}</a>" not in web.page
    assert f">{second.id}</a>" in web.page
    assert "Remove the filter job clean" in web.page
    await web.get("/runs?key=none")
    assert "Nothing matches" in web.text


async def test_rows_say_which_run_it_is_and_what_failed(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 98, "locale": "de"}, key="order-98")
    await shop.runs.enqueue("boom", {"text": "no <b>stock</b>"}, max_attempts=1)
    await run_due(shop)
    await shop.errors.list()  # adds up what failed: before, the type of an error is not known
    await web.get("/runs?job=send")
    assert "key= order-98 locale= de user_id= 98" in web.text
    await web.get("/runs?job=boom")
    assert "RuntimeError no <b>stock</b> text= no <b>stock</b>" in web.text
    assert "<b>stock" not in web.page


def test_long_values_of_a_payload_are_cut() -> None:
    run: Any = SimpleNamespace(key=None, payload={"a": "x" * 500, "b": [1, {"c": 2}], "d": None})
    (_, long), *rest = told_of(run)
    assert len(long) < 70
    assert rest == [("b", '[1, {"c": 2}]'), ("d", "null")]


async def test_what_somebody_types(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs?q={run.id}")
    assert web.response.url.path == f"/runs/{run.id}"
    await web.get("/runs?tenant=a&q=refused")
    assert web.response.url.query == b"tenant=a&text=refused", "no job is called so"
    await web.get("/runs?tenant=a&q=send state:failed")
    assert web.response.url.query == b"tenant=a&job=send&state=failed"
    await web.get("/runs?q=order 98")
    assert web.response.url.query == b"text=order&text=98"
    await web.get('/runs?q=-job:send not state:failed -refused "not found"')
    assert web.response.url.query == b"-job=send&-state=failed&-text=refused&text=not+found"
    assert "not job send" in web.text
    await web.get("/runs?q=not found")
    assert web.response.url.query == b"text=not&text=found"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("colour:red", "Unknown filter colour"), ("state:nope", "Choose from blocked"),
        ("job:", "Job needs a value"), ("-since:2h", "Since cannot be left out"),
        ("worker:x clean", "Worker must be a whole number"), ("payload:x", "KEY:VALUE"),
    ],
)  # fmt: skip
async def test_a_typo_leaves_the_list_and_what_was_typed(
    web: Browser, shop: rota.App, typed: str, said: str
) -> None:
    run = await shop.runs.enqueue("clean", {"days": 1})
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs?job=clean&q={typed}", 422)
    assert said in web.text
    assert f'value="{typed}"' in web.page
    assert "Remove the filter job clean" in web.page
    assert web.page.count("data-row") == 1
    assert f">{run.id}</a>" in web.page
    assert 'name="all"' not in web.page, "an action would take more than was meant"
    await web.get(f"/runs?job=clean&q={typed}", **{"X-Rota-Part": "list"})
    assert said in web.text


async def test_what_is_left_out_of_the_list(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 98})
    other = await shop.runs.enqueue("clean", {"days": 98})
    for query, there in (
        ("-job=clean", True), ("-job=send", False), ("text=98&-text=days", True),
        ("-payload=user_id=98", False), ("text=user_id&text=98", True), ("-state=queued", None),
    ):  # fmt: skip
        await web.get(f"/runs?{query}")
        assert (f">{run.id}</a>" in web.page) is (there is True), query
        assert (f">{other.id}</a>" in web.page) is (there is False), query


@pytest.mark.parametrize(
    "query",
    ["state=nope", "since=soon", "until=1y", "worker=x", "payload=x", "handled=maybe"],
)
async def test_a_filter_that_makes_no_sense(web: Browser, query: str) -> None:
    await web.get(f"/runs?{query}", 422)
    assert 'role="alert"' in web.page


async def test_pages_by_key(web: Browser, shop: rota.App) -> None:
    job = shop.registry.get("send")
    for n in range(51):
        await shop.runs.enqueue(job.name, {"user_id": n})
    await web.get("/runs")
    assert web.page.count("data-row") == 50
    start = web.page.index('rel="next" href="') + 17
    await web.get(web.page[start : web.page.index('"', start)].replace("&amp;", "&"))
    assert web.page.count("data-row") == 1


async def test_a_waiting_run_is_cancelled_and_retried(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    path = f"/runs/{run.id}"
    await web.get(path)
    assert "Enqueued" in web.text
    await web.get(f"{path}/cancel")
    await web.post(f"{path}/cancel", reason="a mistake")
    assert f"Run {run.id} is cancelled" in web.text
    assert "a mistake" in web.text
    await web.post(f"{path}/cancel", 422, reason="again")

    await web.get(f"{path}/retry")
    await web.post(f"{path}/retry", 422, payload="{")
    assert "not JSON" in web.text
    await web.post(f"{path}/retry", 422, payload='{"user_id": "x"}')
    assert "user_id" in web.text
    await web.post(f"{path}/retry", payload=json.dumps({"user_id": 2, "locale": "de"}))
    assert f"Run {run.id} was requeued" in web.text
    assert (await shop.runs.get(run.id)).payload == {"user_id": 2, "locale": "de"}


async def test_a_failure_with_its_traceback(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("boom", {"text": "550 <b>no</b>"})
    await run_due(shop)
    await web.get("/runs?state=failed")
    assert "550 <b>no</b>" in web.text
    await web.get(f"/runs/{run.id}")
    assert "Attempt 1 failed RuntimeError: 550 <b>no</b>" in web.text
    assert '<span class="own">  File' in web.page
    assert "it breaks" in web.text, "its log line"
    await web.get(f"/runs/{run.id}/retry")
    await web.post(f"/runs/{run.id}/retry", payload="")
    assert "was requeued" in web.text


async def test_a_run_is_deleted_after_a_question(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs/{run.id}/delete")
    await web.post(f"/runs/{run.id}/delete", 422)
    await shop.runs.cancel(run.id)
    await web.get(f"/runs/{run.id}/delete")
    assert "cannot be restored" in web.text
    await web.post(f"/runs/{run.id}/delete", reason="tidy")
    assert f"Run {run.id} is deleted" in web.text
    await web.get(f"/runs/{run.id}", 404)


async def test_hostile_text_is_text(web: Browser, shop: rota.App, conn: Any) -> None:
    evil = "<script>alert(1)</script>"
    run = await shop.runs.enqueue("send", {"user_id": 1, "locale": evil}, key=evil, tags=[evil])
    await shop.runs.cancel(run.id, reason=evil)
    for path in ("/runs", f"/runs/{run.id}", f"/runs/{run.id}/retry", f"/runs?key={evil}"):
        await web.get(path)
        assert evil not in web.page
    assert evil in web.text


async def test_numbers_stay_as_they_were(web: Browser, conn: Any, shop: rota.App) -> None:
    run = await shop.runs.enqueue("clean", {"days": 9007199254740993})
    await web.get(f"/runs/{run.id}")

    assert "9007199254740993" in web.text


def test_a_filter_is_an_address_and_back() -> None:
    query = RunQuery.read(QueryParams("state=failed&state=cancelled&job=a b&since=24h&dead=1&x=1"))

    assert RunQuery.read(QueryParams(query.path().partition("?")[2])) == query
    assert [(one.key, one.value) for one in query.tokens] == [
        ("state", "failed"),
        ("state", "cancelled"),
        ("job", "a b"),
        ("created", "in the last 24h"),
        ("only", "dead letters"),
    ]
    assert query.tab("running") == "/runs?job=a+b&since=24h&state=running"
    with pytest.raises(FilterError):
        RunQuery.read(QueryParams("since=x")).checked()


def test_a_traceback_in_parts() -> None:
    found = parts_of(TRACEBACK)

    assert [part.kind for part in found] == ["head", "library", "own", "library", "error"]
    assert found[1].words == "1 frame of rota"
    assert found[3].words == "1 frame of smtp"
    assert "server.send(text)" in found[2].text
    assert found[4].text == "smtp.Refused: 550 no such user\nsecond line"


async def test_long_decimals_and_large_integers_appear_unaltered(
    web: Browser, conn: Any, shop: rota.App
) -> None:
    exact = "0.1234567890123456789012345"
    (row,) = conn.execute(
        "SELECT rota.enqueue('clean', %s)",
        [f'{{"days": 9223372036854775807, "share": {exact}}}'],
    ).fetchall()
    path = f"/runs/{row[0]}"
    await web.get(path)
    assert exact in web.text
    assert "9223372036854775807" in web.text
    await web.get(f"{path}/payload.json")
    assert f'"share": {exact}' in web.page
    assert web.response.headers["content-type"] == "application/json"
    assert web.response.headers["x-content-type-options"] == "nosniff"
    assert "attachment" in web.response.headers["content-disposition"]
    await web.get(f"{path}/result.json")
    assert web.page == "null"

    await shop.runs.cancel(row[0])
    await web.get(f"{path}/retry?edit=1")
    assert exact in web.text
    edited = f'{{"days": 1, "share": {exact}}}'
    await web.post(f"{path}/retry", 422, payload=edited)
    assert "more digits than can be stored" in web.text


async def test_a_large_payload_is_folded_and_downloaded(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1, "locale": "ü" * 200_000})
    await web.get(f"/runs/{run.id}")
    assert len(web.page) < 120_000
    assert "Show its beginning" in web.text
    await web.get(f"/runs/{run.id}/payload.json")
    assert web.page.count("ü") == 200_000
    await web.get("/runs/999/payload.json", 404)


async def test_the_log_of_a_run_is_filtered_and_says_so(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("boom", {"text": "<b>no</b>"})
    await run_due(shop)
    await web.get(f"/runs/{run.id}")
    assert "it breaks" in web.text
    assert "other lines are hidden" not in web.text
    await web.get(f"/runs/{run.id}?level=debug")
    assert "Only debug: other lines are hidden." in web.text
    assert "No matching lines." in web.text
    await web.get(f"/runs/{run.id}?q=breaks")
    assert "only lines with “breaks”: other lines are hidden. Show all" in web.text
    assert "it breaks" in web.text
    await web.get(f"/runs/{run.id}?q=nowhere")
    assert "No matching lines." in web.text
    assert f'action="/runs/{run.id}#log"' in web.page


async def test_a_run_with_very_many_lines_opens_with_its_last(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    conn.execute(
        "INSERT INTO rota.logs (at, run_id, attempt, seq, worker, level, message, job, tenant) "
        "SELECT now(), %s, 1, i, 1, 'info', 'line ' || i, 'send', '' "
        "FROM generate_series(1, 50000) i",
        [run.id],
    )
    await web.get(f"/runs/{run.id}")
    assert web.page.count("data-key=") < 230
    assert "line 50000" in web.text
    assert "line 49801" in web.text
    assert "line 49800 " not in web.text
    earlier = web.page.split('data-earlier="')[1].split('"')[0].replace("&amp;", "&")
    first = web.page.split('<div class="l level-info" data-key="')[1].split('"')[0]
    await web.get(f"{earlier}&cursor={first}")
    assert "line 49800 " in web.text
    assert "line 49601 " in web.text


async def test_actions_of_a_run(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs/{run.id}")
    assert 'data-key="c"' in web.page
    assert "Delete: only when it has ended" in web.text
    assert f"/runs/new?from={run.id}" in web.page
    await shop.runs.cancel(run.id)
    await web.get(f"/runs/{run.id}")
    assert 'data-key="r"' in web.page
    assert "Edit and retry…" in web.text
    await web.get(f"/runs/{run.id}/retry")
    assert "and the same payload" in web.text
    assert "<textarea" not in web.page
    await web.post(f"/runs/{run.id}/retry")
    assert (await shop.runs.get(run.id)).payload == {"user_id": 1}


def test_the_picture_of_a_life() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float) -> datetime:
        return begin + timedelta(seconds=seconds)

    run: Any = SimpleNamespace(created_at=begin, finished_at=at(4000), state="failed")
    tries: Any = [
        SimpleNamespace(attempt=1, state="failed", started_at=at(3600), finished_at=at(3610)),
        SimpleNamespace(attempt=2, state="failed", started_at=at(3990), finished_at=at(4000)),
    ]
    found = picture_of(run, tries, at(5000))
    assert found is not None
    assert found.label == ("waited 1 h, attempt 1, 10 s, then waited 6 min 20 s, attempt 2, 10 s")
    assert [one.is_cut for one in found.segments] == [True, False, True, False]
    last = found.segments[-1]
    assert last.x + last.width == pytest.approx(100, abs=0.5)
    waiting: Any = SimpleNamespace(created_at=begin, finished_at=None, state="queued")
    only = picture_of(waiting, [], at(60))
    assert only is not None
    assert only.label == "waited 1 min so far"
    assert picture_of(waiting, [], begin) is None


def test_when_it_will_be_done() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def run(progress: float | None, seconds: float) -> Any:
        began = now - timedelta(seconds=seconds)
        return SimpleNamespace(state="running", started_at=began, progress=progress)

    usual: Any = SimpleNamespace(attempts=30, p50_ms=60_000, p95_ms=90_000, p99_ms=100_000)
    assert expected_of(run(0.5, 60), None, now).left == "about 1 min left"
    assert expected_of(run(None, 10), usual, now).left == "about 50 s left"
    assert expected_of(run(None, 70), usual, now).left == "should end soon"
    assert expected_of(run(None, 700), usual, now) == Expected(
        "longer than usual", "usually 1 min, p95 1 min 30 s", True
    )
    few: Any = SimpleNamespace(attempts=2, p50_ms=1, p95_ms=1, p99_ms=1)
    assert expected_of(run(None, 10), few, now) == Expected("", "", False)


async def test_a_run_with_many_attempts_is_folded(web: Browser, shop: rota.App, conn: Any) -> None:
    run = await shop.runs.enqueue("boom", {"text": "lamp"})
    await run_due(shop)
    conn.execute(
        "INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at,"
        " duration_ms, is_spent, job, tenant, error_type, error)"
        " SELECT id, n, 'failed', worker, finished_at + n * interval '1 ms',"
        " finished_at + n * interval '2 ms', 1, true, job, '', 'RuntimeError', 'try ' || n"
        " FROM rota.ended_runs, generate_series(2, 40) n WHERE id = %s",
        [run.id],
    )
    await web.get(f"/runs/{run.id}")
    assert "Attempts 1 to 28 28 failed" in web.text
    assert "28 earlier attempts" in web.text
    assert web.page.count('class="attempt"') == 40


async def test_every_filter_of_runs_is_one_of_the_page(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("boom", {"text": "lamp"})
    other = await shop.runs.enqueue("boom", {"text": "mug"})
    await run_due(shop)
    group = (await shop.runs.get(run.id)).error_group
    for query, words, both in (
        ("error=lamp", "error lamp", False),
        ("text=lamp", "text lamp", False),
        ("payload=text=lamp", "payload text=lamp", False),
        (f"group={group}", f"group {group}", False),
        ("ended_since=1h", "ended in the last 1h", True),
        ("handled=no", "handled no", True),
        ("ended_until=2020-01-01T00:00", "ended before 2020-01-01T00:00", None),
        ("worker=99", "worker 99", None),
    ):
        await web.get(f"/runs?{query}")
        assert words in web.text, query
        assert (f">{run.id}</a>" in web.page) is (both is not None), query
        assert (f">{other.id}</a>" in web.page) is (both is True), query


def test_a_kept_filter_is_an_address_again() -> None:
    kept = {
        "states": ["failed"], "error_group": "ab", "payload_fields": {"a.b": 7}, "worker": 3,
        "handled": False, "ended_since": "2026-01-01T00:00:00+00:00", "dead": True,
    }  # fmt: skip
    query = RunQuery.of(kept)
    again = RunFilter.of(query.filters)
    assert again.as_json() | {"payload_fields": {"a.b": 7}, "states": ["failed"]} == kept


async def test_what_a_run_started_and_who_asked_for_it(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    (child,) = conn.execute(
        "SELECT run_id FROM rota.enqueue_run('clean', triggered_by => %s::jsonb)",
        [json.dumps({"type": "code", "run": run.id})],
    ).fetchone()
    conn.execute(
        """SELECT rota.enqueue_run('clean', triggered_by => '{"type": "code", "run": "<b>"}')"""
    )
    await web.get(f"/runs/{run.id}")
    assert "Runs it enqueued 1 run" in web.text
    assert f"{child} clean queued" in web.text
    await web.get(f"/runs/{child}")
    assert f"Enqueued by run {run.id}" in web.text
    await web.get(f"/runs/{child + 1}")
    assert "Asked for by" not in web.text


async def test_a_run_leads_to_the_schedule_of_its_tenant(web: Browser, shop: rota.App) -> None:
    await shop.schedules.put("digest", "clean", cron="0 8 * * *", tenant="acme & co")
    made = await shop.schedules.trigger("digest", tenant="acme & co")
    await web.get(f"/runs/{made.run_id}")
    assert "/schedules/digest?tenant=acme+%26+co" in web.page


async def test_what_is_empty_takes_one_line_and_what_nobody_scheduled_has_no_occurrence(
    web: Browser, shop: rota.App
) -> None:
    @shop.job
    async def rest() -> None: ...

    await shop.schedules.create("nightly", "rest", cron="0 3 * * *")
    made = await shop.schedules.trigger("nightly")

    await web.get(f"/runs/{made.run_id}")

    assert "Schedule nightly" in web.text
    assert "Occurrence" not in web.text
    assert "Payload 2 B" in web.text
    assert "{\n}" not in web.page
