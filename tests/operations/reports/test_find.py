"""Finding things by name or id."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota

Conn = psycopg.Connection[Any]


@pytest.fixture
def world(app: rota.App, conn: Conn) -> None:
    conn.execute(
        """INSERT INTO rota.jobs (name, queue)
           VALUES ('send_mail', 'mail'), ('resend', 'mail'), ('Mailing', 'bulk');
           INSERT INTO rota.schedules (name, job, cron, tenant)
           VALUES ('mail-digest', 'resend', '@daily', ''),
                  ('mail-digest', 'resend', '@daily', 'blue');
           SELECT rota.pause_queue('mail', 'no provider', 'ada')"""
    )


async def kinds(app: rota.App, text: str, **more: Any) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.state) for one in await app.find.named(text, **more)]


async def test_names_that_begin_with_it_come_first(app: rota.App, world: None) -> None:
    assert await kinds(app, "MAIL") == [
        ("schedule", "mail-digest", "active"),
        ("schedule", "mail-digest", "active"),
        ("job", "Mailing", ""),
        ("job", "send_mail", ""),
        ("queue", "mail", "paused"),
    ]
    assert [one.tenant for one in await app.find.named("mail-digest")] == ["", "blue"]


async def test_a_run_by_its_id_and_by_its_key(app: rota.App, conn: Conn, world: None) -> None:
    (number,) = conn.execute("SELECT rota.enqueue('resend', key => 'order 7')").fetchone() or (0,)
    assert await kinds(app, str(number)) == [("run", str(number), "queued")]
    (hit,) = await app.find.named("order 7")
    assert (hit.kind, hit.name, hit.detail, hit.text) == (
        "run", str(number), "resend", f"{number}, key order 7",
    )  # fmt: skip
    assert await kinds(app, str(number + 1)) == []
    assert await kinds(app, "9" * 40) == []


async def test_wildcards_are_letters(app: rota.App, world: None) -> None:
    assert await kinds(app, "%") == []
    assert await kinds(app, "send_") == [("job", "send_mail", "")]
    assert await kinds(app, "' OR 1=1 --") == []


async def test_of_each_kind_so_many_at_most(app: rota.App, conn: Conn) -> None:
    conn.execute("INSERT INTO rota.jobs (name) SELECT 'job ' || n FROM generate_series(1, 300) n")
    conn.execute(
        """INSERT INTO rota.schedules (name, job, cron)
           SELECT 'job ' || n, 'job 1', '@daily' FROM generate_series(1, 300) n"""
    )
    found = await kinds(app, "job 1", limit=5)
    assert [kind for kind, _, _ in found] == ["schedule"] * 5 + ["job"] * 5
    assert found[0][1] == "job 1"


@pytest.mark.parametrize("text", ["", " \0 ", "x" * 201])
async def test_no_text_or_too_much(app: rota.App, text: str) -> None:
    with pytest.raises(rota.FilterError, match="character"):
        await app.find.named(text)
    with pytest.raises(rota.FilterError, match="limit"):
        await app.find.named("x", limit=0)
