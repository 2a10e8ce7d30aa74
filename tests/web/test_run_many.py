"""Actions on the runs that were picked, or on all that fit the filter."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.model.run_counts import StateCount
from rota.model.states import RUN_STATES
from rota.testing import run_due
from rota.web.pages import runs
from tests.web.conftest import Browser


async def _failed(shop: rota.App, count: int) -> list[int]:
    ids = [(await shop.runs.enqueue("boom", {"text": f"no {n}"})).id for n in range(count)]
    await run_due(shop)
    return ids


async def test_tabs_count_what_the_shown_filter_has(web: Browser, shop: rota.App) -> None:
    await _failed(shop, 2)
    await shop.runs.enqueue("send", {"user_id": 1}, tags=["a"])
    await shop.runs.enqueue("send", {"user_id": 2}, tags=["b"])
    await web.get("/runs")
    assert "All 4" in web.text
    assert "Queued 2" in web.text
    assert "Failed 2" in web.text
    await web.get("/runs?job=send")
    assert "All 2" in web.text
    assert "Failed 0" in web.text
    await web.get("/runs?tag=a&state=queued")
    assert "All 1" in web.text
    assert "Queued 1" in web.text
    assert "Failed 0" in web.text


async def test_a_retried_run_is_no_longer_counted_as_failed(web: Browser, shop: rota.App) -> None:
    (run,) = await _failed(shop, 1)
    await shop.runs.retry(run)
    await web.get("/runs")
    assert "Failed 0" in web.text
    assert "Queued 1" in web.text


async def test_counts_are_bounded(shop: rota.App) -> None:
    await _failed(shop, 3)
    counts = {one.state: one for one in await shop.runs.counts(most=2)}
    assert (counts["failed"].runs, counts["failed"].is_exact) == (2, False)
    assert (counts["queued"].runs, counts["queued"].is_exact) == (0, True)


async def test_picked_runs_are_retried_after_a_question(web: Browser, shop: rota.App) -> None:
    first, second = await _failed(shop, 2)
    waiting = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/runs?state=failed")
    assert f'name="id" value="{first}"' in web.page
    path = f"/runs/selected?verb=retry&id={first}&id={second}&id={waiting.id}&state=failed"
    await web.get(path)
    assert "Retry 2 runs?" in web.text
    assert "2 boom, failed" in web.text
    assert "1 selected run is in another state and will be left alone" in web.text
    fields = {"verb": "retry", "id": [first, second, waiting.id], "state": "failed", "count": "2"}
    await web.post("/runs/selected", **fields, reason="mended")
    assert web.response.url.path == "/runs"
    assert web.response.url.query == b"state=failed", "the filter stays"
    assert "2 runs were requeued; 1 not" in web.text
    assert "checked" not in web.page, "the selection ends with its action"
    assert {(await shop.runs.get(it)).state for it in (first, second)} == {"queued"}


async def test_all_of_the_filter_is_a_bulk_action(web: Browser, shop: rota.App) -> None:
    ids = await _failed(shop, 3)
    await web.get("/runs/selected?verb=retry&all=1&state=failed&job=boom")
    assert "Retry 3 runs?" in web.text
    assert "state failed , job boom now" in web.text
    assert "No worker is live" in web.text
    fields = {"verb": "retry", "all": "1", "state": "failed", "job": "boom", "count": "3"}
    await web.post("/runs/selected", 422, **fields, rate="many")
    assert "Enter a number" in web.text
    await web.post("/runs/selected", **fields, rate="5", reason="mended")
    assert web.response.url.path == "/bulk/1"
    assert "Waiting: no worker is live" in web.text
    assert "mended" in web.text
    await shop.bulk.throttle(1, None)
    await shop.bulk.carry_out(1)
    assert {(await shop.runs.get(it)).state for it in ids} == {"queued"}
    await web.get("/bulk/1")
    assert "3 of 3 runs" in web.text
    assert "Finished" in web.text


async def test_deleting_several_asks_for_their_number(web: Browser, shop: rota.App) -> None:
    first, second = await _failed(shop, 2)
    await web.get(f"/runs/selected?verb=delete&id={first}&id={second}")
    assert "Delete 2 runs?" in web.text
    assert "permanently deleted" in web.text
    assert "Type 2 to confirm" in web.text
    fields = {"verb": "delete", "id": [first, second], "count": "2"}
    await web.post("/runs/selected", 422, **fields)
    assert "Type 2" in web.text
    await web.post("/runs/selected", 422, **fields, typed="3")
    assert len(await shop.runs.list()) == 2
    await web.post("/runs/selected", **fields, typed="2")
    assert "2 runs are deleted" in web.text
    assert await shop.runs.list() == []
    await web.get("/runs/selected?verb=delete&all=1&state=failed")
    assert "Nothing to delete" in web.text


@pytest.mark.parametrize(
    "query",
    ["verb=burn&id=1", "verb=retry", "verb=retry&all=1", "verb=retry&id=x", "verb=retry&all=1&x=1"],
)
async def test_what_cannot_be_asked(web: Browser, query: str) -> None:
    await web.get(f"/runs/selected?{query}", 422)


async def test_counts_are_at_least_what_is_on_the_page(
    web: Browser, shop: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the time was enough for."""

    async def none(*args: Any, **kwargs: Any) -> list[StateCount]:
        return [StateCount(state, 0, False) for state in RUN_STATES]

    monkeypatch.setattr(runs, "_counts", none)
    for n in range(7):
        await shop.runs.enqueue("send", {"user_id": 98 if n else 7})
    await web.get("/runs?payload=user_id=98")
    assert "All 6 " in web.text
    assert 'data-count="6"' in web.page
    for _ in range(50):
        await shop.runs.enqueue("send", {"user_id": 98})
    await web.get("/runs?payload=user_id=98&state=queued")
    assert "All 50+ " in web.text
    assert "Queued 50+ " in web.text
    assert 'data-count="50+"' in web.page


async def test_a_list_without_a_filter_offers_no_all(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/runs")
    assert 'name="all"' not in web.page
    await web.get("/runs?state=queued")
    assert 'name="all"' in web.page


async def test_filters_by_instant_are_in_the_viewers_zone(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/runs?until=2020-01-01T00:00")
    assert "Nothing matches" in web.text
    assert "created before 2020-01-01T00:00" in web.text
    await web.get("/runs?since=2020-01-01T00:00")
    assert f">{run.id}</a>" in web.page


async def test_completion(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 1}, tags=["board"], tenant="acme")
    for query, offered in (
        ("", "queue: Filter by queue."), ("jo", "job: Filter by job."), ("state:fa", "failed"),
        ("job:se", "send"), ("queue:ma", "mail"), ("tag:bo", "board"), ("tenant:a", "acme"),
        ("since:2", "24h"), ("en", "send"), ("1", "open this run"),
        ("lamp", "text: lamp Text in the payload"), ("job:zzz", "No suggestions"),
        ("payload:", "payload:user_id= integer"), ("payload:user_id=", "user_id=1"),
        ("-stat", "state:"), ("not state:fa", "failed"), ("job:send tag:bo", "board"),
        ("not state:", "failed"), ("-since:2", "No suggestions"),
    ):  # fmt: skip
        await web.get(f"/complete/runs?q={query}", **{"X-Rota-Part": "offers"})
        assert offered in web.text, query
        assert "<nav" not in web.page
    await web.get("/complete/runs?q=job:se&state=failed&tag=x")
    assert "/runs?state=failed&amp;tag=x&amp;job=send" in web.page
    for query in ("-sinc", "not sinc"):
        await web.get(f"/complete/runs?q={query}")
        assert "since:" not in web.text, "a period cannot be left out"
    await web.get("/complete/runs?q=cannot job:se")
    assert "/runs?text=cannot&amp;job=send" in web.page
    await web.get("/complete/runs?q=lamp not job:se")
    assert "/runs?text=lamp&amp;-job=send" in web.page
    for many, place in (("logs", "/logs"), ("tail", "/logs/tail")):
        await web.get(f"/complete/{many}?q=job:se&level=error")
        assert f'href="{place}?level=error&amp;job=send"' in web.page
    await web.get("/logs/tail")
    assert 'data-complete="/complete/tail"' in web.page


async def test_views_are_saved_shown_replaced_and_deleted(web: Browser, shop: rota.App) -> None:
    await web.get("/runs?state=failed&since=24h")
    await web.get("/runs/views?state=failed&since=24h")
    assert "created in the last 24h" in web.text
    await web.post("/runs/views", 422, state="failed", since="24h", name=" ")
    assert "1 to 100 characters" in web.text
    await web.post("/runs/views", state="failed", since="24h", name="Bad / today <b>")
    assert "View Bad / today <b> is saved" in web.text
    assert web.response.url.query == b"state=failed&since=24h"
    assert "Bad / today <b> web:admin" in web.text
    assert [one.query for one in await shop.views.list()] == ["state=failed&since=24h"]
    await web.post("/runs/views", job="send", name="Bad / today <b>")
    assert [one.query for one in await shop.views.list()] == ["job=send"]
    path = "/runs/views/Bad%20%2F%20today%20%3Cb%3E/delete"
    await web.get(path)
    assert "Delete view Bad / today <b>?" in web.text
    await web.post(path)
    assert await shop.views.list() == []
    await web.post(path, 404)
    await web.post("/runs/views", 422, name="empty")


async def test_views_have_faces_of_their_own(shop: rota.App, conn: Any) -> None:
    await shop.views.by("ada").save("mine", "?state=failed")
    (found,) = shop.views.sync.list()
    assert (found.name, found.query, found.created_by) == ("mine", "state=failed", "ada")
    for name, query in (("", "state=failed"), ("x" * 101, "a=b"), ("mine", ""), ("mine", "x")):
        with pytest.raises(rota.InputError):
            await shop.views.save(name, query)
    await shop.views.delete("mine", "done")
    with pytest.raises(rota.ViewNotFound):
        await shop.views.delete("mine")
    actions = conn.execute("SELECT action FROM rota.audit WHERE object_type = 'view'").fetchall()
    assert actions == [("view.saved",), ("view.deleted",)]


async def test_bulk_actions_are_listed_and_steered(web: Browser, shop: rota.App) -> None:
    await web.get("/bulk")
    assert "No bulk actions yet" in web.text
    await shop.runs.enqueue("send", {"user_id": 1})
    await shop.bulk.by("ada").start("cancel", job="send", reason="<i>storm</i>")
    await web.get("/runs")
    assert "Cancelling runs : 0 of 0+, by ada: “<i>storm</i>”" in web.text
    assert "no worker is live" in web.text
    await web.get("/bulk")
    assert "running Cancel runs bulk action 1 job send" in web.text
    await web.get("/bulk/1/pause")
    await web.post("/bulk/1/pause", reason="wait")
    assert "Bulk action 1 is paused" in web.text
    await web.post("/bulk/1/pause")
    assert "Bulk action 1 is paused" in web.text
    await web.get("/bulk/1")
    await web.post("/bulk/1/throttle", rate="20")
    assert "limited to 20/s" in web.text
    await web.post("/bulk/1/throttle", 422, rate="0")
    await web.post("/bulk/1/throttle", 422, rate="x")
    await web.post("/bulk/1/throttle", rate="")
    assert "has no rate limit" in web.text
    await web.get("/bulk/1/resume")
    await web.post("/bulk/1/resume")
    await web.get("/bulk/1/stop")
    assert "Stop bulk action 1" in web.text
    await web.post("/bulk/1/stop", reason="enough")
    assert "is stopped" in web.text
    assert "Stopped by web:admin: “enough”" in web.text
    for path in ("/bulk/9", "/bulk/9/pause"):
        await web.get(path, 404)
