"""The pages of tenants."""

from __future__ import annotations

import io
import tarfile
from typing import Any
from urllib.parse import quote

import rota
from rota.engine.loops.tenants import TenantLoop
from tests.web.conftest import Browser


async def test_the_list_and_one(web: Browser, shop: rota.App) -> None:
    await web.get("/tenants")
    assert "No tenants yet" in web.text
    await shop.tenant("acme").runs.enqueue("send", {"user_id": 1})
    await shop.tenants.set("acme", weight=2, description="a big one", metadata={"plan": "gold"})
    await shop.tenants.set("blue", weight=1)
    await TenantLoop(shop.database).run_once()
    await web.get("/tenants?order=waiting")
    assert "acme a big one active 1" in web.text
    await web.get("/tenants?text=big")
    assert "blue" not in web.text
    await web.get("/tenants?paused=1")
    assert "No matching tenants" in web.text
    await web.get("/tenants/acme")
    assert "gold" in web.text
    assert "No runs are stored" not in web.text
    last = web.text.partition("Last runs")[2]
    assert "queued" in last
    assert "send" in last
    assert 'href="/runs?tenant=acme"' in web.page
    await web.get("/tenants/blue")
    assert "No runs are stored" in web.text
    await web.get("/tenants/none", 404)


async def test_deletion(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.tenant("acme").runs.enqueue("send", {"user_id": 1})
    await web.get("/tenants/acme/delete")
    assert "1 open run" in web.text
    await web.post("/tenants/acme/delete", 422)
    assert "Enter a reason" in web.text
    conn.execute(
        "UPDATE rota.open_runs SET state = 'running', worker = 1, started_at = now(), attempt = 1"
    )
    await web.post("/tenants/acme/delete", 409, reason="left us")
    assert "runs that are running" in web.text
    conn.execute("UPDATE rota.open_runs SET state = 'queued', worker = NULL, started_at = NULL")
    await web.post("/tenants/acme/delete", reason="left us")
    assert "Tenant acme is deleted" in web.text
    assert await shop.runs.list() == []


async def test_names_are_text_and_nothing_else(web: Browser, shop: rota.App) -> None:
    name = '<script>alert("x")<b> ?#%&'
    await shop.tenants.set(name, description="<i>", metadata={"<u>": "<b>"})
    await web.get("/tenants")
    assert "<script>alert" not in web.page
    await web.get(f"/tenants/{quote(name, safe='')}")
    assert "<script>alert" not in web.page
    assert "<u>" not in web.page
    await web.post(f"/tenants/{quote(name, safe='')}/pause", reason="<b>")
    assert (await shop.tenants.get(name)).is_paused


async def test_the_button_exports_all_of_its_data(web: Browser, shop: rota.App) -> None:
    await shop.tenants.set("acme", weight=2)
    await web.get("/tenants/acme")
    assert 'href="/tenants/acme/export" download' in web.page
    answer = await web.client.get("/tenants/acme/export")
    assert answer.headers["content-type"] == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
        assert "settings.jsonl" in archive.getnames()
    assert (await shop.audit.list(action="tenant.exported"))[0].actor == "web:admin"
    await web.get("/tenants/none/export", 404)


async def test_the_chart_of_who_got_how_much(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.tenants.set("acme", weight=3)
    await web.get("/tenants")
    assert "No attempt of a tenant has ended in the last 14 days." in web.text
    conn.execute(
        "INSERT INTO rota.tenant_days (tenant, day, succeeded) SELECT t.name, d::date, t.n FROM"
        " (VALUES ('acme', 300), ('b<b>', 100), ('c', 20), ('d', 20), ('e', 20), ('f', 20),"
        " ('g', 20)) t (name, n), generate_series((rota.now() AT TIME ZONE 'UTC')::date - 1,"
        " (rota.now() AT TIME ZONE 'UTC')::date, interval '1 day') d"
    )
    conn.execute("INSERT INTO rota.tenant_changes (tenant, failed) VALUES ('acme', 5)")
    await web.get("/tenants")
    rows = web.text.partition("Share of work by tenant")[2]
    assert "acme 3 605 60 %" in rows
    assert "b<b> 1 200 20 %" in rows
    assert "2 other tenants 80 8 %" in rows
    assert "<b>" not in web.page.partition("Share of work by tenant")[2].partition("</table>")[0]
    assert 'aria-label="By day, the oldest first: 0, 0, ' in web.page
    assert "0, 300, 305" in web.page
