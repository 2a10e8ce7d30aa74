"""The page Health."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.model.finding import Finding, Report
from rota.web.pages.doctor import as_text
from tests.sql_engine import Engine
from tests.web.conftest import Browser

Conn = psycopg.Connection[Any]


async def test_what_is_so_what_it_costs_and_what_to_do(web: Browser) -> None:
    await web.get("/doctor")

    assert "No worker is live" in web.text
    assert "No runs are executed, no schedules are processed, nothing is cleaned up." in web.text
    assert "Do: start a worker. rota worker" in web.text
    assert 'data-copy="rota worker"' in web.page
    assert "The schema fits this release" in web.text
    assert "Checked" in web.text


async def test_it_is_checked_again_when_asked_for(web: Browser, conn: Conn) -> None:
    await web.get("/doctor")
    Engine(conn).worker()
    await web.get("/doctor")
    assert "No worker is live" in web.text, "known for a while"
    await web.get("/doctor?again=1")
    assert "No worker is live" not in web.text


async def test_findings_are_counted_in_the_navigation(web: Browser) -> None:
    await web.get("/runs")
    assert "findings</span>" in web.page or "finding</span>" in web.page


async def test_names_are_text_and_nothing_else(web: Browser, conn: Conn) -> None:
    Engine(conn).worker()
    conn.execute(
        "UPDATE rota.workers SET name = '<script>alert(1)</script>',"
        " lease_expires_at = clock_timestamp() - interval '1 s'"
    )
    await web.get("/doctor?again=1")
    assert "The lease of <script>alert(1)</script> has expired" in web.text
    assert "<script>alert" not in web.page


@pytest.mark.parametrize("limit", [None, "5 min"])
def test_it_can_be_pasted(limit: str | None) -> None:
    from datetime import UTC, datetime

    finding = Finding("x", "bad", "It is so", "3 h", limit, "It costs.", "do it.", ["now;"])
    report = Report(datetime(2026, 6, 1, tzinfo=UTC), 1.0, 1, 0, 0, [finding])
    said = f"[bad] It is so: 3 h{f' (limit {limit})' if limit else ''}"
    assert as_text(report).splitlines() == [
        "rota doctor, 2026-06-01 00:00:00 UTC",
        said,
        "    It costs.",
        "    do it.",
        "    now;",
    ]


async def test_a_page_stands_while_nobody_can_tell(
    web: Browser, shop: rota.App, conn: Conn
) -> None:
    """The navigation is no reason to fail."""
    conn.execute("ALTER TABLE rota.partitioned RENAME TO partitioned_away")
    await web.get("/doctor?again=1", 503)
    await web.get("/queues")
    assert "finding" not in web.page
