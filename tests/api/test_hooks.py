"""Webhooks: signatures that fit, do not fit, are old or come again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import rota
from rota.api import create_api
from rota.config import Config
from rota.errors import ConfigError
from tests.api.conftest import TOKEN, client_of, problem
from tests.conftest import MakeApp

SECRET = "whsec_a_secret"
HOOKS = {
    "stripe": {"scheme": "stripe", "secret": ["an older secret", SECRET]},
    "github": {"scheme": "github", "secret": SECRET, "tenant": "acme", "body_bytes": 2000},
    "slack": {"scheme": "slack", "secret": SECRET},
    "plain": {"scheme": "hmac", "secret": SECRET, "event": "partner.told"},
    "timed": {"scheme": "hmac", "secret": SECRET, "header": "X-Sign", "timestamp_header": "X-At"},
}


@pytest.fixture
def shop(make_app: MakeApp) -> rota.App:
    app = make_app(**{"server.token": TOKEN, "hooks": HOOKS})

    @app.job(events=["stripe.invoice.*"])
    async def book(hook: str, type: str, delivery: str, body: dict[str, Any]) -> None: ...  # noqa: A002

    return app


@pytest.fixture
async def api(shop: rota.App) -> AsyncIterator[httpx.AsyncClient]:
    """Without a token: senders have none."""
    async with client_of(create_api(shop)) as client:
        yield client


def sign(message: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def request(
    scheme: str, body: bytes, *, at: float | None = None, secret: str = SECRET, **more: str
) -> tuple[str, dict[str, str]]:
    stamp = str(int(time.time() if at is None else at))
    dotted = sign(stamp.encode() + b"." + body, secret)
    headers = {
        "stripe": {"Stripe-Signature": f"t={stamp},v1={'0' * 64},v1={dotted},v0=x"},
        "github": {
            "X-Hub-Signature-256": f"sha256={sign(body, secret)}",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": "guid-1",
        },
        "slack": {
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={sign(b'v0:' + stamp.encode() + b':' + body, secret)}",
        },
        "plain": {"X-Signature": sign(body, secret)},
        "timed": {"X-Sign": dotted, "X-At": stamp},
    }[scheme]
    return f"/hooks/{scheme}", headers | more


BODIES = {
    "stripe": b'{"id": "evt_1", "type": "invoice.paid", "data": {"total": 7}}',
    "github": b'{"ref": "main"}',
    "slack": b'{"type": "event_callback", "event_id": "Ev1", "event": {"type": "app mention*"}}',
    "plain": b"[1, 2]",
    "timed": b'{"type": "x"}',
}
NAMES = {
    "stripe": "stripe.invoice.paid",
    "github": "github.push",
    "slack": "slack.app_mention_",
    "plain": "partner.told",
    "timed": "timed.x",
}


@pytest.mark.parametrize("scheme", list(BODIES))
async def test_a_signature_that_fits(api: httpx.AsyncClient, shop: rota.App, scheme: str) -> None:
    path, headers = request(scheme, BODIES[scheme])
    first = await api.post(path, content=BODIES[scheme], headers=headers)
    assert first.status_code == 200, first.text
    assert first.json()["is_duplicate"] is False
    again = await api.post(path, content=BODIES[scheme], headers=headers)
    assert again.json()["is_duplicate"] is True
    duplicate, event = await shop.events.list()
    assert (event.name, event.source) == (NAMES[scheme], {"webhook": scheme})
    assert event.payload["body"] == json.loads(BODIES[scheme])
    assert (event.tenant, duplicate.duplicate_of) == (HOOKS[scheme].get("tenant", ""), event.id)
    assert event.outcome == ("started" if scheme == "stripe" else "unbound")
    assert await shop.audit.list() == []


async def test_another_time_is_another_delivery(api: httpx.AsyncClient, shop: rota.App) -> None:
    for at in (0, 1, 1):
        path, headers = request("timed", b"{}", at=time.time() - at * 10)
        assert (await api.post(path, content=b"{}", headers=headers)).status_code == 200
    assert [one.outcome for one in await shop.events.list()] == ["duplicate", "unbound", "unbound"]


@pytest.mark.parametrize(
    ("scheme", "changed"),
    [
        ("github", {"X-GitHub-Delivery": "another"}),
        ("github", {"X-GitHub-Event": "repository.deleted"}),
        ("plain", {"X-Delivery-Id": "another", "X-Event-Type": "another"}),
        ("timed", {"X-Delivery-Id": "another", "X-Event-Type": "another"}),
    ],
)
async def test_what_is_not_signed_makes_no_other_delivery(
    api: httpx.AsyncClient, shop: rota.App, scheme: str, changed: dict[str, str]
) -> None:
    """A captured request is sent again under another id, or as an event of another type."""
    path, headers = request(scheme, BODIES[scheme])
    assert (await api.post(path, content=BODIES[scheme], headers=headers)).status_code == 200
    again = await api.post(path, content=BODIES[scheme], headers=headers | changed)
    assert again.json()["is_duplicate"] is True
    duplicate, event = await shop.events.list()
    assert (duplicate.outcome, duplicate.duplicate_of) == ("duplicate", event.id)


@pytest.mark.parametrize("scheme", ["stripe", "slack", "timed"])
async def test_no_header_names_what_the_body_names(
    api: httpx.AsyncClient, shop: rota.App, scheme: str
) -> None:
    path, headers = request(scheme, BODIES[scheme])
    unsigned = {"X-Event-Type": "account.deleted", "X-GitHub-Event": "push"}
    answer = await api.post(path, content=BODIES[scheme], headers=headers | unsigned)
    assert answer.status_code == 200
    (event,) = await shop.events.list()
    assert event.name == NAMES[scheme]


@pytest.mark.parametrize("scheme", ["stripe", "slack"])
async def test_these_senders_name_nothing_in_headers(
    api: httpx.AsyncClient, shop: rota.App, scheme: str
) -> None:
    unsigned = {"X-Event-Type": "account.deleted", "X-GitHub-Event": "push"}
    untold = b'{"id": "evt_2", "event_id": "Ev2"}'
    path, headers = request(scheme, untold)
    await api.post(path, content=untold, headers=headers | unsigned)
    assert (await shop.events.list())[0].name == f"{scheme}.received"


async def test_base64_and_a_prefix(api: httpx.AsyncClient) -> None:
    digest = hmac.new(SECRET.encode(), b"{}", hashlib.sha256).digest()
    for text in (base64.b64encode(digest).decode(), f"sha256={digest.hex()}"):
        answer = await api.post("/hooks/plain", content=b"{}", headers={"X-Signature": text})
        assert answer.status_code == 200


async def test_slack_asks_whether_it_is_us(api: httpx.AsyncClient, shop: rota.App) -> None:
    body = b'{"type": "url_verification", "challenge": "abc"}'
    path, headers = request("slack", body)
    assert (await api.post(path, content=body, headers=headers)).json() == {"challenge": "abc"}
    assert await shop.events.list() == []


@pytest.mark.parametrize("scheme", list(BODIES))
async def test_what_does_not_fit(api: httpx.AsyncClient, shop: rota.App, scheme: str) -> None:
    body = BODIES[scheme]
    path, headers = request(scheme, body)
    wrong, others = request(scheme, body, secret="another secret")[1], {}
    for given in (wrong, others, dict.fromkeys(headers, "x"), dict.fromkeys(headers, "é")):
        encoded = {key: value.encode() for key, value in given.items()}
        problem(await api.post(path, content=body, headers=encoded), 401, "unauthorized")
    problem(await api.post(path, content=body + b" ", headers=headers), 401, "unauthorized")
    assert await shop.events.list() == []
    reasons = {one.reason for one in (await shop.events.refusals(scheme)).items}
    assert reasons == {"bad_signature", "no_signature"}


async def test_a_signature_that_is_none_is_a_bad_one(
    api: httpx.AsyncClient, shop: rota.App
) -> None:
    for text in ("sha256=00", "sha256=not hex at all"):
        await api.post("/hooks/github", content=b"{}", headers={"X-Hub-Signature-256": text})
    assert [one.reason for one in (await shop.events.refusals("github")).items] == ["bad_signature"]


@pytest.mark.parametrize("scheme", ["stripe", "slack", "timed"])
@pytest.mark.parametrize("off", [-301, 302])
async def test_an_old_signature(
    api: httpx.AsyncClient, shop: rota.App, scheme: str, off: float
) -> None:
    path, headers = request(scheme, BODIES[scheme], at=time.time() + off)
    answer = await api.post(path, content=BODIES[scheme], headers=headers)
    problem(answer, 401, "unauthorized")
    (refusal,) = (await shop.events.refusals()).items
    assert (refusal.hook, refusal.reason, refusal.refusals) == (scheme, "stale", 1)


async def test_refusals_are_counted_without_what_was_said(
    api: httpx.AsyncClient, shop: rota.App, conn: Any
) -> None:
    problem(await api.post("/hooks/nothing", content=b"{}"), 404, "not_found")
    problem(await api.post("/hooks/nothing/else", content=b"{}"), 404, "not_found")
    path, headers = request("github", b"x" * 3000)
    problem(await api.post(path, content=b"x" * 3000, headers=headers), 413, "body_too_large")
    odd = '{"a": "\\u0000"}'
    for body in (
        b"", b"no", b"\xff", b'{"a": NaN}', b'"\\u0000"', b"[" * 900 + b"]" * 900,
        odd.encode("utf-16"), odd.encode("utf-32-le"), odd.encode("utf-8-sig"),
    ):  # fmt: skip
        path, headers = request("github", body)
        problem(await api.post(path, content=body, headers=headers), 422, "invalid")
    found = {(one.hook, one.reason): one.refusals for one in (await shop.events.refusals()).items}
    assert sum(found.values()) == 12
    assert set(found) == {
        ("(unknown)", "unknown_hook"), ("github", "too_large"), ("github", "not_json"),
    }  # fmt: skip
    assert SECRET not in str(conn.execute("SELECT r::text FROM rota.hook_refusals r").fetchall())
    assert (await api.get("/hooks/github")).status_code == 405


async def test_who_fails_too_often_is_turned_away(make_app: MakeApp) -> None:
    app = make_app(**{"server.token": TOKEN, "hooks": HOOKS, "server.failures_per_second": 1})
    async with client_of(create_api(app)) as api:
        asked = [api.post("/hooks/nothing", content=b"{}") for _ in range(60)]
        answers = [one.status_code for one in await asyncio.gather(*asked)]
    assert set(answers) == {404, 429}


async def test_a_request_that_fits_is_not_counted(api: httpx.AsyncClient) -> None:
    for n in range(30):
        body = json.dumps({"id": f"evt_{n}", "type": "x"}).encode()
        path, headers = request("stripe", body)
        assert (await api.post(path, content=body, headers=headers)).status_code == 200


def load(tmp_path: Path, text: str, **env: str) -> Config:
    path = tmp_path / "rota.toml"
    path.write_text(text)
    return Config.load(path, env)


def test_the_file_and_the_environment(tmp_path: Path) -> None:
    text = '[hooks.my-shop]\nscheme = "github"\nevent = "shop.{type}"\n[worker]\nconcurrency = 2\n'
    found = load(tmp_path, text, ROTA_HOOK_MY_SHOP_SECRET="new secret, old secret")
    hook = found.hooks["my-shop"]
    assert (hook.secret, hook.event) == (("new secret", "old secret"), "shop.{type}")
    assert "new secret" not in repr(found)
    assert "new secret" not in repr(hook)
    assert found.override({"worker.concurrency": 3}).hooks == found.hooks


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hooks = 1", "one table per webhook"),
        ("[hooks]\nx = 1", "table"),
        ('[hooks.x]\nscheme = "github"', "ROTA_HOOK_X_SECRET"),
        ('[hooks.x]\nscheme = "md5"\nsecret = "long enough"', "scheme"),
        ('[hooks.x]\nsecret = "long enough"', "scheme"),
        ('[hooks.x]\nscheme = "github"\nsecret = "short"', "at least 8"),
        ('[hooks.x]\nscheme = "github"\nsecret = "long enough"\ncolour = 1', "colour"),
        ('[hooks.x]\nscheme = "github"\nsecret = "long enough"\nevent = "a b"', "event"),
        ('[hooks.x]\nscheme = "github"\nsecret = "long enough"\nbody_bytes = 1', "body_bytes"),
        ('[hooks.X]\nscheme = "github"\nsecret = "long enough"', "name"),
    ],
)
def test_what_the_file_may_not_say(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        load(tmp_path, text)
    assert "long enough" not in str(refused.value)


def test_a_secret_of_no_webhook(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ROTA_HOOK_Y_SECRET"):
        load(tmp_path, "", ROTA_HOOK_Y_SECRET="long enough")
