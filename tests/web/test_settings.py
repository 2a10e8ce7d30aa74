"""The pages of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rota
from rota.config import Config
from rota.web.pages.settings import sections_of
from tests.web.conftest import TOKEN, Browser


async def test_what_is_kept_and_who_said_so(web: Browser, shop: rota.App, conn: Any) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await shop.jobs.update("send", retention={"days": 3, "count": 5000})
    await web.get("/settings")

    assert "Finished runs, with their attempts 30 days retention.run_days default" in web.text
    assert "Audit forever retention.audit_days default" in web.text
    assert 'send {"days": 3, "count": 5000}' in web.text
    assert 'href="/jobs/send/edit#f-retention"' in web.page


async def test_configuration_in_effect(web: Browser) -> None:
    await web.get("/settings")
    assert "server.token *** secret argument" in web.text
    assert "worker.concurrency" not in web.text, "nobody has set it"
    await web.get("/settings?all=1")
    assert "logs.flush_seconds" in web.text


def test_where_a_value_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text("[worker]\nconcurrency = 3\npoll_seconds = 2\n")
    env = {"ROTA_WORKER_POLL_SECONDS": "4", "ROTA_SERVER_TOKEN": TOKEN}
    config = Config.load(file, env, worker={"lease_seconds": 60})
    shown = {one.setting.key: one for _, ones in sections_of(config, is_all=False) for one in ones}
    assert {key: (one.value, one.source) for key, one in shown.items()} == {
        "worker.concurrency": ("3", "file"),
        "worker.poll_seconds": ("4", "environment"),
        "worker.lease_seconds": ("60", "argument"),
        "server.token": ("***", "environment"),
    }


async def test_no_secret_is_shown(web: Browser, shop: rota.App) -> None:
    for path in ("/settings", "/settings?all=1"):
        await web.get(path)
        assert TOKEN not in web.page
        assert "server.token *** secret" in web.text
        url = shop.config.database_url
        assert url is None or url not in web.page


async def test_zone_and_theme_are_the_viewers_own(web: Browser) -> None:
    await web.get("/settings")
    await web.post("/preferences", zone="Asia/Tokyo", theme="dark", next="/settings")
    assert 'data-theme="dark"' in web.page
    assert 'value="Asia/Tokyo"' in web.page
    await web.post("/preferences", theme="system", next="/settings")
    assert "data-theme" not in web.page
    assert 'value="Asia/Tokyo"' in web.page, "what was not given stays"
    await web.post("/preferences", zone="Mars/Base", next="/settings")
    assert "There is no time zone Mars/Base" in web.text


async def test_nothing_is_past_its_time(web: Browser) -> None:
    await web.get("/settings/retention")

    assert "Nothing to remove" in web.text or "These partitions are empty" in web.text
    assert "Remove" not in web.text


async def test_what_would_be_removed_and_removing_it(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await shop.jobs.update("send", retention={"count": 1})
    for n in range(3):
        run = await shop.runs.enqueue("send", {"user_id": n})
        await shop.runs.cancel(run.id)
    await web.get("/settings/retention")
    assert "send" in web.text
    assert "Remove about 2 rows" in web.text
    await web.post("/settings/retention", reason="disk is full")
    assert "A retention pass has been requested" in web.text
    deeds = await shop.audit.list(object_type="schedule")
    assert [(it.object_id, it.action, it.reason) for it in deeds] == [
        ("rota.prune_logs", "schedule.triggered", "disk is full"),
        ("rota.prune_runs", "schedule.triggered", "disk is full"),
    ]
