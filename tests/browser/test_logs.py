"""The tail follows, holds, and says which; lines open; the palette jumps and acts."""

from __future__ import annotations

from typing import Any

import psycopg
from playwright.async_api import expect

from tests.browser.conftest import BROWSER, OpenTab, Place
from tests.browser.tabs import Tab
from tests.loglines import write

pytestmark = BROWSER
STATE = "[data-tail-text]"
LINES = "[data-tail-lines]"


def write_many(conn: psycopg.Connection[Any], count: int) -> None:
    conn.execute(
        """INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)
           SELECT rota.now() - (%s - n) * interval '1 ms', 9001, 1, 1, n, 'info', 'many',
                  'line ' || n
           FROM generate_series(1, %s) n""",
        [count, count],
    )


async def test_a_tail_follows_at_its_end_and_holds_when_one_reads(
    place: Place, open_tab: OpenTab
) -> None:
    write_many(place.conn, 300)
    tab: Tab = await open_tab(place)
    await tab.open("/logs/tail")
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    write(place.conn, "news from below", run=9000, job="other")
    await expect(tab.page.locator(LINES).get_by_text("news from below")).to_be_in_viewport()

    await tab.page.eval_on_selector(LINES, "box => box.scrollTop = box.scrollHeight / 2")
    await expect(tab.page.locator(STATE)).to_have_text("Held while you read; connected")
    before = await tab.page.eval_on_selector(LINES, "box => box.scrollTop")
    write(place.conn, "while somebody reads", run=9000, seq=2, job="other")
    await expect(tab.page.locator(STATE)).to_have_text("Held, 1 new line below")
    assert await tab.page.eval_on_selector(LINES, "box => box.scrollTop") == before

    await tab.page.click("[data-tail-follow]")
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    await expect(tab.page.locator(LINES).get_by_text("while somebody reads")).to_be_in_viewport()


async def test_earlier_lines_come_without_moving_what_is_read(
    place: Place, open_tab: OpenTab
) -> None:
    write_many(place.conn, 500)
    tab: Tab = await open_tab(place)
    await tab.open("/logs/tail?job=many")
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    assert await tab.page.locator(".l").count() == 200
    await tab.page.eval_on_selector(LINES, "box => box.scrollTop = 0")
    await expect(tab.page.locator(".l").nth(399)).to_be_attached()
    await expect(tab.page.get_by_text("line 301", exact=True)).to_be_in_viewport()


async def test_a_tail_that_was_cut_off_says_so_and_misses_nothing(
    place: Place, open_tab: OpenTab
) -> None:
    write(place.conn, "the first", run=9000)
    tab: Tab = await open_tab(place)
    await tab.open("/logs/tail")
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    await tab.page.context.set_offline(True)
    await tab.page.evaluate("tails[0].lost()")  # as its watch does after a silence
    await expect(tab.page.locator(STATE)).to_contain_text("Reconnecting")
    write(place.conn, "while it was away", run=9000, seq=2)
    await tab.page.context.set_offline(False)
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    await expect(tab.page.get_by_text("while it was away", exact=True)).to_be_visible()
    assert await tab.page.get_by_text("the first", exact=True).count() == 1
    tab.faults[:] = [one for one in tab.faults if "INTERNET_DISCONNECTED" not in one]


async def test_a_line_opens_to_its_fields(everyday: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(everyday)
    await tab.open("/logs?level=warning")
    line = tab.page.locator(".log .l").first
    await line.locator(".m").click()
    await expect(line.locator("dl")).to_be_visible()
    await expect(line.locator("dl")).to_contain_text("attempt 1")


async def test_the_palette_jumps_and_acts(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules")
    failed = place.world.runs["failed"]
    await tab.page.keyboard.press("Control+k")
    found = tab.page.locator("#palette a[role=option]")
    await expect(found.first).to_be_visible()
    await tab.page.keyboard.type(str(failed))
    await tab.page.keyboard.press("Enter")  # before what was typed is found
    await tab.page.wait_for_url(f"**/runs/{failed}")

    await tab.page.keyboard.press("Control+k")
    await tab.page.keyboard.type("pause mail")
    await expect(found.first).to_contain_text("Pause queue mail")
    assert not await tab.axe()
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.locator("#dialog h1")).to_contain_text("Pause queue mail")
    await tab.page.fill("#dialog [name=reason]", "from the palette")
    await tab.page.click("#dialog button.primary")
    await expect(tab.page.locator("#toasts")).to_contain_text("mail")
    assert (await place.app.queues.get("mail")).queue.is_paused


async def test_keys(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    await tab.page.keyboard.press("?")
    await expect(tab.page.locator("#dialog")).to_contain_text("Single keys are ignored")
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.locator("#dialog")).to_be_hidden()
    await tab.page.keyboard.press("/")
    await expect(tab.page.locator("[data-filter]")).to_be_focused()
    await tab.page.keyboard.type("gl")  # letters, while one types
    await tab.page.evaluate("document.activeElement.blur()")
    await tab.page.keyboard.press("g")
    await tab.page.keyboard.press("l")
    await tab.page.wait_for_url("**/logs")
    await tab.open("/runs?state=failed")
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("r")
    await expect(tab.page.locator("#dialog h1")).to_contain_text("Retry")


async def test_a_tail_that_was_away_for_long_says_what_it_leaves_out(
    place: Place, open_tab: OpenTab
) -> None:
    write(place.conn, "the first", 3600, run=9000)
    write(place.conn, "long ago", 1800, run=9000, seq=2)
    tab: Tab = await open_tab(place)
    await tab.open("/logs/tail?run=9000")
    await expect(tab.page.locator(STATE)).to_have_text("Connected, following")
    # As if the last line were the one before, when the lid was closed.
    await tab.page.evaluate(
        "() => { const tail = tails[0], all = tail.lines.querySelectorAll('.l');"
        " all[1].remove(); tail.seen.delete(all[1].dataset.key);"
        " tail.last = all[0].dataset.key; tail.close(); tail.open(); }"
    )
    gap = tab.page.locator("[data-tail-gap]")
    await expect(gap).to_contain_text("are not in this list")
    await gap.get_by_role("link").click()
    await expect(tab.page.locator(".l").get_by_text("long ago")).to_be_visible()
