"""The reference of the API as a page."""

from __future__ import annotations

import json
import re

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

import rota
from rota.web import create_site
from rota.web.api_reference import read
from tests.web.conftest import TOKEN, Browser, browser_of


async def test_every_endpoint_and_schema_is_there_with_its_anchor(
    web: Browser, shop: rota.App
) -> None:
    page = await web.get("/api/docs")
    text = web.text.replace("</span> <code>", " ")
    document = create_site(shop).state.rota.describe()
    for path, operations in document["paths"].items():
        for method, one in operations.items():
            assert f'id="{one["operationId"]}"' in page
            assert f"{method.upper()} {path}" in text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in page
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


async def test_examples_can_be_copied_and_show_no_token(web: Browser) -> None:
    await web.get("/api/docs")
    assert TOKEN not in web.page
    assert "curl 'http://rota.test/api/v1/runs'" in web.text
    assert "curl -X POST 'http://rota.test/api/v1/runs/42/retry'" in web.text
    assert "$ROTA_SERVER_TOKEN" in web.text


async def test_the_document_itself(web: Browser) -> None:
    text = await web.get("/api/docs?as=json")
    assert json.loads(text)["openapi"].startswith("3.1")


async def test_nobody_reads_it_without_coming_in(stranger: Browser) -> None:
    response = await stranger.client.get("/api/docs")
    assert response.status_code == 303
    assert "/sign-in" in response.headers["location"]


async def test_mounted_below_a_prefix(shop: rota.App) -> None:
    site = Starlette(routes=[Mount("/ops/rota", create_site(shop))])
    browser = browser_of(site)
    async with browser.client:
        await browser.client.post("/ops/rota/sign-in", data={"token": TOKEN})
        await browser.get("/ops/rota/sign-in")
        await browser.post("/ops/rota/sign-in", token=TOKEN, next="/queues")
        await browser.get("/ops/rota/api/docs")
        assert "curl 'http://rota.test/ops/rota/api/v1/runs'" in browser.text
        assert 'href="/ops/rota/api/docs?as=json"' in browser.page
        answer = await browser.client.get(
            "/ops/rota/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        assert answer.status_code == httpx.codes.OK


def test_a_quote_in_an_example_stays_in_its_quotes() -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/It"}}}}
    document = {
        "info": {"description": "x"},
        "paths": {"/a": {"post": {"operationId": "a", "requestBody": body, "responses": {}}}},
        "components": {"schemas": {"It": {"examples": [{"name": "it's"}]}}},
    }
    (section,) = read(document).sections
    assert section.operations[0].curl("http://x").endswith("""-d '{"name": "it'\\''s"}'""")
