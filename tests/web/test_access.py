"""Who may come in, and what a browser is told to do with a page."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from itsdangerous import TimestampSigner
from starlette.exceptions import HTTPException
from starlette.requests import Request

import rota
from rota.errors import ConfigError
from rota.web import create_site
from rota.web.session import SECONDS, Sessions
from tests.web.conftest import TOKEN, Browser, browser_of


async def test_a_stranger_is_shown_the_door(stranger: Browser) -> None:
    await stranger.get("/queues?x=1")

    assert stranger.response.url.path == "/sign-in"
    assert 'name="next" value="/queues?x=1"' in stranger.page


async def test_signing_in_leads_where_one_wanted_to_go(stranger: Browser) -> None:
    await stranger.get("/queues")
    await stranger.post("/sign-in", token=TOKEN, next="/queues?a=b")

    assert (stranger.response.url.path, stranger.response.url.query) == ("/queues", b"a=b")


HOSTILE = [
    "",
    "//evil.test/",
    "https://evil.test/",
    "javascript:alert(1)",
    *(f"/{between}/evil.test" for between in ("\\", "\t", "\n", "\r", "\t\n", "\x1f", "\x7f")),
    "/\t\\evil.test",
    "\t//evil.test",
    " //evil.test",
    "/ok\r\nSet-Cookie: a=b",
    "/caf\u00e9",
    "/\u2028/evil.test",
]


@pytest.mark.parametrize("target", HOSTILE)
async def test_nothing_leads_to_another_site(web: Browser, target: str) -> None:
    """After signing in, after an action of a dialog, and after one on a selection."""
    await web.get("/queues")
    given = {"csrf": web.csrf, "token": TOKEN, "next": target}
    response = await web.client.post("/sign-in", data=given)
    assert response.headers["location"] == "/"

    part = {"X-Rota-Part": "question"}
    fields = {"csrf": web.csrf, "reason": "a test"}
    fields = fields | {"came_from": target} if target else fields
    answer = await web.client.post("/queues/mail/pause", data=fields, headers=part)
    assert answer.headers["X-Rota-Go"] == ("/" if target else "/queues/mail")

    chosen = {"verb": "resume", "pick": "mail", "back": target}
    shown = await web.client.get("/selected/queues", params=chosen)
    assert '<a class="btn ghost" data-close href="/">' in shown.text
    fields = {"csrf": web.csrf, "reason": "a test", **chosen}
    answer = await web.client.post("/selected/queues", data=fields, headers=part)
    assert answer.headers["X-Rota-Go"] == "/"


async def test_signing_in_leads_to_a_page_whose_name_is_quoted(stranger: Browser) -> None:
    await stranger.get("/queues/caf%C3%A9%20noir?a=b%20c")
    assert 'name="next" value="/queues/caf%C3%A9%20noir?a=b%20c"' in stranger.page


async def test_a_wrong_token_is_told_and_counted(stranger: Browser) -> None:
    await stranger.get("/sign-in")
    await stranger.post("/sign-in", 403, token="wrong", next="/")
    assert "This token is not valid" in stranger.text
    for _ in range(40):
        response = await stranger.client.post(
            "/sign-in", data={"csrf": stranger.csrf, "token": "wrong"}
        )
        if response.status_code == 429:
            break
    else:
        pytest.fail("nobody counts")
    # Whoever has the token is not kept out by others' failures.
    await stranger.post("/sign-in", token=TOKEN, next="/queues")


async def test_the_cookie_is_out_of_reach_and_ends(stranger: Browser) -> None:
    await stranger.get("/sign-in")
    given = {"csrf": stranger.csrf, "token": TOKEN, "next": "/"}
    cookie = (await stranger.client.post("/sign-in", data=given)).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert f"Max-Age={SECONDS}" in cookie
    assert TOKEN not in cookie


async def test_signing_out(web: Browser) -> None:
    await web.get("/queues")
    await web.post("/sign-out")
    await web.get("/queues")

    assert web.response.url.path == "/sign-in"


def test_a_session_ends_and_another_token_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000]
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: clock[0])
    sessions = Sessions(TOKEN)
    cookie = sessions.begin("ada")

    assert sessions.read(cookie) == "ada"
    assert Sessions("another token 123").read(cookie) is None
    assert sessions.read(cookie[:-2]) is None
    assert sessions.read("x.y") is None
    assert sessions.read("") is None
    clock[0] += SECONDS + 1
    assert sessions.read(cookie) is None


async def test_a_form_of_another_site_is_refused(web: Browser) -> None:
    await web.get("/queues/mail/pause")
    for headers in ({"Origin": "http://evil.test"}, {"Sec-Fetch-Site": "cross-site"}):
        response = await web.client.post(
            "/queues/mail/pause", data={"csrf": web.csrf, "reason": "x"}, headers=headers
        )
        assert response.status_code == 403


async def test_a_form_without_its_token_is_refused(web: Browser) -> None:
    response = await web.client.post("/queues/mail/pause", data={"csrf": "", "reason": "x"})

    assert response.status_code == 403


async def test_the_page_may_load_nothing_from_elsewhere(stranger: Browser) -> None:
    await stranger.get("/sign-in")
    headers = stranger.response.headers

    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


async def test_files_are_compressed_and_kept(web: Browser) -> None:
    await web.get("/queues")
    start = web.page.index("/static/")
    path = web.page[start : web.page.index('"', start)]
    response = await web.client.get(path, headers={"Accept-Encoding": "gzip"})

    assert response.headers["content-encoding"] == "gzip"
    assert "immutable" in response.headers["cache-control"]
    assert (await web.client.get("/static/1/none.css")).status_code == 404


def test_without_a_token_there_is_no_dashboard(make_app: Any) -> None:
    with pytest.raises(ConfigError, match="token"):
        create_site(make_app())


async def test_an_application_says_who_it_is(shop: rota.App, conn: Any) -> None:
    site = create_site(shop, authenticate=lambda request: request.headers.get("x-user"))
    browser = browser_of(site)
    async with browser.client:
        await browser.get("/queues", 401)
        browser.client.headers["x-user"] = "grace"
        await browser.get("/queues/mail/pause")
        await browser.post("/queues/mail/pause", reason="provider is down")

    assert conn.execute("SELECT paused_by FROM rota.queues").fetchone() == ("grace",)


async def test_below_a_prefix(shop: rota.App) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    outer = Starlette(routes=[Mount("/ops/rota", create_site(shop))])
    browser = browser_of(outer)
    async with browser.client:
        await browser.get("/ops/rota/queues")
        assert browser.response.url.path == "/ops/rota/sign-in"
        await browser.post("/ops/rota/sign-in", token=TOKEN, next="/queues")
        assert browser.response.url.path == "/ops/rota/queues"
        assert 'href="/ops/rota/static/' in browser.page
        await browser.get("/ops/rota/queues/mail/pause")
        await browser.post("/ops/rota/queues/mail/pause", reason="x")
        assert "Queue mail is paused" in browser.text
        await browser.get("/ops/rota/health")
        assert browser.response.json()["status"] == "ok"


async def test_whoever_authenticates_may_redirect_or_refuse(shop: rota.App) -> None:
    def authenticate(request: Request) -> str:
        if request.url.path == "/runs":
            raise HTTPException(303, headers={"Location": "/login"})
        raise HTTPException(403, "not on Sundays")

    browser = browser_of(create_site(shop, authenticate=authenticate))
    async with browser.client:
        sent = await browser.client.get("/runs", follow_redirects=False)
        assert (sent.status_code, sent.headers["location"]) == (303, "/login")
        refused = await browser.client.get("/queues")
        assert (refused.status_code, refused.text) == (403, "not on Sundays\n")


async def test_on_loopback_it_is_open_to_this_machine_only(shop: rota.App) -> None:
    browser = browser_of(create_site(shop, is_local=True))
    async with browser.client:
        assert (await browser.client.get("/queues")).status_code == 403
        local = httpx.URL("http://localhost/queues")
        response = await browser.client.get(local)
    assert response.status_code == 200
    assert "no token is needed" in response.text


async def test_pages_are_compressed_for_whoever_takes_them(web: Browser) -> None:
    await web.get("/queues", **{"Accept-Encoding": "br, gzip"})
    packed = web.response.headers

    assert packed["content-encoding"] == "gzip"
    assert packed["vary"] == "Accept-Encoding"
    assert int(packed["content-length"]) < len(web.page.encode()) / 2
    for refused in ("identity", "gzip;q=0", "gzip; q=0.0", "br"):
        await web.get("/queues", **{"Accept-Encoding": refused})
        assert "content-encoding" not in web.response.headers
        assert "</html>" in web.page


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_another_site_asks_for_is_sent_plain(web: Browser, site: str) -> None:
    """Lengths of compressed pages tell whether they repeat what is in the address."""
    await web.get("/queues", **{"Accept-Encoding": "gzip", "Sec-Fetch-Site": site})
    assert "content-encoding" not in web.response.headers
    await web.get("/queues", **{"Accept-Encoding": "gzip", "Sec-Fetch-Site": "same-origin"})
    assert web.response.headers["content-encoding"] == "gzip"


async def test_the_token_of_forms_looks_another_way_each_time(web: Browser) -> None:
    """A page that is compressed and repeats what its address says must not hold a secret that is
    always the same: it could be guessed from lengths."""
    seen = set()
    for _ in range(3):
        await web.get("/queues/mail/pause")
        seen.add(web.csrf)
    kept = web.client.cookies["rota_csrf"]

    assert len(seen) == 3
    assert kept not in web.page
    await web.post("/queues/mail/pause", 403, csrf=kept, reason="x")
    await web.get("/queues/mail/pause")
    await web.post(
        "/queues/mail/pause", csrf=seen.pop(), reason="an older page of the same browser"
    )


@pytest.mark.parametrize("given", ["", "A", "AAAA", "ä", "a" * 5000, "====", "\x7f"])
async def test_an_odd_token_is_refused(web: Browser, given: str) -> None:
    await web.get("/queues/mail/pause")
    await web.post("/queues/mail/pause", 403, csrf=given, reason="x")
