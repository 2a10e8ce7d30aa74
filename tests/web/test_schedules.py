"""The list of schedules and the page of one."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.model.strip import Strip, cell_of
from tests.web.conftest import Browser


@pytest.fixture
async def digest(shop: rota.App) -> rota.App:
    await shop.schedules.create(
        "digest", "send", cron="30 8 * * 1-5", timezone="Europe/Vienna", payload={"user_id": 7}
    )
    return shop


async def test_the_list(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules")
    assert "digest send" in web.text
    assert "30 8 * * 1-5" in web.text
    await web.get("/schedules?state=paused")
    assert "Nothing matches" in web.text
    await web.get("/schedules?order=next&job=send")
    assert "digest" in web.text


async def test_those_that_need_attention(web: Browser, digest: rota.App, conn: Any) -> None:
    await digest.schedules.create("nightly", "clean", cron="0 2 * * *")
    await web.get("/schedules")
    assert "Needs attention" not in web.text
    conn.execute(
        "UPDATE rota.schedule_state SET parked_at = rota.now(), error = 'no zone' WHERE schedule_id"
        " = (SELECT id FROM rota.schedules WHERE name = 'digest')"
    )
    await web.get("/schedules?queue=mail")
    assert "Needs attention 1" in web.text
    assert "nightly" not in web.text
    await web.get("/schedules?attention=1")
    assert "only those that need attention" in web.text
    assert "digest" in web.text
    assert "nightly" not in web.text


@pytest.mark.parametrize("query", ["order=x", "state=x", "cursor=x"])
async def test_what_makes_no_sense(web: Browser, query: str) -> None:
    await web.get(f"/schedules?{query}", 422)


async def test_its_page(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest")

    assert "In Europe/Vienna" in web.text
    assert web.text.count("08:30 CE") == 11
    assert "Run once, for the latest missed time" in web.text
    assert "Skip this time and record it." in web.text
    await web.get("/schedules/nope", 404)


async def test_run_now_with_another_payload(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/trigger")
    assert '"user_id": 7' in web.text
    await web.post("/schedules/digest/trigger", 422, payload="[]")
    await web.post("/schedules/digest/trigger", 422, payload='{"user_id": "x"}')
    assert "user_id" in web.text
    await web.post("/schedules/digest/trigger", payload='{"user_id": 8}', reason="asked for")
    assert "Schedule digest enqueued run" in web.text
    (run,) = await digest.runs.list()
    assert (run.payload["user_id"], run.triggered_by["schedule"]) == (8, "digest")


async def test_one_of_a_tenant(web: Browser, shop: rota.App) -> None:
    await shop.schedules.create("sync", "clean", every=60, tenant="a&b c")
    await web.get("/schedules")
    start = web.page.index('href="/schedules/sync?') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert "a&b c" in web.text
    await web.get("/schedules/sync/pause?tenant=a%26b c")
    await web.post("/schedules/sync/pause?tenant=a%26b c", reason="x")
    assert "Schedule sync paused" in web.text
    await web.get("/schedules/sync", 404)


async def test_hostile_names(web: Browser, shop: rota.App) -> None:
    name = '"><script>alert(1)</script>/x'
    await shop.schedules.create(name, "clean", every=60, description=name)
    await web.get("/schedules")
    assert "<script>alert" not in web.page
    start = web.page.index('href="/schedules/%22') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert name in web.text


async def test_filters_are_always_visible(web: Browser, digest: rota.App) -> None:
    await digest.schedules.create("b", "clean", every=60, tags=["night"], enabled=False)
    await web.get("/schedules?text=DIG")
    assert "text DIG" in web.text
    assert "All 1" in web.text, "counts belong to the filter that is shown"
    await web.get("/schedules?tag=night&state=disabled")
    assert "tag night" in web.text
    assert "clean" in web.text
    assert "digest" not in web.text
    await web.get("/schedules?text=nothing&job=send")
    assert "Nothing matches" in web.text
    assert "Remove “text nothing”" in web.text


async def test_an_edit_is_reverted(web: Browser, digest: rota.App) -> None:
    await digest.schedules.by("ada").update("digest", cron="0 9 * * *", reason="later")
    await web.get("/schedules/digest")
    assert "ada changed 1 field" in web.text
    assert "cron 30 8 * * 1-5 0 9 * * *" in web.text
    path = web.page[web.page.index("/schedules/digest/revert/") :].partition('"')[0]
    await web.get(path)
    assert "Revert this edit of digest?" in web.text
    await digest.schedules.update("digest", tags=["x"])
    stale = web.page
    await web.post(path, 409, version="1")
    assert "this schedule was changed in the meantime" in web.text
    assert stale != web.page
    version = (await digest.schedules.get("digest")).version
    await web.post(path, version=version, reason="as before")
    assert "is reverted" in web.text
    assert (await digest.schedules.get("digest")).cron == "30 8 * * 1-5"
    created = (await digest.schedules.edits("digest")).items[-1]
    await web.get("/schedules/digest")
    await web.get(f"/schedules/digest/revert/{created.id}")
    await web.post(f"/schedules/digest/revert/{created.id}", 422)
    await web.get("/schedules/digest/revert/99999", 404)
    await web.get("/schedules/digest/revert/x", 404)


async def test_a_backfill_after_a_look(web: Browser, shop: rota.App) -> None:
    await shop.schedules.create("hourly", "clean", cron="0 * * * *", timezone="Europe/Vienna")
    await web.get("/schedules/hourly/backfill")
    assert "times in Europe/Vienna" in web.text
    given = {"from_at": "2026-01-05T10:30", "until_at": "2026-01-05T13:30"}
    await web.get(
        f"/schedules/hourly/backfill?from_at={given['from_at']}&until_at={given['until_at']}"
    )
    assert "3 times would run" in web.text
    assert "Mon 5 Jan 2026, 11:00:00 CET" in web.text
    assert await shop.runs.list() == []
    await web.post("/schedules/hourly/backfill", **given, reason="lost")
    assert "3 runs of hourly enqueued" in web.text
    assert "backfilled 3 times" in web.text
    await web.get(
        f"/schedules/hourly/backfill?from_at={given['from_at']}&until_at={given['until_at']}"
    )
    assert "0 times would run" in web.text
    assert "3 times left out" in web.text
    again = f"from_at={given['from_at']}&until_at={given['until_at']}&again=true"
    await web.get(f"/schedules/hourly/backfill?{again}")
    assert "Enqueue 3 runs" in web.text


@pytest.mark.parametrize(
    "query",
    [
        "from_at=x&until_at=x",
        "from_at=2026-01-02T00:00&until_at=2026-01-01T00:00",
        "from_at=2036-01-01&until_at=2036-01-02",
        "from_at=2026-01-01&until_at=2026-01-02&rate=x",
        "from_at=2026-01-01&until_at=2026-01-02&priority=11",
    ],
)
async def test_a_backfill_that_cannot_be(web: Browser, digest: rota.App, query: str) -> None:
    await web.get(f"/schedules/digest/backfill?{query}", 422)
    assert await digest.runs.list() == []


async def test_parts_of_the_ledger(web: Browser, digest: rota.App, conn: Any) -> None:
    conn.execute(
        """
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant,
                                 schedule, claimed_at, decided_at, run_id, details,
                                 duration_ms, state)
        SELECT s.id, at, at, CASE WHEN n = 40 THEN 'skipped' ELSE 'ran' END,
               CASE WHEN n = 40 THEN 'requirement' END, '', s.name, at, at,
               CASE WHEN n < 40 THEN n END,
               CASE WHEN n = 40 THEN '{"unmet": ["import"]}'::jsonb END,
               CASE WHEN n < 40 THEN n * 1000 END, CASE WHEN n < 40 THEN 'succeeded' END
        FROM rota.schedules s, generate_series(1, 40) n,
             LATERAL (SELECT now() - n * interval '1 hour') AS t (at)
        WHERE s.name = 'digest'
        """
    )
    await web.get("/schedules/digest")
    assert "median 20 s" in web.text
    assert "Durations of the last 39 runs: median 20 s" in web.page
    older = web.page[web.page.index('rel="next" href="') + 17 :].partition('"')[0]
    await web.get(older.replace("&amp;", "&"))
    assert "a requirement had not succeeded: import" in web.text
    await web.get("/schedules/digest?ledger=exceptions")
    assert "a requirement had not succeeded: import" in web.text
    await web.get("/schedules/digest?ledger=backfilled")
    assert "No time was backfilled." in web.text
    await web.get("/schedules/digest?ledger=x", 422)


def test_a_strip_in_words() -> None:
    rows = [
        ("ran", None, "succeeded"),
        ("ran", None, "failed"),
        ("caught_up", None, "succeeded"),
        ("ran", None, "queued"),
        ("skipped", "overlap", None),
        ("skipped", "paused", None),
        ("missed", "window", None),
    ]
    strip = Strip(tuple(cell_of(*row) for row in rows))

    assert strip.cells == ("ok", "bad", "late", "run", "skip", "flat", "miss")
    assert strip.label.startswith("last 7 times: 1 succeeded, 1 failed")


async def test_back_to_the_code(web: Browser, shop: rota.App) -> None:
    shop.schedule("poll", "send", every=60, payload={"user_id": 7})
    await web.get("/schedules/poll")
    assert "Reset to the code" not in web.text
    await shop.schedules.by("ada").update("poll", every=90, tags=["x"])
    await web.get("/schedules/poll")
    assert "2 settings differ from the code" in web.text
    await web.get("/schedules/poll/reset")
    assert "interval" in web.text
    await web.post("/schedules/poll/reset", field="tags", reason="the code knows")
    await web.post("/schedules/poll/reset")
    found = await shop.schedules.get("poll")
    assert (found.tags, found.interval_seconds) == ([], 90)
    await web.get("/schedules/nope/reset", 404)
