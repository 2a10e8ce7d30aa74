"""The page of errors: groups, one of them, handling and reopening, without scripts."""

from __future__ import annotations

import pytest

import rota
from rota.testing import run_due
from tests.web.conftest import Browser


@pytest.fixture
async def group(shop: rota.App) -> str:
    for text in ("order 7 <b>refused</b>", "order 8 <b>refused</b>"):
        await shop.runs.enqueue("boom", {"text": text})
    await run_due(shop)
    (found,) = await shop.errors.list()
    return found.id


async def test_the_list_shows_groups_with_their_standing(web: Browser, group: str) -> None:
    await web.get("/errors")
    assert "RuntimeError : order 8 <b>refused</b>" in web.text
    assert "<b>refused" not in web.page
    assert "Open 1" in web.text
    assert "New or back 1" in web.text
    assert "2 failed attempts of all jobs in the last 24 hours" in web.text
    assert f"/errors/{group}" in web.page
    assert "2 failures in the last 24 hours" in web.page


async def test_filters_are_shown_and_can_be_taken_away(web: Browser, group: str) -> None:
    await web.get("/errors?q=refused&job=boom&range=1h&order=most")
    assert "job boom" in web.text
    assert "text refused" in web.text
    assert "RuntimeError" in web.text
    await web.get("/errors?q=nothing+like+it")
    assert "Nothing matches" in web.text
    assert "Remove “text it”" in web.text


async def test_odd_addresses_are_read_as_far_as_they_go(web: Browser, group: str) -> None:
    await web.get("/errors?tab=odd&range=odd&cursor=odd&order=odd")
    assert "RuntimeError" in web.text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/errors", "No open errors"),
        ("/errors?tab=handled", "No handled errors"),
        ("/errors?tab=quiet", "No quiet errors"),
    ],
)
async def test_empty_lists_say_why(web: Browser, address: str, words: str) -> None:
    await web.get(address)
    assert words in web.text


async def test_one_group_shows_where_how_often_and_its_runs(web: Browser, group: str) -> None:
    await web.get(f"/errors/{group}")
    assert "RuntimeError in boom" in web.text
    assert "raise RuntimeError(text)" in web.text
    assert "Retry 2…" in web.text
    assert "Edit and retry…" in web.text
    assert "<b>refused" not in web.page
    assert f"/runs?group={group}" in web.page
    await web.get(f"/runs?group={group}")
    assert f"group {group}" in web.text
    await web.get("/errors/nothing", 404)
    await web.get("/errors/nothing/handle", 404)


async def test_handling_and_reopening(web: Browser, shop: rota.App, group: str) -> None:
    await web.get(f"/errors/{group}/handle")
    assert "RuntimeError: order 8 <b>refused</b>. Neither it nor" in web.text
    await web.post(f"/errors/{group}/handle", reason="the <i>supplier</i> knows")
    assert "Handled" in web.text
    assert "“the <i>supplier</i> knows”" in web.text
    await web.get("/errors?tab=handled")
    assert "RuntimeError" in web.text
    await web.get("/errors")
    assert "No open errors" in web.text
    await web.get(f"/errors/{group}/handle")
    await web.post(f"/errors/{group}/handle", 422)
    await shop.runs.enqueue("boom", {"text": "order 9 <b>refused</b>"})
    await run_due(shop)
    await web.get(f"/errors/{group}")
    assert "Back again." in web.text
    await web.get(f"/errors/{group}/reopen")
    await web.post(f"/errors/{group}/reopen", reason="not yet")
    assert "Reopened" in web.text
    assert "not yet" in web.text
    await web.get(f"/errors/{group}/reopen")
    await web.post(f"/errors/{group}/reopen", 422)


async def test_retry_asks_for_all_of_the_group(web: Browser, shop: rota.App, group: str) -> None:
    await web.get(f"/runs/selected?verb=retry&all=1&group={group}&state=failed")
    assert "Retry 2 runs" in web.text
    await web.get("/runs?error=refused&handled=no&ended_since=1h&worker=1&payload=text%3Dx")
    for words in (
        "error refused",
        "handled no",
        "ended in the last 1h",
        "worker 1",
        "payload text=x",
    ):
        assert words in web.text
    for odd in ("worker=odd", "handled=odd", "payload=odd"):
        await web.get(f"/runs?{odd}", 422)


async def test_parts_come_alone(web: Browser, group: str) -> None:
    await web.get("/errors", **{"X-Rota-Part": "list"})
    assert "<html" not in web.page
    await web.get(f"/errors/{group}", **{"X-Rota-Part": "body"})
    assert "<html" not in web.page


async def test_dead_letters_say_what_they_died_of(web: Browser, shop: rota.App, group: str) -> None:
    await web.get("/runs?dead=1")
    assert "Most common errors" in web.text
    assert "RuntimeError: order 8 <b>refused</b>" in web.text
    assert "<b>refused" not in web.page
    assert "Edit and retry…" in web.text
    assert f"group={group}" in web.page
    (run, _) = await shop.runs.list(dead=True)
    await web.get(f"/runs/{run.id}/retry?edit=1")
    assert "Payload" in web.text
    await web.get("/runs")
    assert "Most common errors" not in web.text


async def test_one_dead_letter_is_handled_and_reopened(
    web: Browser, shop: rota.App, group: str
) -> None:
    (run, _) = await shop.runs.list(dead=True)
    await web.get(f"/runs/{run.id}")
    assert "Mark as handled…" in web.text
    assert f"/errors/{group}" in web.page
    await web.get(f"/runs/{run.id}/handle")
    await web.post(f"/runs/{run.id}/handle", reason="refunded <i>by hand</i>")
    assert "“refunded <i>by hand</i>”" in web.text
    await web.get("/runs?handled=yes")
    assert str(run.id) in web.text
    await web.get(f"/runs/{run.id}/handle")
    await web.post(f"/runs/{run.id}/handle", 422)
    await web.get(f"/runs/{run.id}/reopen")
    await web.post(f"/runs/{run.id}/reopen")
    assert "Mark as handled…" in web.text
    await web.get("/runs/999/handle", 404)
    assert (await shop.runs.details(run.id)).handled is None
