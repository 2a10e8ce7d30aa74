"""All data of a tenant: one archive, and gone."""

from __future__ import annotations

import asyncio
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.postgres.tenants.delete import PARTS as DELETED
from rota.postgres.tenants.export import PARTS as EXPORTED
from rota.testing import eventually

Connection = psycopg.Connection[Any]

# Which file of an archive has the rows of a table.
FILES = {"tenants": "settings", "ledger": "occurrences", "tenant_days": "days"}
# By choice: what operators did is the operators', a watch is a trigger of somebody's table, and
# whose the runs of a job are is said by its code.
KEPT = {"audit", "table_watches", "jobs"}
# Counts that are made anew, and who was turned away.
NOT_EXPORTED = {
    "tenant_depths", "tenant_changes", "event_keys", "key_releases",
    "limit_slots",
    "limit_releases", "hook_refusals", "table_watches", "jobs",
}  # fmt: skip


def tables(conn: Connection) -> set[str]:
    """Those that say whose a row is."""
    query = """
        SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'tenant' AND c.relnamespace = 'rota'::regnamespace
          AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    """
    return {row[0] for row in conn.execute(query).fetchall()}


def rows(conn: Connection, tenant: str) -> dict[str, int]:
    found = {}
    for table in tables(conn) - KEPT:
        query = f"SELECT count(*) FROM rota.{table} WHERE tenant = %s"
        row = conn.execute(query, [tenant]).fetchone()
        assert row is not None
        found[table] = row[0]
    return found


def read(path: Path) -> dict[str, list[Any]]:
    with tarfile.open(path) as archive:
        members = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {
            name.removesuffix(".jsonl"): [json.loads(line) for line in content]
            for name, content in members.items()
            if content is not None and name.endswith(".jsonl")
        }


@pytest.fixture
async def busy(app: rota.App, conn: Connection) -> rota.App:
    """Two tenants with some of everything."""

    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0.001})
    async def work(ctx: rota.Context, fails: bool = False) -> None:
        ctx.log.info("working")
        if fails:
            raise ValueError("no")

    for name in ("acme", "blue"):
        tenant = app.tenant(name)
        await tenant.set(weight=2, max_runs_per_day=100)
        await tenant.schedules.put("sync", "work", every=3600)
        await tenant.schedules.put("old", "work", every=3600)
        await tenant.emit("order.paid", {"total": 7}, key="once", key_period=60)
        await app.limits.set("calm", tenant=name, cap=5)
        conn.execute(
            "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason,"
            " tenant, schedule, claimed_at, decided_at) SELECT id, t, t, 'skipped', 'paused',"
            " tenant, name, t, t FROM rota.schedules, rota.now() t WHERE tenant = %s",
            [name],
        )
        await tenant.schedules.delete("old")
    async with app.worker():
        for name in ("acme", "blue"):
            runs = []
            for fails in (True, False):
                job = work.options(key=f"k{fails}", key_keep="forever")
                runs.append(await app.tenant(name).enqueue(job, fails=fails))
                await app.runs.wait(runs[-1].id, timeout=20)
            await app.tenant(name).runs.handle(runs[0].id)
    for name in ("acme", "blue"):
        await app.tenant(name).enqueue(work.options(delay=3600, key="later"))
        conn.execute("SELECT rota.check_quota(%s)", [name])
    return app


def test_every_table_of_tenants_is_in_both(conn: Connection) -> None:
    """A table that gets a column `tenant` needs its place in the archive and in the deletion."""
    there = tables(conn)
    assert {FILES.get(one, one) for one in there - NOT_EXPORTED} == set(EXPORTED) - {
        "settings", "backfills",
    }  # fmt: skip
    traces = {"past_attempts", "logs", "key_releases"}  # which go with others
    assert there - KEPT - traces == set(DELETED) - {
        "backfill_times", "backfills", "schedule_days", "init_runs", "bulk_actions",
    }  # fmt: skip


async def test_export(busy: rota.App, tmp_path: Path, conn: Connection) -> None:
    told: list[int] = []
    to = tmp_path / "acme.tar.gz"
    made = await busy.tenants.by("ada").export("acme", to, on_progress=told.append)
    found = read(to)
    assert {name: len(lines) for name, lines in found.items()} == made.rows
    assert sum(told) == sum(made.rows.values())
    counts = rows(conn, "acme")
    for table in tables(conn) - NOT_EXPORTED - KEPT:
        part = FILES.get(table, table)
        assert len(found[part]) == counts[table], table
    assert {len(found[name]) for name in ("settings", "schedules")} == {1}
    assert len(found["ended_runs"]) == 2
    assert len(found["open_runs"]) == 1
    assert found["logs"]
    assert found["past_attempts"]
    assert all(one["tenant"] == "acme" for part in found for one in found[part] if "tenant" in one)
    assert os.listdir(tmp_path) == ["acme.tar.gz"]
    assert (await busy.audit.list(action="tenant.exported"))[0].actor == "ada"
    with pytest.raises(rota.TenantNotFound):
        await busy.tenants.export("none", to)


async def test_delete(busy: rota.App, conn: Connection) -> None:
    before, others = rows(conn, "acme"), rows(conn, "blue")
    assert all(before[name] for name in ("open_runs", "ended_runs", "logs", "keys", "ledger"))
    amount = await busy.tenants.amount("acme")
    assert (amount.schedules, amount.open_runs, amount.ended_runs) == (1, 1, 2)
    done = await busy.tenants.by("ada").delete("acme", "left us")
    assert done.is_done
    assert (done.removed["open_runs"], done.removed["ended_runs"]) == (1, 2)
    assert set(rows(conn, "acme").values()) == {0}
    assert rows(conn, "blue") == others
    left = conn.execute("SELECT count(*) FROM rota.handled WHERE kind = 'run'").fetchone()
    assert left == (1,)
    with pytest.raises(rota.TenantNotFound):
        await busy.tenants.get("acme")
    (said,) = await busy.audit.list(action="tenant.deleted")
    assert (said.actor, said.reason, said.tenant) == ("ada", "left us", "acme")
    assert said.before == done.removed


async def test_nothing_that_a_tenant_gave_is_left_anywhere(app: rota.App, conn: Connection) -> None:
    """In no table, the audit too; what belongs to others stays."""

    @app.job(max_attempts=1, events=["order.made"])
    async def work(ctx: rota.Context, card: str) -> str:
        ctx.log.info("charging", card=card)
        if card.endswith("bad"):
            raise ValueError("refused")
        return card

    for name in ("acme", "blue"):
        card, tenant = f"card of {name}", app.tenant(name)
        await tenant.schedules.create("monthly", job="work", every=3600, payload={"card": card})
        await tenant.schedules.update("monthly", payload={"card": f"new {card}"})
        await tenant.runs.by("ada").enqueue("work", {"card": card}, metadata={"card": card})
        run = await tenant.enqueue(work.options(key=card), card=f"{card} bad")
        await tenant.emit("order.made", {"card": card})
        async with app.worker():
            await app.runs.wait(run.id, timeout=20)
            await tenant.runs.retry(run.id, payload={"card": f"another {card}"})
            await app.runs.wait(run.id, timeout=20)
            action = await tenant.bulk.start("cancel", text=card)

            async def finished(number: int = action.id) -> None:
                assert (await app.bulk.get(number)).state == "finished"

            await eventually(finished, timeout=20)
    assert {"audit", "ended_runs", "bulk_actions"} <= holding(conn, "card of acme")
    await app.tenants.delete("acme")
    assert holding(conn, "card of acme") == set()
    assert {"audit", "ended_runs", "bulk_actions"} <= holding(conn, "card of blue")
    assert [it.action for it in await app.audit.list(tenant="acme")].count("run.retried") == 1


def holding(conn: Connection, text: str) -> set[str]:
    """The tables with a row that has these words in it."""
    query = """
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition
    """
    found = set()
    for (table,) in conn.execute(query).fetchall():
        words = f"SELECT FROM rota.{table} t WHERE strpos(t::text, %s) > 0 LIMIT 1"
        if conn.execute(words, [text]).fetchone() is not None:
            found.add(table)
    return found


async def test_a_deletion_that_ran_out_of_time_goes_on(busy: rota.App, conn: Connection) -> None:
    calls = [busy.tenants.delete("acme", "left us", seconds=0)]
    first = await calls[0]
    assert not first.is_done
    assert (await busy.tenants.get("acme")).pause_reason == "its data is being deleted"
    assert (await busy.tenants.delete("acme", "left us")).is_done
    assert set(rows(conn, "acme").values()) == {0}


async def test_running_runs_are_refused_or_cancelled(app: rota.App) -> None:
    started = asyncio.Event()

    @app.job
    async def hold() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app.worker():
        await app.tenant("acme").enqueue(hold)
        async with asyncio.timeout(20):
            await started.wait()
        with pytest.raises(rota.WrongState, match="has 1 runs that are running"):
            await app.tenants.delete("acme")
        assert not (await app.tenants.get("acme")).is_paused
        done = await app.tenants.delete("acme", "left us", cancel_running=True)
        assert (done.is_done, done.removed["ended_runs"]) == (True, 1)


async def test_more_than_a_batch(app: rota.App, conn: Connection) -> None:
    @app.job
    async def work() -> None: ...

    await app.tenant("acme").enqueue_many([work.call()] * 2500)
    told: list[int] = []
    done = await app.tenants.delete("acme", on_progress=told.append)
    assert (done.removed["open_runs"], max(told)) == (2500, 1000)


def test_for_sync_callers(app: rota.App, tmp_path: Path) -> None:
    app.tenants.sync.set("acme", weight=2)
    made = app.tenants.sync.export("acme", tmp_path / "a.tar.gz")
    assert made.rows["settings"] == 1
    assert app.tenants.sync.delete("acme").is_done
    app.close_sync()
