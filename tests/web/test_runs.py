"""The list of runs and the page of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import QueryParams

import rota
from rota.errors import FilterError
from rota.testing import drain
from rota.web.frames import parts_of
from rota.web.run_query import RunQuery
from tests.web.conftest import Browser

TRACEBACK = """Traceback (most recent call last):
  File "/app/.venv/lib/python3.11/site-packages/rota/runtime/runner.py", line 90, in run
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
    assert f">{first.id}<" not in web.page
    assert f">{second.id}<" in web.page
    assert "Remove the filter job clean" in web.page
    await web.get("/runs?key=none")
    assert "Nothing matches" in web.text


async def test_what_somebody_types(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs?q={run.id}")
    assert web.response.url.path == f"/runs/{run.id}"
    await web.get("/runs?tenant=a&q=send state:failed")
    assert web.response.url.query == b"tenant=a&job=send&state=failed"
    await web.get("/runs?q=colour:red", 422)
    assert "runs have no filter colour" in web.text


@pytest.mark.parametrize("query", ["state=nope", "since=soon", "until=1y"])
async def test_a_filter_that_makes_no_sense(web: Browser, query: str) -> None:
    await web.get(f"/runs?{query}", 422)

    assert "Not understood" in web.text


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
    await web.post(f"{path}/cancel", 409, reason="again")

    await web.get(f"{path}/retry")
    await web.post(f"{path}/retry", 422, payload="{")
    assert "not JSON" in web.text
    await web.post(f"{path}/retry", 422, payload='{"user_id": "x"}')
    assert "user_id" in web.text
    await web.post(f"{path}/retry", payload=json.dumps({"user_id": 2, "locale": "de"}))
    assert f"Run {run.id} goes back to work" in web.text
    assert (await shop.runs.get(run.id)).payload == {"user_id": 2, "locale": "de"}


async def test_a_failure_with_its_traceback(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("boom", {"text": "550 <b>no</b>"})
    await drain(shop)
    await web.get("/runs?state=failed")
    assert "550 <b>no</b>" in web.text
    await web.get(f"/runs/{run.id}")
    assert "Attempt 1 failed RuntimeError: 550 <b>no</b>" in web.text
    assert '<span class="own">  File' in web.page
    assert "it breaks" in web.text, "its log line"
    await web.get(f"/runs/{run.id}/retry")
    await web.post(f"/runs/{run.id}/retry", payload="")
    assert "goes back to work" in web.text


async def test_a_run_is_deleted_after_a_question(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get(f"/runs/{run.id}/delete")
    await web.post(f"/runs/{run.id}/delete", 409)
    await shop.runs.cancel(run.id)
    await web.get(f"/runs/{run.id}/delete")
    assert "removed for good" in web.text
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
        ("since", "24h"),
        ("only", "dead letters"),
    ]
    assert query.tab("running") == "/runs?job=a+b&since=24h&state=running"
    with pytest.raises(FilterError):
        _ = RunQuery.read(QueryParams("since=x")).filters


def test_a_traceback_in_parts() -> None:
    found = parts_of(TRACEBACK)

    assert [part.kind for part in found] == ["head", "library", "own", "library", "error"]
    assert found[1].words == "1 frame of rota"
    assert found[3].words == "1 frame of smtp"
    assert "server.send(text)" in found[2].text
    assert found[4].text == "smtp.Refused: 550 no such user\nsecond line"
